"""The host: owns the clock, the core, the futures of its callers and the tasks of its judging.

It does what docs/host-contract.md asks of a host: every input goes through one of the methods below, which all end in
`_carry_out`; one timer serves all groups. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

import structlog

from groupjudge.core.backing import Backing, SessionId
from groupjudge.core.book import Book, Watched
from groupjudge.core.census import ACTIVE, Census, Kept
from groupjudge.core.effects import Effect, Release, Seated, Settle, SettleAll, StartJudging, StopJudging
from groupjudge.core.memory import Exported, Restored
from groupjudge.core.views import GroupView
from groupjudge.errors import JudgeFailed
from groupjudge.model import (
    AnswerTexts,
    Arrival,
    Attempt,
    GroupFailure,
    GroupId,
    GroupKey,
    JudgeFailure,
    Judgement,
    Outcome,
    Run,
    Slot,
    Ticket,
    Topic,
)
from groupjudge.scoring import NotFinite

log = structlog.get_logger(__name__)

MAX_REASON = 2000
T = TypeVar("T")


class JudgeGroup(Protocol):
    """Judges the answers of one group, in slot order. `slots` says where they sit, where not all members came (F8)."""

    def __call__(
        self, topic: Topic, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None, /
    ) -> Awaitable[Judgement]:
        """Raises JudgeFailed."""
        ...


class HostEvents(Protocol):
    """Who counts what happens to groups. Methods return at once and do not raise."""

    def group_ended(self, kind: str, seconds: float) -> None:
        """Judging a group ended after `seconds`: `rewarded`, `judge_failed`, `internal` or `cancelled` (with 0.0)."""

    def rewarded(self, rewards: Sequence[float]) -> None:
        """A group has its rewards, in slot order."""

    def wasted(self, calls: int) -> None:
        """So many calls were made early for a group that was never judged, or did not need them (F7)."""

    def failed(self, group: str, attempt: Attempt, why: str) -> None:
        """Judging a group failed. `group` names it, `why` says how; neither holds a text of a judge (L26)."""


class EarlyJudging(Protocol):
    """A group that is judged as its members come (F7); see `judging/early.py`."""

    def add(self, slot: Slot, texts: AnswerTexts) -> None: ...
    def judge(self, texts: Sequence[AnswerTexts], slots: Sequence[Slot] | None = None) -> Awaitable[Judgement]: ...
    def cancel(self) -> int: ...
    async def ended(self) -> None: ...


class Waiting(Generic[T]):
    """One caller's place: `outcome` is done once its member has one (an `Outcome`), or once its whole group has (a
    `SettleAll`), or with None once the caller has gone."""

    __slots__ = ("outcome", "slot", "ticket")

    def __init__(self, ticket: Ticket, outcome: asyncio.Future[T | None]) -> None:
        self.ticket = ticket
        self.outcome = outcome
        self.slot: Slot = 0

    def gone(self) -> None:
        """The caller has hung up."""
        if not self.outcome.done():
            self.outcome.set_result(None)


class Host:
    """Joins a `Book` to an event loop. `judge` judges one group (raises JudgeFailed); `open_early` opens one that is
    judged as its members come, where the book tells of them (F7)."""

    def __init__(
        self,
        book: Book,
        judge: JudgeGroup,
        events: HostEvents,
        clock: Callable[[], float] = time.monotonic,
        open_early: Callable[[Topic, int], EarlyJudging] | None = None,
    ) -> None:
        self._book = book
        self._judge = judge
        self._events = events
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Ticket, Waiting[Any]] = {}
        self._judging: dict[Run, asyncio.Task[None]] = {}
        self._open_early = open_early
        self._early: dict[Run, EarlyJudging] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self.texts_held = 0

    @property
    def callers(self) -> int:
        """How many callers wait for an outcome."""
        return len(self._waiting)

    @property
    def judging(self) -> int:
        """How many groups are being judged."""
        return len(self._judging)

    def now(self) -> float:
        """Seconds of the clock that the core lives by."""
        return self._clock()

    def arrive(self, arrival: Arrival, session: SessionId | None = None) -> Waiting[Outcome]:
        """Hand an answer to the core; raises what `Book.arrive` raises."""
        waiting: Waiting[Outcome] | None = None
        try:
            waiting = self._waits(self._book.arrive(arrival, self._clock(), session))
            self.texts_held += 1
        finally:
            self._carry_out()
        return waiting

    def arrive_all(self, arrivals: Sequence[Arrival]) -> Waiting[SettleAll]:
        """Hand a whole group to the core; raises what `Book.arrive_all` raises."""
        waiting: Waiting[SettleAll] | None = None
        try:
            waiting = self._waits(self._book.arrive_all(arrivals, self._clock()))
            self.texts_held += len(arrivals)
        finally:
            self._carry_out()
        return waiting

    def watch(self, key: GroupId, attempt: Attempt, slot: Slot) -> tuple[Waiting[Outcome], Watched]:
        """Wait for a member that is known; raises what `Book.watch` raises."""
        waiting: Waiting[Outcome] | None = None
        try:
            watched = self._book.watch(key, attempt, slot, self._clock())
            waiting = self._waits(watched.ticket)
        finally:
            self._carry_out()
        return waiting, watched

    def slot_of(self, waiting: Waiting[Outcome]) -> Slot:
        """The slot of a member whose caller waits."""
        slot = self._book.slot_of(waiting.ticket)
        assert slot is not None
        return slot

    def _waits(self, ticket: Ticket) -> Waiting[Any]:
        waiting: Waiting[Any] = Waiting(ticket, self._loop.create_future())
        self._waiting[ticket] = waiting
        return waiting

    def leave(self, waiting: Waiting[Any]) -> None:
        """The caller has gone (L8)."""
        self._waiting.pop(waiting.ticket, None)
        self._book.leave(waiting.ticket)
        self._carry_out()

    @property
    def census(self) -> Census:
        """How many groups there are, and which are the oldest of each phase."""
        return self._book.census

    def kept(self) -> Kept:
        """How much is retained."""
        return self._book.kept()

    def groups(self, most: int) -> tuple[list[GroupView], list[GroupView]]:
        """The active groups, the oldest first, and the finished ones, the newest first; of either at most so many."""
        active = islice(self._book.groups(), min(most, self.active))
        return list(active), list(islice(self._book.newest_results(), most))

    @property
    def active(self) -> int:
        """How many groups are active."""
        return sum(map(self.census.count, ACTIVE))

    def texts(self, run: Run) -> tuple[Topic, tuple[AnswerTexts | None, ...]] | None:
        """The question of an active group, and the answers that have come; None where the group is none."""
        return cast("tuple[Topic, tuple[AnswerTexts | None, ...]] | None", self._book.materials(run))

    def group(self, key: GroupKey, attempt: Attempt) -> GroupView | None:
        """One group, where it is active or retained."""
        return self._book.group(key, attempt)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Outcomes of judging wait from now on (C15); what was due before that is not held."""
        self._book.advance(self._clock())
        self._book.hold()
        self._carry_out()

    def release(self) -> None:
        """Tell what was held."""
        self._book.release(self._clock())
        self._carry_out()

    def session_over(self, session: SessionId, *, dropped: bool) -> None:
        """A session has ended (C23)."""
        self._book.session_over(session, dropped=dropped, now=self._clock())
        self._carry_out()

    def exported(self, session: SessionId) -> Exported | None:
        """What a checkpoint keeps of an open session (C16)."""
        return self._book.exported(session)

    def backing_of(self, session: SessionId) -> Backing | None:
        """What that hangs on (`Book.backing_of`)."""
        return self._book.backing_of(session)

    def install(self, members: Sequence[Restored]) -> None:
        """Take up the members of a checkpoint; raises InvalidCheckpoint, and then has changed nothing."""
        try:
            self._book.install(members, self._clock())
            self._book.check()
        finally:
            self._carry_out()

    async def close(self) -> None:
        """L19: settle every caller, cancel all judging, and wait until nothing of it is left."""
        self._book.close(self._clock())
        self._carry_out()
        if self._timer is not None:
            self._timer.cancel()
        while left := [*self._judging.values(), *self._ending]:
            await asyncio.gather(*left, return_exceptions=True)

    # -- effects ---------------------------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        for effect in self._book.drain():
            self._do[type(effect)](self, effect)
        self._set_timer()

    def _seated(self, effect: Effect) -> None:
        seated = cast(Seated, effect)
        if self._open_early is None:
            return
        if seated.run not in self._early:
            self._early[seated.run] = self._open_early(cast(Topic, seated.topic), seated.size)
        self._early[seated.run].add(seated.slot, cast(AnswerTexts, seated.material))

    def _drop_early(self, run: Run) -> None:
        """Nothing that was begun early for this run is needed any more."""
        early = self._early.pop(run, None)
        if early is not None:
            if wasted := early.cancel():
                self._events.wasted(wasted)
            ending = self._loop.create_task(early.ended())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _start_judging(self, effect: Effect) -> None:
        start = cast(StartJudging, effect)
        task = self._loop.create_task(self._judge_group(start), name=f"judging run {start.run}")
        self._judging[start.run] = task
        task.add_done_callback(lambda done: self._judging_over(start, done))

    def _stop_judging(self, effect: Effect) -> None:
        run = cast(StopJudging, effect).run
        task = self._judging.get(run)
        if task is not None:
            task.cancel()
        else:
            self._drop_early(run)

    def _settle(self, effect: Effect) -> None:
        settle = cast(Settle, effect)
        waiting = self._waiting.pop(settle.ticket)
        waiting.slot = settle.slot
        if not waiting.outcome.done():
            waiting.outcome.set_result(settle.outcome)

    def _settle_all(self, effect: Effect) -> None:
        settle = cast(SettleAll, effect)
        waiting = self._waiting.pop(settle.ticket)
        if not waiting.outcome.done():
            waiting.outcome.set_result(settle)

    def _release(self, effect: Effect) -> None:
        self.texts_held -= 1

    _do: ClassVar[dict[type, Callable[[Host, Effect], None]]] = {
        Seated: _seated,
        StartJudging: _start_judging,
        StopJudging: _stop_judging,
        Settle: _settle,
        SettleAll: _settle_all,
        Release: _release,
    }

    # -- judging ---------------------------------------------------------------------------------------------------

    async def _judge_group(self, start: StartJudging) -> None:
        """Judge one group and report to the core; what it says of a run that is over is dropped there."""
        began = self._clock()
        verdict = await self._verdict(start)
        seconds = self._clock() - began
        kind = "rewarded" if isinstance(verdict, Judgement) else "judge_failed"
        if isinstance(verdict, GroupFailure):
            kind = verdict.kind
        log.info("group_judged", **_names(start), result=kind, seconds=round(seconds, 4))
        self._events.group_ended(kind, seconds)
        if isinstance(verdict, Judgement):
            if self._book.judged(start.run, verdict, self._clock()):
                self._events.rewarded(verdict.rewards)
        else:
            self._book.judging_failed(start.run, verdict, self._clock())
        self._carry_out()

    async def _verdict(self, start: StartJudging) -> Judgement | JudgeFailure | GroupFailure:
        materials = cast(tuple[AnswerTexts, ...], start.materials)
        try:
            slots = () if len(start.slots) == start.size else (start.slots,)
            if (early := self._early.get(start.run)) is not None:
                return await early.judge(materials, *slots)
            return await self._judge(cast(Topic, start.topic), materials, *slots)
        except JudgeFailed as failed:
            log.warning("judge_failed", **_names(start), why=failed.summary)
            self._failed(start, f"the judge failed: {failed.summary}")
            return JudgeFailure(failed.reason[:MAX_REASON])
        except NotFinite as error:
            log.error("no_finite_reward", **_names(start))
            self._failed(start, "a reward was no finite number")
            return GroupFailure("internal", str(error)[:MAX_REASON])
        except Exception as error:
            log.error("judging_broke", **_names(start), error=type(error).__name__)
            self._failed(start, f"an internal error while judging ({type(error).__name__})")
            return GroupFailure("internal", f"an internal error while judging ({type(error).__name__})")

    def _failed(self, start: StartJudging, why: str) -> None:
        self._events.failed(_shown(start.key), start.attempt, why[:MAX_REASON])

    def _judging_over(self, start: StartJudging, task: asyncio.Task[None]) -> None:
        self._judging.pop(start.run, None)
        self._drop_early(start.run)
        if task.cancelled():
            self._events.group_ended("cancelled", 0.0)
        elif (error := task.exception()) is not None:
            log.critical("host_broke", **_names(start), error=repr(error)[:200])

    # -- time --------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Wake at the next deadline. A timer that is early does no harm: it sets itself anew."""
        due = self._book.next_deadline()
        if due is None or due >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(0.001, due - self._clock()), self._wake)

    def _wake(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self._book.advance(self._clock())
        self._carry_out()


def _names(start: StartJudging) -> dict[str, object]:
    """What a log line may say of a group (L26)."""
    return {"group": _shown(start.key), "attempt": start.attempt, "run": start.run}


def _shown(key: GroupKey) -> str:
    """A key as people are shown it."""
    return (key if isinstance(key, str) else f"{key.kind}:{key.label}")[:128]
