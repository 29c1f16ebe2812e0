"""What a book retains, as a value that can be compared and printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from groupjudge.core.backing import SessionId
from groupjudge.core.book import Watched
from groupjudge.core.effects import Effect
from groupjudge.core.memory import Exported, Restored
from groupjudge.core.views import GroupView
from groupjudge.model import (
    Arrival,
    Attempt,
    Fingerprint,
    GroupFailure,
    GroupId,
    GroupKey,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Run,
    Slot,
    Ticket,
)


class AnyBook(Protocol):
    """The face that the real book and the model share."""

    def arrive(self, arrival: Arrival, now: float, session: SessionId | None = None) -> Ticket: ...
    def arrive_all(self, arrivals: Sequence[Arrival], now: float) -> Ticket: ...
    def watch(self, key: GroupId, attempt: Attempt, slot: Slot, now: float) -> Watched: ...
    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None: ...
    def install(self, members: Sequence[Restored], now: float) -> None: ...
    def exported(self, session: SessionId) -> Exported | None: ...
    def leave(self, ticket: Ticket) -> None: ...
    def judged(self, run: Run, judgement: Judgement, now: float) -> None: ...
    def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None: ...
    def advance(self, now: float) -> None: ...
    def hold(self) -> None: ...
    def release(self, now: float) -> None: ...
    def close(self, now: float) -> None: ...
    def drain(self) -> list[Effect]: ...
    def next_deadline(self) -> float | None: ...
    def groups(self) -> Iterator[GroupView]: ...
    def records(self) -> Iterator[tuple[GroupKey, Attempt, Fingerprint, float | None]]: ...
    def check(self) -> None: ...


class Shown(NamedTuple):
    """One group: everything of its view but the run, which is a name."""

    key: GroupKey
    attempt: Attempt
    phase: str
    size: int
    present: tuple[Slot, ...]
    callers: int
    started: float
    complete_since: float | None
    finished: float | None
    outcomes: tuple[str, ...] | None
    size_judged: int | None


class State(NamedTuple):
    """Active groups and their records in no order, results in the order of finish, idle records in that of eviction."""

    active: frozenset[Shown]
    results: tuple[Shown, ...]
    active_records: frozenset[tuple[GroupKey, Attempt, Fingerprint]]
    idle_records: tuple[tuple[GroupKey, Attempt, Fingerprint, float], ...]
    next_deadline: float | None


def state(book: AnyBook) -> State:
    groups = [(view.finished is None, _show(view)) for view in book.groups()]
    records = list(book.records())
    return State(
        active=frozenset(shown for active, shown in groups if active),
        results=tuple(shown for active, shown in groups if not active),
        active_records=frozenset((key, attempt, q) for key, attempt, q, idle in records if idle is None),
        idle_records=tuple((key, attempt, q, idle) for key, attempt, q, idle in records if idle is not None),
        next_deadline=book.next_deadline(),
    )


def brief(outcome: Outcome) -> str:
    """An outcome in a word, without the reasons that each book words for itself."""
    if isinstance(outcome, Rewarded):
        note = f" ({outcome.failure_kind}: {outcome.failure_reason})" if outcome.failure_kind else ""
        return f"reward {outcome.reward:g}{note}{_of(outcome)}"
    return f"judge failure{_of(outcome)}" if isinstance(outcome, JudgeFailure) else f"group failure: {outcome.kind}"


def _of(outcome: Rewarded | JudgeFailure) -> str:
    return "" if outcome.group_size_judged is None else f" among {outcome.group_size_judged}"


def _show(view: GroupView) -> Shown:
    outcomes = None
    if view.outcomes is not None:
        by_slot = dict(zip(range(view.size), view.outcomes, strict=True))
        outcomes = tuple(brief(by_slot[slot]) for slot in view.present)
    return Shown(
        view.key,
        view.attempt,
        view.phase,
        view.size,
        view.present,
        view.callers,
        view.started,
        view.complete_since,
        view.finished,
        outcomes,
        view.size_judged,
    )
