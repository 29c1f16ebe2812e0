"""groupjudge: group-relative rewards from a generative judge.

The client's names are here, what adapters need to serve, and the errors that both raise; they are imported once
somebody asks for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupjudge.client import AsyncClient, Client, Judged, JudgeFailure, Outcome, Rewarded, Submission
    from groupjudge.errors import (
        ConfigurationError,
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
    from groupjudge.serving import ExtraRoute, Given, Settings, serve, settings_of

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigurationError",
    "DeadlinePassed",
    "ExtraRoute",
    "Given",
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
    "Settings",
    "ShuttingDown",
    "Submission",
    "Unauthorized",
    "UnexpectedReply",
    "__version__",
    "serve",
    "settings_of",
]

_OF_THE_CLIENT = {"AsyncClient", "Client", "JudgeFailure", "Judged", "Outcome", "Rewarded", "Submission"}
_OF_THE_SERVER = {"ExtraRoute", "Given", "Settings", "serve", "settings_of"}


def __getattr__(name: str) -> Any:
    """Import a public name the first time that it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'groupjudge' has no attribute {name!r}")
    home = "client" if name in _OF_THE_CLIENT else "serving" if name in _OF_THE_SERVER else "errors"
    value = getattr(import_module(f"groupjudge.{home}"), name)
    globals()[name] = value
    return value
