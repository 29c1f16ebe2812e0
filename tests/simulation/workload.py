"""Callers as they come: whole groups, dispatched, left, retried and dispatched again, over ids that collide."""

from __future__ import annotations

import random
from dataclasses import dataclass

from groupjudge.errors import GroupFailed, GroupJudgeError, Overloaded, ResultGone
from groupjudge.model import (
    Arrival,
    Fingerprint,
    GroupFailure,
    GroupId,
    GroupKey,
    JudgeFailure,
    Outcome,
    Rewarded,
    Ticket,
    UnnamedKey,
)

from .checker import Watcher
from .world import Host, Loop


@dataclass(frozen=True)
class Habits:
    """How this world's callers behave: seconds, counts, and likelihoods from 0 to 1."""

    groups_each_s: float = 2.0
    sizes: tuple[int, ...] = (2, 2, 3, 4, 4, 8)
    spread_s: float = 4.0
    known_ids: int = 50
    fresh_id: float = 0.6
    unnamed: float = 0.15
    by_member_id: float = 0.1
    whole: float = 0.06
    watched: float = 0.05
    leaves: float = 0.12
    retries: float = 0.15
    late_s: float = 300.0
    again: float = 0.1
    conflict: float = 0.03
    holds: float = 0.0
    jumps: float = 0.0


class Workload:
    """Begins groups until it is stopped."""

    def __init__(self, loop: Loop, rng: random.Random, host: Host, habits: Habits) -> None:
        self.loop, self.rng, self.host, self.habits = loop, rng, host, habits
        self.stopped = False
        self.refused: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self._serial = 0
        self._fresh = 0
        self._attempts: dict[GroupId, int] = {}

    def begin(self) -> None:
        """One more group, and the next one a little later; sometimes a checkpoint, or a sleep of the machine."""
        if self.stopped:
            return
        rng, habits = self.rng, self.habits
        self.loop.later(rng.expovariate(habits.groups_each_s), self.begin)
        Dispatch(self, *self._new_group()).send_all()
        luck = rng.random()
        if luck < habits.holds:
            self.host.hold()
            self.loop.later(rng.random() * 20, self.host.release)
        elif luck < habits.holds + habits.jumps:
            self.loop.jump(rng.random() ** 3 * 3 * habits.late_s)

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    def _new_group(self) -> tuple[GroupKey, int, int, str, bool]:
        rng, habits = self.rng, self.habits
        size = 1 if rng.random() < 0.02 else rng.choice(habits.sizes)
        luck = rng.random()
        by_id = rng.random() < habits.by_member_id and size > 1
        if luck < habits.unnamed:
            label = rng.choice([rng.randrange(20), f"prompt {rng.randrange(20)}", None])
            kind = "task" if isinstance(label, int) else "prompt" if label else "question"
            question = f"unnamed {label} {rng.randrange(3)}"
            attempt = rng.choice([0, 0, 0, 1])
            return UnnamedKey(kind, label, Fingerprint(question.encode()), attempt), attempt, size, question, by_id
        if luck < habits.unnamed + habits.fresh_id:
            self._fresh += 1
            return GroupId(f"fresh {self._fresh}"), 0, size, f"fresh {self._fresh}", by_id
        key = GroupId(f"known {rng.randrange(habits.known_ids)}")
        attempt = self._attempts[key] = max(0, self._attempts.get(key, 0) + rng.choice([0, 0, 1, 1, -1]))
        return key, attempt, 2 + len(key) % 3, f"{key} asks {rng.random() < 0.02}", by_id


