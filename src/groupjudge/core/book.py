"""All groups: the core's face.

Theory. Between two inputs nothing changes but time. So every input first catches up: deadlines that lie between the
last input and now happen at their own times and in their order, then what is over age is evicted. A group is *active*
from its first member to its outcome; then it is a *result*, until it is evicted or a newer attempt takes its place. Of
a group id the newest attempt is known from its active group, or from its idle record, or from its result (L10): while a
group is active it has no record in the store, since active groups' records never expire and do not count (L18).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite
from typing import NamedTuple, cast

from groupjudge.core.admission import asked_for, check_unknown, failed, met_by, newest_attempt
from groupjudge.core.backing import Backing, SessionId
from groupjudge.core.census import Census, Kept
from groupjudge.core.deadlines import Deadlines
from groupjudge.core.effects import Effect, Release, Settle, SettleAll, StopJudging
from groupjudge.core.group import Group
from groupjudge.core.invariants import Inside, check_book
from groupjudge.core.memory import Exported, Memory, Restored, by_group
from groupjudge.core.phases import Event, Phase
from groupjudge.core.retention import Result
from groupjudge.core.views import GroupView, view_of_group, view_of_result
from groupjudge.errors import Overloaded, Refusal, ShuttingDown
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

_CUTS_SHORT = frozenset((Event.SUPERSEDED, Event.SHUTDOWN, Event.COLLECTION_TIMEOUT))


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
    eager: bool = False
    """Whether the host hears of each member as it comes (F7)."""
    min_members: int | None = None
    """So many that came by the collection deadline are judged among themselves (F8); None: they are not."""


class _Admitted(NamedTuple):
    """An arrival's place; `backing` None: sessions do not remember it."""

    ticket: Ticket
    backing: Backing | None
    slot: Slot


class Watched(NamedTuple):
    """A member that somebody waits for without having brought it (A2). `backing` holds the sessions that brought it."""

    ticket: Ticket
    backing: Backing | None
    member_id: str | None


