"""The life of a group, read a second time: plain lists, full scans, no cleverness (L1-L20, C4, C15-C23, A1-A3, F7, F8).

`ModelBook` answers the same inputs as `groupjudge.core.book.Book` and was written from the rules alone, so that where
one of the two misread a rule they disagree. Everything is found by looking at everything.

Readings, where the rules leave a choice:

 1. A deadline at exactly `now` has passed (as L18 says of retention): a member that comes at that instant is late.
 2. A group that its deadline ended is finished at the deadline, not when somebody looked; so the state at a time does
    not depend on how often the clock was read. A held one is finished at the release (C15).
 3. L7's limit: "none is replaced" means no active group is. A finished one in the way frees no active place.
 4. N = 1 (L9) passes the checks of L7 that know its id: another question, a lower attempt, a result that is gone, a
    failed group, another size. Past them it changes nothing: a higher attempt of size 1 retires nothing and leaves no
    record.
 5. A judge failure without an id answers 503 to all but exact retries (L20 "everything else"), before size, conflict.
 6. Rewards that are not N finite numbers are an own error (J19): a group failure of kind `internal`.
 7. C15 holds what a caller would record: rewards and judge failures. A group failure out of judging is not held.
 8. A group that takes slots by index knows no member ids, and the other way round: `group_closed`, whatever the slot
    holds.
 9. L13 holds for a saved judge failure too, and its replay renews the record: it is answered 200 (H4).
10. A superseded group is not retained: its record stands for the newer attempt and says enough.
11. When a judge failure by deadline is held, its calls are stopped at the deadline and its materials go at the finish.
12. C4's "the last member that a session brought counts": also where that one is in a group that is not remembered.
13. C18: an open session needs the group of its member where that has something to export (C16): no failed one.
14. C23: a session that is closed makes its restored member an ordinary result, for good, even where another one that
    still backs it is dropped later. One that brings another member just backs it no more; the last one to do so leaves
    the member as an ordinary result.
15. C21: of an id that is known with a higher attempt nothing is installed (L10), and its session is bound to nothing.
16. C4: at shutdown no session needs its group any more, so that what was spared for it is evicted at once.
17. A1: a whole group at once is N arrivals at the same instant, of which either all are accepted or none; where several
    would be refused, the check that comes first in L7 speaks. All are exact retries where the group has finished.
18. F8 is for groups with an id: one without would be forgotten once completed (L20), and a late member would then sit
    in the next run's group. A group that is judged in part keeps its size but in `group_size_judged`, and its
    restored members do not know it (C16).
19. A2: whoever watches a member is one more caller of it, and changes nothing else. An attempt above the newest is not
    known, and neither is a slot that nobody has taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from groupjudge import errors
from groupjudge.core.backing import SessionId
from groupjudge.core.book import Limits, Watched
from groupjudge.core.effects import Effect, Release, Seated, Settle, SettleAll, StartJudging, StopJudging
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
    UnnamedKey,
)

ACTIVE = ("collecting", "judging")
ORDER = (
    errors.ShuttingDown,
    errors.QuestionMismatch,
    errors.Superseded,
    errors.ResultGone,
    errors.Overloaded,
    errors.GroupFailed,
    errors.SizeMismatch,
    errors.AnswerConflict,
    errors.GroupClosed,
)
NOBODY = GroupFailure("nobody", "an empty slot has no outcome")


@dataclass(eq=False)
class Member:
    """One occupied slot."""

    answer: Fingerprint
    member_id: str | None


@dataclass(eq=False)
class Life:
    """One run of one group, active or retained."""

    run: Run
    key: GroupKey
    attempt: Attempt
    size: int
    question: Fingerprint
    by_member_id: bool
    topic: object
    started: float
    deadline: float
    deadline_set: int
    phase: str = "collecting"
    members: dict[Slot, Member] = field(default_factory=dict)
    materials: dict[Slot, object] = field(default_factory=dict)
    callers: dict[Ticket, Slot | None] = field(default_factory=dict)
    complete_since: float | None = None
    held: dict[Slot, Outcome] | None = None
    held_since: int = 0
    finished: float | None = None
    finish_number: int = 0
    outcomes: dict[Slot, Outcome] = field(default_factory=dict)
    sessions: dict[SessionId, Slot] = field(default_factory=dict)
    unreplayed: set[Slot] = field(default_factory=set)
    judgement: Judgement | None = None
    size_judged: int | None = None

    @property
    def needed(self) -> bool:
        return bool(self.sessions) and self.phase in ("completed", "judge_failed")

    @property
    def active(self) -> bool:
        return self.phase in ACTIVE


@dataclass(eq=False)
class Record:
    """What is remembered of a group id's newest attempt. `idle_since` None: its group is active."""

    key: GroupKey
    attempt: Attempt
    question: Fingerprint
    idle_since: float | None = None
    idle_number: int = 0


