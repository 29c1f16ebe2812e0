"""What judging one group cost: how its requests ended, how long each took, the tokens that the judge reported.

Judges tell one listener for all groups. Each group is judged in a task of its own, and tasks inherit the context they
are made in: so the listener finds the group's record there, whatever tasks judging starts.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_current: ContextVar[Usage | None] = ContextVar("_current", default=None)
_DIGITS = 4


@dataclass(slots=True)
class Usage:
    """`tries` counts requests by how they ended (the words of `JudgeEvents.tried`), `try_s` are their durations in
    seconds; `reported` counts the replies that named their tokens. `defaulted` pairs got the default scores,
    `ambiguous` replies held differing verdicts. `seconds` is how long the group took, its waits included."""

    seconds: float = 0.0
    tries: Counter[str] = field(default_factory=Counter)
    try_s: list[float] = field(default_factory=list)
    reported: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ambiguous: int = 0
    defaulted: int = 0

    def row(self) -> dict[str, Any]:
        """As it is written of a group; `from_row` of the report reads it."""
        return {
            "seconds": round(self.seconds, _DIGITS),
            "tries": dict(self.tries),
            "try_s": [round(seconds, _DIGITS) for seconds in self.try_s],
            "reported": self.reported,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "ambiguous": self.ambiguous,
            "defaulted": self.defaulted,
        }


def begin() -> Usage:
    """The record of the group that the running task judges; what judges tell from here on goes into it."""
    usage = Usage()
    _current.set(usage)
    return usage


class UsageEvents:
    """The listener (`JudgeEvents`) that puts what it hears into the record of its group."""

    def tried(self, result: str, status: int | None, seconds: float) -> None:
        if usage := _current.get():
            usage.tries[result] += 1
            usage.try_s.append(seconds)

    def called(self, result: str, tries: int, seconds: float) -> None: ...

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        if usage := _current.get():
            usage.reported += 1
            usage.prompt_tokens += prompt_tokens
            usage.completion_tokens += completion_tokens

    def ambiguous(self) -> None:
        if usage := _current.get():
            usage.ambiguous += 1

    def defaulted(self) -> None:
        if usage := _current.get():
            usage.defaulted += 1

    def group_scored(self, *, calls_saved: int, is_flat: bool) -> None: ...
