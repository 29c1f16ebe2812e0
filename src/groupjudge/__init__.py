"""groupjudge: group-relative rewards from a generative judge.

The client's names are here, and the errors that it raises; they are imported once somebody asks for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupjudge.client import AsyncClient, Client, Judged, JudgeFailure, Outcome, Rewarded, Submission
    from groupjudge.errors import (
        DeadlinePassed,
        GroupFailed,
        GroupJudgeError,
        InvalidRequest,
        NotFound,
        Overloaded,
        Refusal,
        ShuttingDown,
        Unauthorized,
        UnexpectedReply,
    )

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "DeadlinePassed",
    "GroupFailed",
    "GroupJudgeError",
    "InvalidRequest",
    "JudgeFailure",
    "Judged",
    "NotFound",
    "Outcome",
    "Overloaded",
    "Refusal",
    "Rewarded",
    "ShuttingDown",
    "Submission",
    "Unauthorized",
    "UnexpectedReply",
    "__version__",
]

_OF_THE_CLIENT = {"AsyncClient", "Client", "JudgeFailure", "Judged", "Outcome", "Rewarded", "Submission"}


def __getattr__(name: str) -> Any:
    """Import a public name the first time that it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'groupjudge' has no attribute {name!r}")
    value = getattr(import_module("groupjudge.client" if name in _OF_THE_CLIENT else "groupjudge.errors"), name)
    globals()[name] = value
    return value
