"""All groups: the core's face. SKELETON of the agreed interface; the body follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from groupjudge.core.effects import Effect
from groupjudge.model import Arrival, Attempt, GroupFailure, GroupKey, JudgeFailure, Judgement, Outcome, Run, Slot, Ticket


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds are of the same clock as every `now`. `ttl_s` and `max_active_groups` None: no limit."""

    collection_timeout_s: float = 1800.0
    judging_timeout_s: float = 1800.0
    ttl_s: float | None = 3600.0
    max_results: int = 4096
    max_attempt_records: int = 4096
    max_active_groups: int | None = None
    default_score: float = 3.0


@dataclass(frozen=True, slots=True)
class GroupView:
    """What may be shown of a group: no text, no fingerprint."""

    key: GroupKey
    attempt: Attempt
    run: Run
    phase: str  # collecting, judging, completed, judge_failed, group_failed
    size: int
    present: tuple[Slot, ...]
    callers: int
    started: float
    complete_since: float | None
    finished: float | None
    outcomes: tuple[Outcome, ...] | None


class Book:
    """Every input takes `now` (seconds, monotonic; an earlier one than before counts as that one), applies what was due
    by then, and leaves effects for `drain()`. Raising changes nothing."""

    def __init__(self, limits: Limits) -> None: ...

    def arrive(self, arrival: Arrival, now: float, session: str | None = None) -> Ticket:
        """Accept a member, attach a caller to one, or replay a known outcome (then `Settle` follows at once).
        Raises ShuttingDown, QuestionMismatch, Superseded, ResultGone, Overloaded, GroupFailed, SizeMismatch,
        AnswerConflict, GroupClosed, in this order of checks (L7)."""

    def leave(self, ticket: Ticket) -> None:
        """The caller has gone (L8). Unknown or settled tickets are ignored."""

    def judged(self, run: Run, judgement: Judgement, now: float) -> None: ...
    def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None: ...
    def advance(self, now: float) -> None: ...
    def hold(self) -> None:
        """From now on outcomes of judging wait (C15)."""
    def release(self, now: float) -> None: ...
    def close(self, now: float) -> None:
        """L19: every active group fails with kind `shutting_down`; later arrivals raise ShuttingDown."""
    def drain(self) -> list[Effect]: ...
    def next_deadline(self) -> float | None: ...
    def groups(self) -> Iterator[GroupView]: ...
    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