class ModelBook:
    """The naive book. Inputs, effects and questions are those of `Book`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.clock = -math.inf
        self.closed = False
        self.holding = False
        self.lives: list[Life] = []
        self.all_records: list[Record] = []
        self.effects: list[Effect] = []
        self.last_number = 0

    def arrive(self, arrival: Arrival, now: float, session: SessionId | None = None) -> Ticket:
        self._pass_time(now)
        self._refuse(arrival)
        ticket = Ticket(self._number())
        life = self._life(arrival)
        if life is None and arrival.size == 1:
            self._bind(session, None, 0)
            self._evict()
            self.effects += [
                Settle(ticket, 0, Rewarded(self.limits.default_score)),
                Release(arrival.material),
            ]
            return ticket
        if life is None:
            life = self._form(arrival)
        slot = self._slot(life, arrival)
        if slot is None:
            slot = self._accept(life, arrival, ticket)
        elif life.active:
            life.callers[ticket] = slot
            self.effects.append(Release(arrival.material))
        else:
            self.effects += [Settle(ticket, slot, life.outcomes[slot]), Release(arrival.material)]
            self._renew(life)
            life.unreplayed.discard(slot)
        self._bind(session, life, slot)
        self._evict()
        return ticket

    def arrive_all(self, arrivals: Sequence[Arrival], now: float) -> Ticket:
        self._pass_time(now)
        refusals = [refusal for a in arrivals if (refusal := self._refusal(a)) is not None]
        if refusals:
            raise min(refusals, key=lambda refusal: ORDER.index(type(refusal)))
        first = arrivals[0]
        ticket = Ticket(self._number())
        life = self._life(first)
        if life is None and first.size == 1:
            self.effects.append(SettleAll(ticket, (Rewarded(self.limits.default_score),), None))
        elif life is not None and not life.active:
            self.effects.append(SettleAll(ticket, tuple(life.outcomes[a.slot] for a in arrivals), life.judgement))
            self._renew(life)
            life.unreplayed.clear()
        else:
            life = life or self._form(first)
            life.callers[ticket] = None
            for a in arrivals:
                if a.slot not in life.members:
                    self._accept(life, a, None)
                else:
                    self.effects.append(Release(a.material))
            arrivals = ()
        self.effects += [Release(a.material) for a in arrivals]
        self._evict()
        return ticket

    def _refusal(self, a: Arrival) -> errors.GroupJudgeError | None:
        try:
            self._refuse(a)
        except errors.GroupJudgeError as refusal:
            return refusal
        return None

    def watch(self, key: GroupId, attempt: Attempt, slot: Slot, now: float) -> Watched:
        self._pass_time(now)
        if self.closed:
            raise errors.ShuttingDown
        attempts = [x.attempt for x in [*self.lives, *self.all_records] if x.key == key]
        if not attempts or attempt > max(attempts):
            raise errors.NotFound
        if attempt < max(attempts):
            raise errors.Superseded
        lives = [life for life in self.lives if life.key == key and life.attempt == attempt]
        if not lives:
            raise errors.ResultGone
        life = lives[0]
        if life.phase == "group_failed":
            raise errors.GroupFailed
        if slot not in life.members:
            raise errors.NotFound
        ticket = Ticket(self._number())
        if life.active:
            life.callers[ticket] = slot
        else:
            self.effects.append(Settle(ticket, slot, life.outcomes[slot]))
        return Watched(ticket, None, life.members[slot].member_id)

    def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
        self._pass_time(now)
        for life in list(self.lives):
            slot = life.sessions.pop(session, None)
            if slot is None:
                continue
            if not dropped:
                life.unreplayed.discard(slot)
            elif slot in life.unreplayed and slot not in life.sessions.values():
                self._drop_member(life, slot)
        self._evict()

    def install(self, members: Sequence[Restored], now: float) -> None:
        self._pass_time(now)
        for m in [each.member for each in members]:
            known = [x for x in [*self.lives, *self.all_records] if x.key == m.key]
            if any(x.attempt == m.attempt or x.question != m.question for x in known):
                raise errors.InvalidCheckpoint
        for key, attempt in dict.fromkeys((each.member.key, each.member.attempt) for each in members):
            known = [x for x in [*self.lives, *self.all_records] if x.key == key]
            if all(x.attempt < attempt for x in known):
                self._restore([r for r in members if r.member.key == key and r.member.attempt == attempt])
        self._evict()

    def leave(self, ticket: Ticket) -> None:
        for life in self.lives:
            life.callers.pop(ticket, None)

    def judged(self, run: Run, judgement: Judgement, now: float) -> None:
        self._pass_time(now)
        for life in self._judging(run):
            rewards = judgement.rewards
            if len(rewards) == len(life.members) and all(math.isfinite(r) for r in rewards):
                kind, reason = judgement.failure_kind, judgement.failure_reason
                life.judgement = judgement
                given = dict(zip(sorted(life.members), rewards, strict=True))
                self._conclude(
                    life, {s: Rewarded(r, kind, reason, life.size_judged) for s, r in given.items()}, self.clock
                )
            else:
                self._conclude(life, self._all(life, GroupFailure("internal", "")), self.clock)
        self._evict()

    def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None:
        self._pass_time(now)
        for life in self._judging(run):
            if isinstance(why, JudgeFailure):
                why = JudgeFailure(why.reason, life.size_judged)
            self._conclude(life, self._all(life, why), self.clock)
        self._evict()

    def advance(self, now: float) -> None:
        self._pass_time(now)

    def hold(self) -> None:
        self.holding = True

    def release(self, now: float) -> None:
        self._pass_time(now)
        self.holding = False
        for life in sorted(self.lives, key=lambda life: life.held_since):
            if life.held is not None:
                self._finish(life, life.held, self.clock)
        self._evict()

    def close(self, now: float) -> None:
        self._pass_time(now)
        self.closed = True
        for life in list(self.lives):
            if life.active:
                self._stop_judge(life)
                self._finish(life, self._all(life, GroupFailure("shutting_down", "")), self.clock)
        for life in self.lives:
            life.sessions.clear()
        self._evict()

    def drain(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def next_deadline(self) -> float | None:
        times = [life.deadline for life in self.lives if life.active and life.held is None]
        if self.limits.ttl_s is not None:
            needed = [x.key for x in self._results() if x.needed]
            since = [x.finished for x in self._results() if x.key not in needed]
            since += [r.idle_since for r in self._idle_records() if r.key not in needed]
            times += [when + self.limits.ttl_s for when in since if when is not None]
        return min(times, default=None)

    def groups(self) -> Iterator[GroupView]:
        for life in [life for life in self.lives if life.active] + self._results():
            slots = tuple(sorted(life.members))
            yield GroupView(
                key=life.key,
                attempt=life.attempt,
                run=life.run,
                phase="held" if life.held is not None else life.phase,
                size=life.size,
                present=slots,
                callers=len(life.callers),
                started=life.started,
                complete_since=life.complete_since,
                finished=life.finished,
                outcomes=None if life.active else tuple(life.outcomes.get(slot, NOBODY) for slot in range(life.size)),
                size_judged=None if life.phase == "group_failed" else life.size_judged,
            )

    def records(self) -> Iterator[tuple[GroupKey, Attempt, Fingerprint, float | None]]:
        active = [r for r in self.all_records if r.idle_since is None]
        yield from ((r.key, r.attempt, r.question, r.idle_since) for r in active + self._idle_records())

    def exported(self, session: SessionId) -> Exported | None:
        for life in self.lives:
            if session in life.sessions and life.phase in ("completed", "judge_failed"):
                slot = life.sessions[session]
                member = life.members[slot]
                return Exported(
                    GroupId(str(life.key)),
                    life.attempt,
                    life.size,
                    life.question,
                    slot,
                    member.member_id,
                    member.answer,
                    replace(life.outcomes[slot], group_size_judged=None),
                )
        return None

    def check(self) -> None:
        """Nothing to add: what is retained is compared with the real book after every step."""

    # L7

    def _refuse(self, a: Arrival) -> None:
        if self.closed:
            raise errors.ShuttingDown
        lives = [life for life in self.lives if life.key == a.key]
        records = [r for r in self.all_records if r.key == a.key]
        known = [(x.attempt, x.question) for x in [*lives, *records]]
        if any(question != a.question for _, question in known):
            raise errors.QuestionMismatch
        if any(a.attempt < attempt for attempt, _ in known):
            raise errors.Superseded
        life = self._life(a)
        if life is None and any(r.attempt == a.attempt for r in records):
            raise errors.ResultGone
        if life is not None:
            self._refuse_member(life, a)
        elif a.size > 1 and not any(other.active for other in lives):
            limit = self.limits.max_active_groups
            if limit is not None and len([x for x in self.lives if x.active]) >= limit:
                raise errors.Overloaded

    def _refuse_member(self, life: Life, a: Arrival) -> None:
        slot = self._slot(life, a)
        exact = slot is not None and life.size == a.size and life.members[slot].answer == a.answer
        if life.phase == "group_failed":
            raise errors.GroupFailed
        if life.phase == "judge_failed" and isinstance(life.key, UnnamedKey) and not exact:
            raise errors.GroupFailed
        if life.size != a.size:
            raise errors.SizeMismatch
        if slot is not None and not exact:
            raise errors.AnswerConflict
        if slot is None and (life.phase != "collecting" or life.by_member_id != (a.slot is None)):
            raise errors.GroupClosed

    def _number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _life(self, a: Arrival) -> Life | None:
        found = [life for life in self.lives if life.key == a.key and life.attempt == a.attempt]
        return found[0] if found else None

    def _slot(self, life: Life, a: Arrival) -> Slot | None:
        """The occupied slot that the arrival speaks of, or None."""
        if life.by_member_id != (a.slot is None):
            return None
        for slot, member in life.members.items():
            if slot == a.slot or (a.slot is None and member.member_id == a.member_id):
                return slot
        return None

    def _supersede(self, key: GroupKey, attempt: Attempt) -> None:
        for old in [life for life in self.lives if life.key == key]:
            if old.active:
                self._stop_judge(old)
                self._finish(old, self._all(old, GroupFailure("superseded", str(attempt))), self.clock)
            if old in self.lives:
                self.lives.remove(old)
        self.all_records = [r for r in self.all_records if r.key != key]

    def _form(self, a: Arrival) -> Life:
        if not isinstance(a.key, UnnamedKey):
            self._supersede(a.key, a.attempt)
            self.all_records.append(Record(a.key, a.attempt, a.question))
        life = Life(
            run=Run(self._number()),
            key=a.key,
            attempt=a.attempt,
            size=a.size,
            question=a.question,
            by_member_id=a.slot is None,
            topic=a.topic,
            started=self.clock,
            deadline=self.clock + self.limits.collection_timeout_s,
            deadline_set=self._number(),
        )
        self.lives.append(life)
        return life

    def _accept(self, life: Life, a: Arrival, ticket: Ticket | None) -> Slot:
        slot = min(set(range(life.size)) - set(life.members)) if a.slot is None else a.slot
        life.members[slot] = Member(a.answer, a.member_id)
        life.materials[slot] = a.material
        if self.limits.eager:
            named = (life.run, life.key, life.attempt, life.topic)
            self.effects.append(Seated(*named, slot, life.size, a.material))
        if ticket is not None:
            life.callers[ticket] = slot
        if len(life.members) == life.size:
            self._judge(life, self.clock)
        return slot

    def _judge(self, life: Life, at: float) -> None:
        """Judge whoever is there."""
        life.phase = "judging"
        life.complete_since = at
        life.deadline = at + self.limits.judging_timeout_s
        life.deadline_set = self._number()
        if len(life.members) < life.size:
            life.size_judged = len(life.members)
        slots = tuple(sorted(life.members))
        materials = tuple(life.materials[slot] for slot in slots)
        self.effects.append(StartJudging(life.run, life.key, life.attempt, life.topic, materials, slots, life.size))

    def _all(self, life: Life, outcome: Outcome) -> dict[Slot, Outcome]:
        return dict.fromkeys(life.members, outcome)

    def _judging(self, run: Run) -> list[Life]:
        return [life for life in self.lives if life.run == run and life.phase == "judging" and life.held is None]

    def _stop_judge(self, life: Life) -> None:
        if (life.phase == "judging" and life.held is None) or (life.phase == "collecting" and self.limits.eager):
            self.effects.append(StopJudging(life.run))

    def _conclude(self, life: Life, outcomes: dict[Slot, Outcome], at: float) -> None:
        """Judging is over: finish, or keep the outcome until the release (C15)."""
        if self.holding and not any(isinstance(outcome, GroupFailure) for outcome in outcomes.values()):
            life.held = outcomes
            life.held_since = self._number()
        else:
            self._finish(life, outcomes, at)

    def _finish(self, life: Life, outcomes: dict[Slot, Outcome], at: float) -> None:
        phases = {Rewarded: "completed", JudgeFailure: "judge_failed", GroupFailure: "group_failed"}
        life.phase = phases[type(next(iter(outcomes.values())))]
        life.judgement = life.judgement if life.phase == "completed" else None
        life.held = None
        life.finished = at
        life.finish_number = self._number()
        life.outcomes = dict(outcomes)
        for ticket, slot in life.callers.items():
            if slot is None:
                told = tuple(outcomes[slot] for slot in range(life.size))
                self.effects.append(SettleAll(ticket, told, life.judgement))
            else:
                self.effects.append(Settle(ticket, slot, outcomes[slot]))
        self.effects += [Release(material) for material in life.materials.values()]
        life.callers, life.materials = {}, {}
        for record in self.all_records:
            if record.key == life.key:
                record.idle_since, record.idle_number = at, self._number()
        if isinstance(life.key, UnnamedKey) and life.phase == "completed":
            self.lives.remove(life)

    def _renew(self, life: Life) -> None:
        """An exact retry was answered 200: its record is the youngest again, or made again (L13, L18)."""
        if isinstance(life.key, UnnamedKey):
            return
        self.all_records = [r for r in self.all_records if r.key != life.key]
        self.all_records.append(Record(life.key, life.attempt, life.question, self.clock, self._number()))

    # Sessions (C4, C18, C21, C23)

    def _bind(self, session: SessionId | None, life: Life | None, slot: Slot) -> None:
        if session is None:
            return
        for other in self.lives:
            old = other.sessions.pop(session, None)
            if old is not None and (other, old) != (life, slot) and old not in other.sessions.values():
                other.unreplayed.discard(old)
        if life is not None and not isinstance(life.key, UnnamedKey):
            life.sessions[session] = slot

    def _restore(self, group: list[Restored]) -> None:
        first = group[0].member
        self._supersede(first.key, first.attempt)
        life = Life(
            run=Run(self._number()),
            key=first.key,
            attempt=first.attempt,
            size=first.size,
            question=first.question,
            by_member_id=first.member_id is not None,
            topic=None,
            started=self.clock,
            deadline=math.inf,
            deadline_set=0,
            phase="completed" if isinstance(first.outcome, Rewarded) else "judge_failed",
            complete_since=self.clock,
            finished=self.clock,
            finish_number=self._number(),
        )
        self.lives.append(life)
        self.all_records.append(Record(life.key, life.attempt, life.question, self.clock, self._number()))
        for session, member in group:
            self._bind(session, life, member.slot)
            life.members[member.slot] = Member(member.answer, member.member_id)
            life.outcomes[member.slot] = member.outcome
        life.unreplayed = set(life.members)

    def _drop_member(self, life: Life, slot: Slot) -> None:
        del life.members[slot], life.outcomes[slot]
        life.unreplayed.discard(slot)
        if not life.members:
            self.lives.remove(life)
            self.all_records = [r for r in self.all_records if r.key != life.key]

    # Time

    def _pass_time(self, now: float) -> None:
        self.clock = max(self.clock, now)
        while due := [x for x in self.lives if x.active and x.held is None and x.deadline <= self.clock]:
            life = min(due, key=lambda life: (life.deadline, life.deadline_set))
            enough = self.limits.min_members
            is_named = not isinstance(life.key, UnnamedKey)
            if life.phase == "collecting" and is_named and enough is not None and len(life.members) >= enough:
                self._judge(life, life.deadline)
            elif life.phase == "collecting":
                why = GroupFailure("collection_timeout", f"{len(life.members)} of {life.size}")
                self._stop_judge(life)
                self._finish(life, self._all(life, why), life.deadline)
            else:
                self._stop_judge(life)
                why = JudgeFailure("", life.size_judged)
                self._conclude(life, self._all(life, why), life.deadline)
        self._evict()

    def _results(self) -> list[Life]:
        return sorted((x for x in self.lives if not x.active), key=lambda life: life.finish_number)

    def _idle_records(self) -> list[Record]:
        return sorted((r for r in self.all_records if r.idle_since is not None), key=lambda r: r.idle_number)

    def _evict(self) -> None:
        """What has too many newer ones, or is too old, goes where no open session needs it."""
        results, records = self._results(), self._idle_records()
        needed = [x.key for x in results if x.needed]
        for newer, result in enumerate(reversed(results)):
            if (newer >= self.limits.max_results or self._old(result.finished)) and result.key not in needed:
                self.lives.remove(result)
        for newer, record in enumerate(reversed(records)):
            if (newer >= self.limits.max_attempt_records or self._old(record.idle_since)) and record.key not in needed:
                self.all_records.remove(record)

    def _old(self, since: float | None) -> bool:
        ttl = self.limits.ttl_s
        return ttl is not None and since is not None and since + ttl <= self.clock
