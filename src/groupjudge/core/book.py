"""All groups: the core's face.

Theory. Between two inputs nothing changes but time. So every input first catches up: deadlines that lie between the
last input and now happen at their own times and in their order, then what is over age is evicted. A group is *active*
from its first member to its outcome; then it is a *result*, until it is evicted or a newer attempt takes its place. Of
a group id the newest attempt is known from its active group, or from its idle record, or from its result (L10): while a
group is active it has no record in the store, since active groups' records never expire and do not count (L18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from math import isfinite
from typing import cast

from groupjudge.core.deadlines import Deadlines
from groupjudge.core.effects import Effect, Release, Settle, StopJudging
from groupjudge.core.group import Group
from groupjudge.core.phases import Event, Phase
from groupjudge.core.retention import Record, Records, Result, Results, Store
from groupjudge.core.views import GroupView, view_of_group, view_of_result
from groupjudge.errors import GroupFailed, Overloaded, QuestionMismatch, Refusal, ResultGone, ShuttingDown, Superseded
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

_CUTS_JUDGING_SHORT = frozenset((Event.SUPERSEDED, Event.SHUTDOWN))


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
        self._results: Results = Store(limits.max_results, limits.ttl_s)
        self._records: Records = Store(limits.max_attempt_records, limits.ttl_s)
        self._effects: list[Effect] = []

    # -- inputs ------------------------------------------------------------------------------------------------

    def arrive(self, arrival: Arrival, now: float) -> Ticket:
        """Accept a member, attach a caller to one, or replay a known outcome (then `Settle` follows at once).

        Raises ShuttingDown, QuestionMismatch, Superseded, ResultGone, Overloaded, GroupFailed, SizeMismatch,
        AnswerConflict, GroupClosed, in this order of checks (L7).
        """
        self._catch_up(now)
        if self._closed:
            raise ShuttingDown("the server is stopping")
        group = self._active.get(arrival.key)
        if group is None:
            return self._arrive_at_idle(arrival)
        if _is_newer(arrival, group):
            return self._first(arrival, group)
        return self._join(group, arrival)

    def leave(self, ticket: Ticket) -> None:
        """The caller has gone (L8). Unknown or settled tickets are ignored."""
        group = self._waiting.pop(ticket, None)
        if group is not None:
            del group.callers[ticket]

    def judged(self, run: Run, judgement: Judgement, now: float) -> None:
        """The verdicts of `run` are in. Rewards that are not finite, or not one a slot, fail the group (J19)."""
        self._catch_up(now)
        group = self._being_judged(run)
        if group is not None:
            self._judgement_in(group, judgement)
            self._evict()

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
        self._evict()

    # -- questions ---------------------------------------------------------------------------------------------

    def drain(self) -> list[Effect]:
        """What the host must do, in order; each effect is given out once."""
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        """When `advance` is due next, be it a deadline or an expiry."""
        due = (self._deadlines.next(), self._results.next_expiry(), self._records.next_expiry())
        return min((when for when in due if when is not None), default=None)

    def groups(self) -> Iterator[GroupView]:
        """The active groups in the order they began, then the results in the order they finished."""
        yield from map(view_of_group, self._active.values())
        yield from (view_of_result(result) for _, result in self._results)

    def group(self, key: GroupKey, attempt: Attempt) -> GroupView | None:
        """The group of that key and attempt, active or retained; None where there is none."""
        group, result = self._active.get(key), self._results.get(key)
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
        for key, record in self._records:
            yield key, record.attempt, record.question, record.since

    # -- an arrival ----------------------------------------------------------------------------------------------

    def _arrive_at_idle(self, arrival: Arrival) -> Ticket:
        """No group of the key is active: replay its result, or begin an attempt."""
        result = self._results.get(arrival.key)
        record = self._records.get(arrival.key) if isinstance(arrival.key, str) else None
        newest: Result | Record | None = result
        if record is not None and (result is None or record.attempt > result.attempt):
            newest = record
        if newest is None or _is_newer(arrival, newest):
            return self._first(arrival, None)
        if result is None or newest is record:
            raise ResultGone(f"attempt {newest.attempt} finished and its result is no longer retained")
        return self._replay(result, arrival)

    def _first(self, arrival: Arrival, older: Group | None) -> Ticket:
        """The first answer of an attempt that is not known: alone (L9), or the beginning of a group."""
        if arrival.size == 1:
            return self._answer_at_once(arrival, 0, Rewarded(self._limits.default_score))
        most = self._limits.max_active_groups
        if older is None and most is not None and len(self._active) >= most:
            raise Overloaded(f"{most} groups are active, which is the limit")
        self._supersede(arrival, older)
        group = Group(next(self._runs), arrival, self._now)
        self._active[arrival.key] = group
        self._by_run[group.run] = group
        self._deadlines.set(group.run, self._now + self._limits.collection_timeout_s)
        return self._join(group, arrival)

    def _supersede(self, arrival: Arrival, older: Group | None) -> None:
        """L11: retire what is known of the key, so that nothing of it can reach the newer attempt."""
        if older is not None:
            reason = f"attempt {older.attempt} was superseded by attempt {arrival.attempt}"
            self._end(older, Event.SUPERSEDED, GroupFailure("superseded", reason))
        self._results.drop(arrival.key)
        if isinstance(arrival.key, str):
            self._records.drop(arrival.key)

    def _join(self, group: Group, arrival: Arrival) -> Ticket:
        """Take an empty slot, or attach one more caller to the same answer's (L3)."""
        slot = group.seats.find(arrival, is_open=group.phase is Phase.COLLECTING)
        ticket = next(self._tickets)
        group.callers[ticket] = slot
        self._waiting[ticket] = group
        if group.seats.answers[slot] is not None:
            self._effects.append(Release(arrival.material))
        elif group.accept(slot, arrival):
            self._start_judging(group)
        return ticket

    def _replay(self, result: Result, arrival: Arrival) -> Ticket:
        """L4: an exact retry gets what was given before."""
        if result.phase is Phase.GROUP_FAILED:
            raise _failed(result)
        try:
            slot = result.seats.find(arrival, is_open=False)
        except Refusal:
            if isinstance(result.key, str):
                raise
            raise _failed(result) from None
        if isinstance(result.key, str):
            self._records.put(result.key, Record(result.attempt, result.question, self._now))
            self._evict()
        return self._answer_at_once(arrival, slot, result.outcomes[slot])

    def _answer_at_once(self, arrival: Arrival, slot: Slot, outcome: Outcome) -> Ticket:
        ticket = next(self._tickets)
        self._effects += (Settle(ticket, slot, outcome), Release(arrival.material))
        return ticket

    # -- a group's way -------------------------------------------------------------------------------------------

    def _start_judging(self, group: Group) -> None:
        self._effects.append(group.start_judging(self._now))
        self._deadlines.set(group.run, self._now + self._limits.judging_timeout_s)

    def _being_judged(self, run: Run) -> Group | None:
        """The group that waits for verdicts under `run`; None where they come too late."""
        group = self._by_run.get(run)
        return group if group is not None and group.phase is Phase.JUDGING else None

    def _judgement_in(self, group: Group, judgement: Judgement) -> None:
        rewards = judgement.rewards
        if len(rewards) == group.seats.size and all(map(isfinite, rewards)):
            self._conclude(group, judgement)
        else:
            why = GroupFailure("internal", "judging gave rewards that are not finite, or not one a member")
            self._fail(group, Event.OWN_ERROR, why)

    def _conclude(self, group: Group, verdict: Judgement | JudgeFailure) -> None:
        """The group has its outcome; while outcomes are held, it is final but not told (C15)."""
        if not self._holding:
            self._finish(group, verdict)
            return
        group.step(Event.OUTCOME_HELD)
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
        cancelled = event in _CUTS_JUDGING_SHORT and group.phase is Phase.JUDGING
        group.step(event)
        del self._active[group.key], self._by_run[group.run]
        self._held.pop(group.run, None)
        self._deadlines.cancel(group.run)
        if cancelled:
            self._effects.append(StopJudging(group.run))
        for ticket in group.callers:
            del self._waiting[ticket]
        outcomes = group.outcomes_of(verdict)
        self._effects += group.settle(outcomes)
        return outcomes

    def _retain(self, group: Group, outcomes: tuple[Outcome, ...], judgement: Judgement | None = None) -> None:
        """L17, L18; L20: a completed group without an id is forgotten at once."""
        named = isinstance(group.key, str)
        if named or group.phase is not Phase.COMPLETED:
            self._results.put(group.key, _result_of(group, outcomes, judgement, self._now))
        if isinstance(group.key, str):
            self._records.put(group.key, Record(group.attempt, group.question, self._now))

    # -- time ----------------------------------------------------------------------------------------------------

    def _catch_up(self, now: float) -> None:
        """Apply what was due by `now`: deadlines in order of time, each at its own time, then evict."""
        if now < self._deadlines.quiet_until and now < self._results.quiet_until and now < self._records.quiet_until:
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
            came, size = group.seats.taken, group.seats.size
            reason = f"the collection deadline passed with {came} of {size} members"
            self._fail(group, Event.COLLECTION_TIMEOUT, GroupFailure("collection_timeout", reason))
        else:
            self._effects.append(StopJudging(group.run))
            seconds = self._limits.judging_timeout_s
            self._conclude(group, JudgeFailure(f"the judging deadline of {seconds:g} s passed"))

    def _evict(self) -> None:
        self._results.evict(self._now)
        self._records.evict(self._now)

    # -- the invariants --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold. Looks at everything: for tests and after a restore."""
        for key, group in self._active.items():
            self._check_group(key, group)
        self._check_indexes()
        self._check_store(self._results, self._limits.max_results, lambda key: key not in self._active)
        self._check_store(self._records, self._limits.max_attempt_records, lambda key: key not in self._active)
        for key, result in self._results:
            assert key == result.key, "a result is filed under another key"
            assert len(result.outcomes) == result.seats.size, "a result has another number of outcomes than slots"
            record = self._records.get(key) if isinstance(key, str) else None
            assert record is None or record.question == result.question, "record and result name different questions"

    def _check_group(self, key: GroupKey, group: Group) -> None:
        assert key == group.key, "a group is filed under another key"
        complete = group.seats.taken == group.seats.size
        assert group.seats.taken == len(group.seats.present()) > 0, "a group's members are miscounted"
        assert complete == (group.phase is not Phase.COLLECTING), "a group is judged exactly once it is complete"
        assert self._by_run.get(group.run) is group, "the index by run differs from the active groups"
        assert (group.run in self._held) == (group.phase is Phase.HELD), "held index and phase differ"
        assert (group.run in self._deadlines) == (group.phase is not Phase.HELD), "a deadline is missing or left over"
        assert group.phase is not Phase.HELD or self._holding, "a group is held while nothing holds"
        for ticket, slot in group.callers.items():
            assert self._waiting.get(ticket) is group, "a caller is not known as waiting"
            assert group.seats.answers[slot] is not None, "a caller waits for an empty slot"

    def _check_indexes(self) -> None:
        active = len(self._active)
        assert not (self._closed and active), "a group is active after the shutdown"
        assert len(self._by_run) == active, "a finished group is left in the index by run"
        assert len(self._waiting) == sum(len(g.callers) for g in self._active.values()), "a stray caller is waiting"
        held = sum(group.phase is Phase.HELD for group in self._active.values())
        assert len(self._held) == held, "a finished group is still held"
        assert len(self._deadlines) == active - len(self._held), "a deadline of a finished group is left"
        due = self._deadlines.next()
        assert due is None or self._deadlines.quiet_until <= due, "the deadlines promise too long a quiet"

    def _check_store(self, store: Results | Records, limit: int, is_idle: Callable[[GroupKey], bool]) -> None:
        assert len(store) <= limit, "a store holds more than its limit"
        dates = [entry.since for _, entry in store]
        assert dates == sorted(dates), "a store is out of order"
        assert all(is_idle(key) for key, _ in store), "an active group has a finished one's entry"
        expiry = store.next_expiry()
        assert expiry is None or expiry > self._now, "an entry of the age limit is retained"
        assert expiry is None or store.quiet_until <= expiry, "a store promises too long a quiet"


def _is_newer(arrival: Arrival, newest: Group | Result | Record) -> bool:
    """Whether the arrival begins an attempt of its own, `newest` being what is known of its key. Raises
    QuestionMismatch or Superseded where the arrival has no part in it."""
    if arrival.question != newest.question:
        raise QuestionMismatch("another question or principle than this group id's")
    if arrival.attempt < newest.attempt:
        raise Superseded(f"attempt {arrival.attempt} is older than this group's newest, attempt {newest.attempt}")
    return arrival.attempt > newest.attempt


def _failed(result: Result) -> GroupFailed:
    """Why nobody gets an outcome of this attempt."""
    return GroupFailed(getattr(result.outcomes[0], "reason", "the group failed"))


def _result_of(group: Group, outcomes: tuple[Outcome, ...], judgement: Judgement | None, now: float) -> Result:
    return Result(
        group.key,
        group.attempt,
        group.run,
        group.phase,
        group.question,
        group.seats,
        outcomes,
        judgement,
        group.started,
        group.complete_since,
        now,
    )
