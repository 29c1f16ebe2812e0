"""The real book and the model driven side by side by the same inputs: both must answer and retain the same.

Tickets and runs are names that each book chooses for itself; `Lockstep` keeps them in pairs. A ticket is known by the
number of its arrival, a run by the number of the `StartJudging` that announced it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from groupjudge.core.backing import SessionId
from groupjudge.core.book import Book, Limits, Watched
from groupjudge.core.effects import Effect, Release, Seated, Settle, SettleAll, StartJudging, StopJudging
from groupjudge.core.memory import Exported, Restored
from groupjudge.errors import GroupJudgeError
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
    Run,
    Ticket,
    UnnamedKey,
)

from .model import ModelBook
from .view import AnyBook, brief, state

SESSIONS = tuple(SessionId(f"session {n}") for n in range(5))


@dataclass(frozen=True)
class Call:
    """One judging that was announced: the run in either book, its group's size."""

    real: Run
    model: Run
    size: int


class Lockstep:
    """Applies each input to both books and compares what came out of them and what is left in them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.clock = 0.0
        self.materials = 0
        self.begin()

    def begin(self) -> None:
        """Two books that know nothing."""
        self.real, self.model = Book(self.limits), ModelBook(self.limits)
        self.tickets: list[tuple[Ticket, Ticket]] = []
        self.calls: list[Call] = []
        self.running: set[int] = set()
        self.seated: dict[Run, Run] = {}
        """The runs that have members seated and are not judged yet: the book's name and the model's."""

    def arrive(
        self,
        key: GroupKey,
        attempt: Attempt,
        size: int,
        slot: int | str,
        q: str,
        answer: str,
        session: SessionId | None = None,
    ) -> None:
        """`slot`: an index, or a member id."""
        arrival = self._arrival(key, attempt, size, slot, q, answer)

        def input(book: AnyBook) -> Ticket:
            return book.arrive(arrival, self.clock, session)

        results = self._both(input, compare=False)
        if results is not None:
            self.tickets.append(results)
        self._compare()

    def arrive_all(self, key: GroupKey, attempt: Attempt, q: str, answers: Sequence[str]) -> None:
        """A whole group at once."""
        size = len(answers)
        arrivals = [self._arrival(key, attempt, size, slot, q, answer) for slot, answer in enumerate(answers)]
        results = self._both(lambda book: book.arrive_all(arrivals, self.clock), compare=False)
        if results is not None:
            self.tickets.append(results)
        self._compare()

    def watch(self, key: GroupKey, attempt: Attempt, slot: int) -> None:
        """Somebody asks for a member by its place."""
        watched: list[Watched] = []

        def input(book: AnyBook) -> Ticket:
            watched.append(book.watch(GroupId(str(key)), attempt, slot, self.clock))
            return watched[-1].ticket

        results = self._both(input, compare=False)
        if results is not None:
            self.tickets.append(results)
            real, model = watched
            assert real.member_id == model.member_id
            lives = [life for life in self.model.lives if (life.key, life.attempt) == (key, attempt)]
            assert real.backing is not None
            assert real.backing.sessions == lives[0].sessions
        self._compare()

    def _arrival(self, key: GroupKey, attempt: Attempt, size: int, slot: int | str, q: str, answer: str) -> Arrival:
        self.materials += 1
        return Arrival(
            key=key,
            attempt=attempt,
            size=size,
            slot=None if isinstance(slot, str) else slot,
            question=Fingerprint(q.encode()),
            answer=Fingerprint(answer.encode()),
            material=(self.materials, answer),
            topic=(self.materials, q),
            member_id=slot if isinstance(slot, str) else None,
        )

    def session_over(self, session: SessionId, dropped: bool) -> None:
        self._both(lambda book: book.session_over(session, dropped=dropped, now=self.clock))

    def export(self) -> list[Restored]:
        """What a checkpoint would keep now."""
        exported = [(session, self.real.exported(session)) for session in SESSIONS]
        return [Restored(session, member) for session, member in exported if member is not None]

    def install(self, members: list[Restored]) -> None:
        self._both(lambda book: book.install(members, self.clock))

    def leave(self, ticket: int) -> None:
        real, model = self.tickets[ticket]
        self._both(lambda book: book.leave(real if book is self.real else model))

    def judged(self, call: int, judgement: Judgement) -> None:
        self._both(lambda book: book.judged(self._run(book, call), judgement, self.clock))
        self.running.discard(call)

    def judging_failed(self, call: int, why: JudgeFailure | GroupFailure) -> None:
        self._both(lambda book: book.judging_failed(self._run(book, call), why, self.clock))
        self.running.discard(call)

    def judged_unknown(self, judgement: Judgement) -> None:
        self._both(lambda book: book.judged(Run(10**9), judgement, self.clock))

    def step(self, seconds: float) -> None:
        """Move the time that the next inputs carry, forwards or backwards."""
        self.clock += seconds

    def step_to_deadline(self) -> None:
        self.clock = self.model.next_deadline() or self.clock

    def advance(self) -> None:
        self._both(lambda book: book.advance(self.clock))

    def hold(self) -> None:
        self._both(lambda book: book.hold())

    def release(self) -> None:
        self._both(lambda book: book.release(self.clock))

    def close(self) -> None:
        self._both(lambda book: book.close(self.clock))

    # Comparing

    def _run(self, book: AnyBook, call: int) -> Run:
        return self.calls[call].real if book is self.real else self.calls[call].model

    def _both(self, input: Callable[[AnyBook], Ticket | None], compare: bool = True) -> tuple[Ticket, Ticket] | None:
        (real, real_error), (model, model_error) = _outcome(self.real, input), _outcome(self.model, input)
        assert real_error == model_error, f"book: {real_error or 'accepted'}, model: {model_error or 'accepted'}"
        if compare:
            self._compare()
        return None if real is None or model is None else (real, model)

    def _compare(self) -> None:
        self.real.check()
        real, model = self.real.drain(), self.model.drain()
        self._compare_seats(_only(real, Seated), _only(model, Seated))
        self._compare_starts(_only(real, StartJudging), _only(model, StartJudging))
        self._compare_stops(real, model)
        self._compare_settles(_only(real, Settle), _only(model, Settle))
        assert self._wholes(real, 0) == self._wholes(model, 1), "whoever brought a whole group is told something else"
        released = sorted(e.material for e in _only(real, Release))
        assert released == sorted(e.material for e in _only(model, Release)), "other material released"
        for session in SESSIONS:
            book, model = self.real.exported(session), self.model.exported(session)
            assert _told(book) == _told(model), f"{session}: the book exports {book}, the model {model}"
        ours, theirs = state(self.real), state(self.model)
        self._compare_deadlines(ours.next_deadline, theirs.next_deadline)
        for part in ours._fields[:-1]:
            book, model = getattr(ours, part), getattr(theirs, part)
            assert book == model, f"{part}: the book has {book}, the model {model}"

    def _wholes(self, effects: Sequence[Effect], which: int) -> dict[int, object]:
        """What those were told who brought a whole group, by the number of their arrival."""
        numbers = {pair[which]: n for n, pair in enumerate(self.tickets)}
        found = _only(effects, SettleAll)
        told = {numbers[e.ticket]: (tuple(map(brief, e.outcomes)), e.judgement) for e in found}
        assert len(told) == len(found), "a caller was answered twice"
        return told

    def _compare_deadlines(self, real: float | None, model: float | None) -> None:
        """The book must ask to be woken in time; where something is spared (C18) it may ask too early."""
        if real is None or not any(life.sessions for life in self.model.lives):
            assert real == model, f"next_deadline: the book has {real}, the model {model}"
        else:
            assert self.model.clock < real <= (math.inf if model is None else model)

    def _compare_seats(self, real: Sequence[Seated], model: Sequence[Seated]) -> None:
        assert [e[1:] for e in real] == [e[1:] for e in model], "another member seated"
        for ours, theirs in zip(real, model, strict=True):
            assert self.seated.setdefault(ours.run, theirs.run) == theirs.run, "members of two groups in one run"

    def _compare_starts(self, real: Sequence[StartJudging], model: Sequence[StartJudging]) -> None:
        assert [e[1:] for e in real] == [e[1:] for e in model], "another judging announced"
        for ours, theirs in zip(real, model, strict=True):
            self.running.add(len(self.calls))
            self.calls.append(Call(ours.run, theirs.run, len(ours.materials)))
            assert (self.seated.pop(ours.run, None) is not None) == self.limits.eager, "judged without being seated"

    def _compare_stops(self, real: Sequence[Effect], model: Sequence[Effect]) -> None:
        early = {e.run: self.seated.pop(e.run) for e in _only(real, StopJudging) if e.run in self.seated}
        real = [e for e in _only(real, StopJudging) if e.run not in early]
        gone = [e.run for e in _only(model, StopJudging) if e.run in early.values()]
        assert sorted(gone) == sorted(early.values()), "another collecting was stopped"
        model = [e for e in _only(model, StopJudging) if e.run not in gone]
        numbers = {call.real: n for n, call in enumerate(self.calls)}
        stopped = sorted(numbers[e.run] for e in _only(real, StopJudging))
        numbers = {call.model: n for n, call in enumerate(self.calls)}
        assert stopped == sorted(numbers[e.run] for e in _only(model, StopJudging)), "another judging stopped"
        assert self.running.issuperset(stopped), "a judging was stopped that is not running"
        self.running.difference_update(stopped)

    def _compare_settles(self, real: Sequence[Settle], model: Sequence[Settle]) -> None:
        numbers = {ticket: n for n, (ticket, _) in enumerate(self.tickets)}
        ours = {numbers[e.ticket]: e for e in real}
        assert len(ours) == len(real), "a caller was answered twice"
        numbers = {ticket: n for n, (_, ticket) in enumerate(self.tickets)}
        theirs = {numbers[e.ticket]: e for e in model}
        assert {n: (e.slot, brief(e.outcome)) for n, e in ours.items()} == {
            n: (e.slot, brief(e.outcome)) for n, e in theirs.items()
        }
        for n, settle in ours.items():
            _compare_reasons(settle.outcome, theirs[n].outcome)


def _outcome(
    book: AnyBook, input: Callable[[AnyBook], Ticket | None]
) -> tuple[Ticket | None, type[GroupJudgeError] | None]:
    try:
        return input(book), None
    except GroupJudgeError as error:
        return None, type(error)


def _told(exported: Exported | None) -> tuple[object, ...] | None:
    return None if exported is None else (*exported[:-1], brief(exported.outcome))


def _only(effects: Sequence[Effect], kind: type) -> list:
    return [e for e in effects if isinstance(e, kind)]


def _compare_reasons(real: Outcome, model: Outcome) -> None:
    """The numbers that the model gives must stand in the book's sentence; the words are its own."""
    if isinstance(model, JudgeFailure) and model.reason:
        assert real == model
    if isinstance(real, GroupFailure | JudgeFailure):
        assert 0 < len(real.reason) <= 2000
    if isinstance(real, GroupFailure) and isinstance(model, GroupFailure):
        said = re.findall(r"\d+", real.reason)
        assert [n for n in re.findall(r"\d+", model.reason) if n not in said] == [], real.reason


def named(name: str) -> GroupKey:
    return GroupId(name)


def unnamed(label: int | str | None, question: str, attempt: Attempt) -> UnnamedKey:
    kinds = {int: "task", str: "prompt", type(None): "question"}
    return UnnamedKey(kinds[type(label)], label, Fingerprint(question.encode()), attempt)
