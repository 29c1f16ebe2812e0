"""What the tests of the core share: arrivals in one word, a book with a clock, and a look at everything it holds."""

from __future__ import annotations

from enum import Enum
from itertools import count
from math import nan
from typing import Any

from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Effect, Settle, StartJudging
from groupjudge.model import (
    Arrival,
    Fingerprint,
    GroupId,
    GroupKey,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Run,
    Ticket,
    UnnamedKey,
)

NO_REWARDS = (nan, nan)


def arrival(
    slot: int | None = 0,
    *,
    key: str | UnnamedKey = "g",
    attempt: int = 0,
    size: int = 2,
    question: str = "q",
    answer: str | None = None,
    member: str | None = None,
    material: object = None,
) -> Arrival:
    """An answer on its way. Left to itself every slot (or member) has an answer of its own, the same at each call."""
    name = answer if answer is not None else f"answer of {slot if member is None else member}"
    return Arrival(
        key if isinstance(key, UnnamedKey) else GroupId(key),
        attempt,
        size,
        None if member is not None else slot,
        Fingerprint(question.encode()),
        Fingerprint(name.encode()),
        material if material is not None else f"material of {name}",
        f"topic of {question}",
        member,
    )


def unnamed(label: int = 7, *, question: str = "q", attempt: int = 0) -> UnnamedKey:
    return UnnamedKey("task", label, Fingerprint(question.encode()), attempt)


def judgement(*rewards: float) -> Judgement:
    return Judgement(rewards, (), None)


def outcomes(effects: list[Effect]) -> dict[Ticket, Outcome]:
    """Who was told what; a caller that is told twice fails the test."""
    told = [effect for effect in effects if isinstance(effect, Settle)]
    assert len({effect.ticket for effect in told}) == len(told)
    return {effect.ticket: effect.outcome for effect in told}


def rewards(effects: list[Effect]) -> dict[Ticket, float]:
    """Who was told which reward; every outcome must be one."""
    told = outcomes(effects)
    assert all(isinstance(outcome, Rewarded) for outcome in told.values())
    return {ticket: outcome.reward for ticket, outcome in told.items() if isinstance(outcome, Rewarded)}


def started(effects: list[Effect]) -> list[Run]:
    """The runs whose judging is to begin."""
    return [effect.run for effect in effects if isinstance(effect, StartJudging)]


def kinds(effects: list[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


class Play:
    """A book and the time of day. `book.check()` runs after every input."""

    def __init__(self, now: float = 0.0, **limits: Any) -> None:
        self.book = Book(Limits(**limits))
        self.now = now

    def arrive(self, slot: int | None = 0, **fields: Any) -> Ticket:
        ticket = self.book.arrive(arrival(slot, **fields), self.now)
        self.book.check()
        return ticket

    def advance(self, now: float) -> list[Effect]:
        self.now = now
        self.book.advance(now)
        self.book.check()
        return self.book.drain()

    def judged(self, run: Run, *rewards: float) -> list[Effect]:
        self.book.judged(run, judgement(*rewards), self.now)
        self.book.check()
        return self.book.drain()

    def judge_failed(self, run: Run, reason: str = "the judge is ill") -> list[Effect]:
        self.book.judging_failed(run, JudgeFailure(reason), self.now)
        self.book.check()
        return self.book.drain()

    def release(self) -> list[Effect]:
        self.book.release(self.now)
        self.book.check()
        return self.book.drain()

    def close(self) -> list[Effect]:
        self.book.close(self.now)
        self.book.check()
        return self.book.drain()

    def complete(self, key: str | UnnamedKey = "g", *, size: int = 2, **fields: Any) -> Run:
        """Bring every member of a group; its run, which waits for verdicts now."""
        for slot in range(size):
            self.arrive(slot, key=key, size=size, **fields)
        (run,) = started(self.book.drain())
        return run

    def finish(self, key: str | UnnamedKey = "g", **fields: Any) -> None:
        """Bring a whole group and judge it: slot 0 gets 1.0, slot 1 gets 2.0, and so on."""
        run = self.complete(key, **fields)
        self.judged(run, *(1.0 + slot for slot in range(fields.get("size", 2))))

    def finish_without_judge(self, key: str | UnnamedKey = "g", **fields: Any) -> None:
        """Bring a whole group whose judge fails."""
        self.judge_failed(self.complete(key, **fields))

    def spoil(self, key: str | UnnamedKey = "g", **fields: Any) -> None:
        """Bring a whole group that fails as a group: its judging gives no rewards that are numbers."""
        self.judged(self.complete(key, **fields), *NO_REWARDS)

    def phases(self) -> dict[GroupKey, str]:
        return {view.key: view.phase for view in self.book.groups()}

    def records(self) -> list[tuple[GroupId, int]]:
        return [(key, attempt) for key, attempt, _, _ in self.book.records()]

    def state(self) -> Any:
        """Everything that the book holds, the time aside, as a value to compare."""
        return [(name, frozen(value)) for name, value in vars(self.book).items() if name != "_now"]


def frozen(value: Any) -> Any:
    """`value` with all that hangs on it, in its order, as plain values."""
    if value is None or isinstance(value, str | bytes | int | float | Enum):
        return value
    if isinstance(value, count):
        return repr(value)
    if isinstance(value, dict):
        return [(frozen(key), frozen(item)) for key, item in value.items()]
    if callable(value):
        return getattr(value, "__name__", repr(value))
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(frozen, value)]
    names = value.__slots__ if hasattr(value, "__slots__") else vars(value)
    return [type(value).__name__, *((name, frozen(getattr(value, name))) for name in names)]