class Dispatch:
    """One attempt at one group by one trainer: an answer for each slot."""

    def __init__(self, work: Workload, key: GroupKey, attempt: int, size: int, question: str, by_id: bool) -> None:
        self.work, self.key, self.attempt, self.size, self.question, self.by_id = (
            work,
            key,
            attempt,
            size,
            question,
            by_id,
        )
        rng = work.rng
        self.flavour = rng.randrange(4) if rng.random() < work.habits.conflict else 0
        self.fingerprint = Fingerprint(question.encode())
        self.dispatched_again = False

    def send_all(self) -> None:
        rng, habits, later = self.work.rng, self.work.habits, self.work.loop.later
        is_named = not isinstance(self.key, UnnamedKey)
        if is_named and rng.random() < habits.watched * self.size:
            later(rng.random() * habits.spread_s * 10, Watching(self, rng.randrange(self.size)).send)
        if is_named and not self.by_id and rng.random() < habits.whole:
            later(rng.random() * habits.spread_s, Everything(self, 0).send)
            return
        for slot in range(self.size):
            late = 20 if rng.random() < 0.03 else 1
            later(rng.random() * habits.spread_s * late, Request(self, slot).send)
        if rng.random() < habits.again:
            later(rng.random() * habits.spread_s * 5, self.again, rng.random() < 0.5)

    def again(self, higher: bool) -> None:
        """The trainer lost patience, or its rows: everything once more."""
        if self.dispatched_again or self.work.stopped:
            return
        self.dispatched_again = True
        attempt = self.attempt + higher
        key = self.key
        if isinstance(key, UnnamedKey):
            key = key._replace(attempt=attempt)
        Dispatch(self.work, key, attempt, self.size, self.question, self.by_id).send_all()

    def arrival(self, slot: int) -> Arrival:
        rng = self.work.rng
        size, flavour = self.size, self.flavour
        if rng.random() < self.work.habits.conflict:
            flavour += rng.randrange(3)
            size += size > 1 and rng.random() < 0.3
        return Arrival(
            self.key,
            self.attempt,
            size,
            None if self.by_id else slot,
            self.fingerprint,
            Fingerprint(b"%b/%d #%d says %d" % (self.fingerprint, self.attempt, slot, flavour)),
            self.work.serial(),
            self.question,
            f"member {slot}" if self.by_id else None,
        )


class Request:
    """One caller with one answer: it sends, waits, hangs up, comes back, asks again, or has everything sent again."""

    def __init__(self, dispatch: Dispatch, slot: int) -> None:
        self.dispatch, self.slot, self.work = dispatch, slot, dispatch.work
        self.tries = 0

    def send(self) -> None:
        work, rng = self.work, self.work.rng
        if work.stopped:
            return
        self.tries += 1
        ticket = self.ask()
        if isinstance(ticket, GroupJudgeError):
            self.refused(ticket)
        elif rng.random() < work.habits.leaves:
            work.loop.later(rng.random() * 6, work.host.leave, ticket)
            self._later_again(0.7, rng.random() * 30)

    def ask(self) -> Ticket | GroupJudgeError:
        return self.work.host.submit(self.dispatch.arrival(self.slot), self)

    def refused(self, why: GroupJudgeError) -> None:
        work, rng = self.work, self.work.rng
        work.refused[why.code] = work.refused.get(why.code, 0) + 1
        if isinstance(why, Overloaded):
            self._later_again(0.3, rng.random() * 10)
        elif isinstance(why, ResultGone | GroupFailed) and rng.random() < 0.5:
            work.loop.later(rng.random() * 5, self.dispatch.again, True)

    def replied(self, outcome: Outcome) -> None:
        work, rng = self.work, self.work.rng
        name = type(outcome).__name__
        work.told[name] = work.told.get(name, 0) + 1
        if isinstance(outcome, Rewarded):
            self._later_again(work.habits.retries, rng.random() ** 3 * work.habits.late_s)
        elif isinstance(outcome, JudgeFailure):
            self._later_again(0.2, rng.random() * 5)
            if rng.random() < 0.2:
                work.loop.later(rng.random() * 5, self.dispatch.again, True)
        elif isinstance(outcome, GroupFailure) and rng.random() < 0.3:
            work.loop.later(rng.random() * 5, self.dispatch.again, outcome.kind != "superseded")

    def _later_again(self, likelihood: float, seconds: float) -> None:
        if self.tries < 5 and self.work.rng.random() < likelihood:
            self.work.loop.later(seconds, self.send)


class Everything(Request):
    """A caller with all answers of its group (A1)."""

    def ask(self) -> Ticket | GroupJudgeError:
        size = self.dispatch.size
        arrivals = (self.dispatch.arrival(slot)._replace(size=size) for slot in range(size))
        return self.work.host.submit_all(tuple(arrivals), self)


class Watching(Request):
    """Somebody who asks for a member that another one brought, or not yet (A2)."""

    def ask(self) -> Ticket | GroupJudgeError:
        dispatch = self.dispatch
        return self.work.host.watch(Watcher(dispatch.key, dispatch.attempt, self.slot), self)
