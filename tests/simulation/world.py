"""The parts around the book in a world without I/O: a clock that only events move, a host, and a judge."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Release, Seated, Settle, SettleAll, StartJudging, StopJudging
from groupjudge.errors import GroupJudgeError
from groupjudge.model import (
    Arrival,
    GroupFailure,
    GroupId,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Run,
    Slot,
    Ticket,
)

from .checker import Checker, Watcher, Whole


class Loop:
    """Discrete events in the order of their time, ties in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.count = 0
        self._asked = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []

    def later(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        self._asked += 1
        heapq.heappush(self._queue, (self.now + seconds, self._asked, do, args))

    def run(self, events: float = math.inf) -> None:
        """Until so many events have happened, or nothing is left to happen."""
        queue, pop, done = self._queue, heapq.heappop, 0
        while queue and done < events:
            due, _, do, args = pop(queue)
            if due > self.now:
                self.now = due
            do(*args)
            done += 1
        self.count += done

    def jump(self, seconds: float) -> None:
        """The machine slept: what was due meanwhile happens late."""
        self.now += seconds


class Caller(Protocol):
    """Whoever sent a request and waits."""

    def replied(self, outcome: Outcome) -> None: ...


class Host:
    """Executes the book's effects in order, and keeps one timer for all groups."""

    def __init__(self, loop: Loop, rng: random.Random, book: Book, limits: Limits, nature: Nature) -> None:
        self.loop, self.rng, self.nature = loop, rng, nature
        self.book = book
        self.checker = Checker(limits.default_score, limits.min_members, eager=limits.eager)
        self.judge = Judge(self, nature)
        self._waiting: dict[Ticket, Caller] = {}
        self._timer: float | None = None
        self.trace = 0

    def submit(self, arrival: Arrival, caller: Caller) -> Ticket | GroupJudgeError:
        """The caller's ticket (its reply may have come already), or why it was refused."""
        return self._admit(lambda: self.book.arrive(arrival, self.clock()), arrival, caller)

    def submit_all(self, arrivals: tuple[Arrival, ...], caller: Caller) -> Ticket | GroupJudgeError:
        """The same for a whole group."""
        whole = Whole(arrivals[0].key, arrivals[0].attempt, arrivals)
        return self._admit(lambda: self.book.arrive_all(arrivals, self.clock()), whole, caller)

    def watch(self, watcher: Watcher, caller: Caller) -> Ticket | GroupJudgeError:
        """The same for somebody who asks for a member."""
        where = (GroupId(str(watcher.key)), watcher.attempt, watcher.slot)
        return self._admit(lambda: self.book.watch(*where, self.clock()).ticket, watcher, caller)

    def _admit(
        self, input: Callable[[], Ticket], what: Arrival | Whole | Watcher, caller: Caller
    ) -> Ticket | GroupJudgeError:
        try:
            ticket = input()
        except GroupJudgeError as refusal:
            self.execute()
            return refusal
        self.checker.accepted(ticket, what)
        self._waiting[ticket] = caller
        self.execute()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """The caller hangs up; nothing happens where it was answered meanwhile."""
        if self._waiting.pop(ticket, None) is not None:
            self.checker.left(ticket)
        self.book.leave(ticket)
        self.execute()

    def report(self, run: Run, judgement: Judgement | JudgeFailure | GroupFailure) -> None:
        now = self.clock()
        self.book.advance(now)
        self.execute()
        self.checker.judge_reports(run)
        if isinstance(judgement, Judgement):
            self.book.judged(run, judgement, now)
        else:
            self.book.judging_failed(run, judgement, now)
        self.execute()

    def hold(self) -> None:
        self.book.hold()
        self.execute()

    def release(self) -> None:
        self.book.release(self.clock())
        self.execute()

    def close(self) -> None:
        self.book.close(self.clock())
        self.execute()

    def clock(self) -> float:
        """What the clock shows; now and then it is read a little too early."""
        return self.loop.now - 0.5 if self.rng.random() < self.nature.clock_slips else self.loop.now

    def execute(self) -> None:
        checker = self.checker
        for effect in self.book.drain():
            kind = type(effect)
            if kind is Settle:
                checker.settled(effect)
                self._reply(effect.ticket, effect.slot, effect.outcome)
            elif kind is SettleAll:
                checker.settled_all(effect)
                self._reply(effect.ticket, 0, effect.outcomes[0])
            elif kind is Release:
                checker.released(effect)
            elif kind is Seated:
                checker.seated(effect)
            elif kind is StartJudging:
                checker.judging_started(effect)
                self.judge.start(effect)
            else:
                assert isinstance(effect, StopJudging)
                checker.judging_stopped(effect.run)
                self.judge.stop(effect.run)
        checker.batch_over()
        self._set_timer()

    def _reply(self, ticket: Ticket, slot: Slot, outcome: Outcome) -> None:
        told = int(outcome.reward) if isinstance(outcome, Rewarded) else len(outcome.reason)
        self.trace = (self.trace * 31 + ticket * 7 + slot * 3 + told) % (2**61 - 1)
        self.loop.later(0.0, self._waiting.pop(ticket).replied, outcome)

    def _set_timer(self) -> None:
        due = self.book.next_deadline()
        if due is not None and (self._timer is None or due < self._timer):
            self._timer = due
            late = self.rng.random() * 2 if self.rng.random() < self.nature.timer_late else 0.0
            self.loop.later(max(0.0, due - self.loop.now) + late, self._wake, due)

    def _wake(self, due: float) -> None:
        if due == self._timer:
            self._timer = None
            self.book.advance(self.loop.now)
            self.execute()


@dataclass(frozen=True)
class Nature:
    """How likely things go wrong in this world, from 0 to 1, and how slow its judge is in seconds."""

    clock_slips: float = 0.02
    timer_late: float = 0.1
    judge_s: float = 2.0
    judge_sleeps: float = 0.03
    judge_fails: float = 0.06
    judge_errs: float = 0.05
    judge_never: float = 0.02
    judge_repeats: float = 0.05
    cancelled_too_late: float = 0.3


class Judge:
    """Rewards each answer with its serial number, after a while; or fails, errs, sleeps, repeats itself, or is gone."""

    def __init__(self, host: Host, nature: Nature) -> None:
        self.host, self.nature, self.rng, self.loop = host, nature, host.rng, host.loop
        self._out: set[Run] = set()

    def start(self, effect: StartJudging) -> None:
        nature, rng = self.nature, self.rng
        self._out.add(effect.run)
        if rng.random() < nature.judge_never:
            return
        reply = self._reply(effect)
        seconds = rng.random() * nature.judge_s * (40 if rng.random() < nature.judge_sleeps else 1)
        self.loop.later(seconds, self._deliver, effect.run, reply)
        if rng.random() < nature.judge_repeats:
            self.loop.later(seconds * (1 + rng.random()), self._deliver, effect.run, self._reply(effect))

    def stop(self, run: Run) -> None:
        """A reply that is already on its way comes all the same."""
        if self.rng.random() >= self.nature.cancelled_too_late:
            self._out.discard(run)

    def _deliver(self, run: Run, reply: Judgement | JudgeFailure | GroupFailure) -> None:
        if run in self._out:
            self.host.report(run, reply)

    def _reply(self, effect: StartJudging) -> Judgement | JudgeFailure | GroupFailure:
        luck = self.rng.random()
        rewards = [float(material) for material in effect.materials]  # type: ignore[arg-type]
        if luck < self.nature.judge_fails:
            return JudgeFailure(f"the judge failed run {effect.run}, says reply {luck}")
        if luck < self.nature.judge_fails + self.nature.judge_errs:
            kind = self.rng.randrange(4)
            if kind == 0:
                return GroupFailure("internal", f"run {effect.run} met a defect")
            if kind == 1:
                rewards[self.rng.randrange(len(rewards))] = math.nan
            else:
                rewards = rewards[1:] if kind == 2 else [*rewards, 1.0]
        return Judgement(tuple(rewards), (), None)