class Book:
    """Every input takes `now` (seconds, monotonic; an earlier one than before counts as that one), applies what was due
    by then, and leaves effects for `drain()`. Raising changes nothing beyond what was due."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._now = float("-inf")
        self._closed = False
        self._holding = False
        self._runs = cast("Iterator[Run]", count(1))
        self._tickets = cast("Iterator[Ticket]", count(1))
        self._active: dict[GroupKey, Group] = {}
        self._held: dict[Run, Group] = {}
        self._waiting: dict[Ticket, Group] = {}
        self._by_run: dict[Run, Group] = {}
        self._deadlines = Deadlines()
        self._memory = Memory(limits.max_results, limits.max_attempt_records, limits.ttl_s)
        self._effects: list[Effect] = []
        self.census = Census()

    # -- inputs ------------------------------------------------------------------------------------------------

    def arrive(self, arrival: Arrival, now: float, session: SessionId | None = None) -> Ticket:
        """Accept a member, attach a caller to one, or replay a known outcome (then `Settle` follows at once). Where an
        open `session` brings the member, that is remembered (C4).

        Raises ShuttingDown, QuestionMismatch, Superseded, ResultGone, Overloaded, GroupFailed, SizeMismatch,
        AnswerConflict, GroupClosed, in this order of checks (L7).
        """
        met = self._met_by(arrival, now)
        if isinstance(met, Result):
            admitted = self._replay(met, arrival)
        elif met is not None:
            admitted = self._join(met, arrival)
        elif arrival.size == 1:
            self.census.alone += 1
            admitted = self._answer_at_once(arrival, None, 0, Rewarded(self._limits.default_score))
        else:
            admitted = self._join(self._begin(arrival), arrival)
        if session is not None:
            self._memory.bind(session, admitted.backing, admitted.slot, self._now)
        return admitted.ticket

    def arrive_all(self, arrivals: Sequence[Arrival], now: float) -> Ticket:
        """Accept every member of a group at once, in slot order, for one caller (A1): `SettleAll` follows. Members that
        are there already are retries. Raises what `arrive` raises; then none of them was accepted."""
        first = arrivals[0]
        met = self._met_by(first, now)
        if isinstance(met, Result):
            return self._replay_all(met, arrivals)
        if met is None and first.size == 1:
            self.census.alone += 1
            return self._answer_all(arrivals, (Rewarded(self._limits.default_score),), None)
        return self._join_all(self._begin(first) if met is None else met, arrivals)

    def watch(self, key: GroupId, attempt: Attempt, slot: Slot, now: float) -> Watched:
        """Wait for a member that is known, without an answer (A2): `Settle` follows, at once where there is an outcome.
        This is no retry: it renews nothing. Raises ShuttingDown, NotFound, Superseded, ResultGone, GroupFailed."""
        self._catch_up(now)
        self._refuse_closed()
        found = asked_for(key, attempt, slot, self._active.get(key), self._memory)
        ticket = next(self._tickets)
        if isinstance(found, Result):
            self._effects.append(Settle(ticket, slot, found.outcomes[slot]))
        else:
            found.callers[ticket] = slot
            self._waiting[ticket] = found
        return Watched(ticket, found.backing, found.seats.member_id_of(slot))

    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
        """A session has ended; `dropped`: it was retired, or deleted by a commit that left it out (C23)."""
        self._catch_up(now)
        self._memory.session_over(session, dropped=dropped, now=self._now)

    def install(self, members: Sequence[Restored], now: float) -> None:
        """Take up the members of a checkpoint (C21). Raises InvalidCheckpoint, and then has changed nothing."""
        self._catch_up(now)
        groups = by_group(members)
        for (key, attempt), group in groups.items():
            check_unknown(key, attempt, group[0].member.question, self._active.get(key), self._memory)
        for (key, attempt), group in groups.items():
            if attempt > newest_attempt(key, self._active.get(key), self._memory):
                self._supersede(key, attempt, self._active.get(key))
                self._memory.install(next(self._runs), group, self._now)
        self._evict()

    def exported(self, session: SessionId) -> Exported | None:
        """What a checkpoint keeps of an open session (C16); None where there is nothing to keep."""
        return self._memory.exported(session)

    def backing_of(self, session: SessionId) -> Backing | None:
        """What an open session's record hangs on: as long as the session is in it and brings no other member, what is
        exported of it once its group has finished does not change."""
        return self._memory.backings.get(session)

    def leave(self, ticket: Ticket) -> None:
        """The caller has gone (L8). Unknown or settled tickets are ignored."""
        group = self._waiting.pop(ticket, None)
        if group is not None:
            del group.callers[ticket]

    def judged(self, run: Run, judgement: Judgement, now: float) -> bool:
        """The verdicts of `run` are in. Rewards that are not finite, or not one a member, fail the group (J19). Says
        whether they are the group's now: those that come too late are not."""
        self._catch_up(now)
        group = self._being_judged(run)
        if group is None:
            return False
        taken = self._judgement_in(group, judgement)
        self._evict()
        return taken

    def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None:
        """`run` gets no verdicts: by the judge's fault (JudgeFailure) or by our own (GroupFailure)."""
        self._catch_up(now)
        group = self._being_judged(run)
        if group is None:
            return
        if isinstance(why, JudgeFailure):
            self._conclude(group, why)
        else:
            self._fail(group, Event.OWN_ERROR, why)
        self._evict()

    def advance(self, now: float) -> None:
        """Time has passed; nothing else has happened."""
        self._catch_up(now)

    def hold(self) -> None:
        """From now on outcomes of judging wait (C15)."""
        self._holding = True

    def release(self, now: float) -> None:
        """Finish what was held, in the order it came, and hold no more."""
        self._catch_up(now)
        self._holding = False
        for group in tuple(self._held.values()):
            assert group.verdict is not None
            self._finish(group, group.verdict)
        self._evict()

    def close(self, now: float) -> None:
        """L19: every active group fails with kind `shutting_down`; later arrivals raise ShuttingDown."""
        self._catch_up(now)
        self._closed = True
        why = GroupFailure("shutting_down", "the server is stopping")
        for group in tuple(self._active.values()):
            self._fail(group, Event.SHUTDOWN, why)
        self._memory.forget_sessions(self._now)
        self._evict()

    # -- questions ---------------------------------------------------------------------------------------------

    def drain(self) -> list[Effect]:
        """What the host must do, in order; each effect is given out once."""
        effects, self._effects = self._effects, []
        return effects

    def slot_of(self, ticket: Ticket) -> Slot | None:
        """The slot of the member that a caller waits for; None where it waits for none, or for all."""
        group = self._waiting.get(ticket)
        return None if group is None else group.callers[ticket]

    def next_deadline(self) -> float | None:
        """When `advance` is due next, be it a deadline or an expiry."""
        due = (self._deadlines.next(), self._memory.next_expiry())
        return min((when for when in due if when is not None), default=None)

    def groups(self) -> Iterator[GroupView]:
        """The active groups in the order they began, then the results in the order they finished."""
        yield from map(view_of_group, self._active.values())
        yield from (view_of_result(result) for _, result in self._memory.results)

    def newest_results(self) -> Iterator[GroupView]:
        """The results, the last to finish first."""
        return map(view_of_result, self._memory.results.newest())

    def kept(self) -> Kept:
        """How much is retained."""
        results, records = self._memory.results, self._memory.records
        return Kept(len(results), len(records), results.spared)

    def materials(self, run: Run) -> tuple[object, tuple[object, ...]] | None:
        """The topic of an active group and what is kept of its answers, in slot order (None: not there yet)."""
        group = self._by_run.get(run)
        return None if group is None else (group.topic, tuple(group.materials))

    def group(self, key: GroupKey, attempt: Attempt) -> GroupView | None:
        """The group of that key and attempt, active or retained; None where there is none."""
        group, result = self._active.get(key), self._memory.results.get(key)
        if group is not None and group.attempt == attempt:
            return view_of_group(group)
        if result is not None and result.attempt == attempt:
            return view_of_result(result)
        return None

    def records(self) -> Iterator[tuple[GroupId, Attempt, Fingerprint, float | None]]:
        """The attempt records: (id, attempt, question, idle since); those of active groups first and with None, then
        those of idle ones in the order in which they will be evicted."""
        for key, group in self._active.items():
            if isinstance(key, str):
                yield key, group.attempt, group.question, None
        for key, record in self._memory.records:
            yield key, record.attempt, record.question, record.since

    # -- an arrival ----------------------------------------------------------------------------------------------

    def _met_by(self, arrival: Arrival, now: float) -> Group | Result | None:
        self._catch_up(now)
        self._refuse_closed()
        return met_by(arrival, self._active.get(arrival.key), self._memory)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ShuttingDown("the server is stopping")

    def _begin(self, first: Arrival) -> Group:
        """A group of an attempt that is not known, without a member yet; what was known of its key is retired."""
        older, most = self._active.get(first.key), self._limits.max_active_groups
        if older is None and most is not None and len(self._active) >= most:
            raise Overloaded(f"{most} groups are active, which is the limit")
        self._supersede(first.key, first.attempt, older)
        group = Group(next(self._runs), first, self._now)
        self._active[first.key] = group
        self._by_run[group.run] = group
        self.census.begins(group)
        self._deadlines.set(group.run, self._now + self._limits.collection_timeout_s)
        return group

    def _supersede(self, key: GroupKey, attempt: Attempt, older: Group | None) -> None:
        """L11: retire what is known of the key, so that nothing of it can reach the newer attempt."""
        if older is not None:
            reason = f"attempt {older.attempt} was superseded by attempt {attempt}"
            self._end(older, Event.SUPERSEDED, GroupFailure("superseded", reason))
            if older.backing is not None:
                self._memory.backings.forget(older.backing)
        self._memory.forget(key)

    def _join(self, group: Group, arrival: Arrival) -> _Admitted:
        """Take an empty slot, or attach one more caller to the same answer's (L3)."""
        slot = group.seats.find(arrival, is_open=group.phase is Phase.COLLECTING)
        ticket = next(self._tickets)
        group.callers[ticket] = slot
        self._waiting[ticket] = group
        self._seat(group, slot, arrival)
        return _Admitted(ticket, group.backing, slot)

    def _join_all(self, group: Group, arrivals: Sequence[Arrival]) -> Ticket:
        """Take every empty slot, for one caller that waits for all of them."""
        slots = group.seats.find_all(arrivals, is_open=group.phase is Phase.COLLECTING)
        ticket = next(self._tickets)
        group.callers[ticket] = None
        self._waiting[ticket] = group
        for slot, arrival in zip(slots, arrivals, strict=True):
            self._seat(group, slot, arrival)
        return ticket

    def _seat(self, group: Group, slot: Slot, arrival: Arrival) -> None:
        if group.seats.answers[slot] is not None:
            self.census.retries["waits"] += 1
            self._effects.append(Release(arrival.material))
        else:
            self.census.members += 1
            is_complete = group.accept(slot, arrival)
            if self._limits.eager:
                self._effects.append(group.seated(slot))
            if is_complete:
                self._start_judging(group)

    def _replay(self, result: Result, arrival: Arrival) -> _Admitted:
        """L4: an exact retry gets what was given before."""
        if result.phase is Phase.GROUP_FAILED:
            raise failed(result)
        try:
            slot = result.seats.find(arrival, is_open=False)
        except Refusal:
            if isinstance(result.key, str):
                raise
            raise failed(result) from None
        self._memory.renew(result, (slot,), self._now)
        self._evict()
        self.census.replays(result, (slot,))
        return self._answer_at_once(arrival, result.backing, slot, result.outcomes[slot])

    def _answer_at_once(self, arrival: Arrival, backing: Backing | None, slot: Slot, outcome: Outcome) -> _Admitted:
        ticket = next(self._tickets)
        self._effects += (Settle(ticket, slot, outcome), Release(arrival.material))
        return _Admitted(ticket, backing, slot)

    def _replay_all(self, result: Result, arrivals: Sequence[Arrival]) -> Ticket:
        if result.phase is Phase.GROUP_FAILED:
            raise failed(result)
        slots = result.seats.find_all(arrivals, is_open=False)
        self._memory.renew(result, slots, self._now)
        self._evict()
        self.census.replays(result, slots)
        return self._answer_all(arrivals, tuple(result.outcomes[slot] for slot in slots), result.judgement)

    def _answer_all(
        self, arrivals: Sequence[Arrival], outcomes: tuple[Outcome, ...], judgement: Judgement | None
    ) -> Ticket:
        ticket = next(self._tickets)
        self._effects.append(SettleAll(ticket, outcomes, judgement))
        self._effects += [Release(arrival.material) for arrival in arrivals]
        return ticket

    # -- a group's way -------------------------------------------------------------------------------------------

    def _start_judging(self, group: Group) -> None:
        self.census.leaves(group)
        self._effects.append(group.start_judging(self._now))
        self.census.enters(group)
        self.census.partial += group.size_judged is not None
        self._deadlines.set(group.run, self._now + self._limits.judging_timeout_s)

    def _being_judged(self, run: Run) -> Group | None:
        """The group that waits for verdicts under `run`; None where they come too late."""
        group = self._by_run.get(run)
        return group if group is not None and group.phase is Phase.JUDGING else None

    def _judgement_in(self, group: Group, judgement: Judgement) -> bool:
        rewards = judgement.rewards
        if len(rewards) == group.seats.taken and all(map(isfinite, rewards)):
            self._conclude(group, judgement)
            return True
        why = GroupFailure("internal", "judging gave rewards that are not finite, or not one a member")
        self._fail(group, Event.OWN_ERROR, why)
        return False

    def _conclude(self, group: Group, verdict: Judgement | JudgeFailure) -> None:
        """The group has its outcome; while outcomes are held, it is final but not told (C15)."""
        if not self._holding:
            self._finish(group, verdict)
            return
        self.census.leaves(group)
        group.step(Event.OUTCOME_HELD)
        self.census.enters(group)
        group.verdict = verdict
        self._deadlines.cancel(group.run)
        self._held[group.run] = group

    def _finish(self, group: Group, verdict: Judgement | JudgeFailure) -> None:
        event = Event.VERDICTS if isinstance(verdict, Judgement) else Event.JUDGE_FAILURE
        outcomes = self._end(group, event, verdict)
        self._retain(group, outcomes, verdict if isinstance(verdict, Judgement) else None)

    def _fail(self, group: Group, event: Event, why: GroupFailure) -> None:
        self._retain(group, self._end(group, event, why))

    def _end(self, group: Group, event: Event, verdict: Judgement | JudgeFailure | GroupFailure) -> tuple[Outcome, ...]:
        """Active no more: cancel judging that is cut short, tell the callers, let the answers go."""
        was_begun = group.phase is Phase.JUDGING or (group.phase is Phase.COLLECTING and self._limits.eager)
        cancelled = event in _CUTS_SHORT and was_begun
        self.census.leaves(group)
        group.step(event)
        self.census.ends(group, verdict)
        del self._active[group.key], self._by_run[group.run]
        self._held.pop(group.run, None)
        self._deadlines.cancel(group.run)
        if cancelled:
            self._effects.append(StopJudging(group.run))
        for ticket in group.callers:
            del self._waiting[ticket]
        outcomes = group.outcomes_of(verdict)
        self._effects += group.settle(outcomes, verdict if isinstance(verdict, Judgement) else None)
        return outcomes

    def _retain(self, group: Group, outcomes: tuple[Outcome, ...], judgement: Judgement | None = None) -> None:
        self._memory.retain(Result.of(group, outcomes, judgement, self._now))

    # -- time ----------------------------------------------------------------------------------------------------

    def _catch_up(self, now: float) -> None:
        """Apply what was due by `now`: deadlines in order of time, each at its own time, then evict."""
        memory = self._memory
        quiet = now < memory.results.quiet_until and now < memory.records.quiet_until
        if quiet and now < self._deadlines.quiet_until:
            if now > self._now:
                self._now = now
            return
        now = max(self._now, now)
        while (due := self._deadlines.pop_due(now)) is not None:
            self._now, run = due
            self._deadline_passed(self._by_run[run])
        self._now = now
        self._evict()

    def _deadline_passed(self, group: Group) -> None:
        if group.phase is Phase.COLLECTING:
            came, size, enough = group.seats.taken, group.seats.size, self._limits.min_members
            if enough is not None and came >= enough and isinstance(group.key, str):
                # Without an id it would be forgotten at the end (L20), and who is late would sit in the next run's.
                self._start_judging(group)
                return
            reason = f"the collection deadline passed with {came} of {size} members"
            self._fail(group, Event.COLLECTION_TIMEOUT, GroupFailure("collection_timeout", reason))
        else:
            self._effects.append(StopJudging(group.run))
            seconds = self._limits.judging_timeout_s
            self._conclude(group, JudgeFailure(f"the judging deadline of {seconds:g} s passed"))

    def _evict(self) -> None:
        self._memory.evict(self._now)

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold (core/invariants.py)."""
        indexes = (self._active, self._by_run, self._held, self._waiting)
        rest = (self._deadlines, self._memory, self.census)
        check_book(Inside(*indexes, *rest, self._now, self._closed, self._holding))
