"""The life of a group, read a second time: plain lists, full scans, no cleverness.

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
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from groupjudge.core.book import Limits
from groupjudge.core.effects import Effect, Release, Settle, StartJudging, StopJudging
from groupjudge.core.views import GroupView
from groupjudge.errors import (
    AnswerConflict,
    GroupClosed,
    GroupFailed,
    Overloaded,
    QuestionMismatch,
    ResultGone,
    ShuttingDown,
    SizeMismatch,
    Superseded,
)
from groupjudge.model import (
    Arrival,
    Attempt,
    Fingerprint,
    GroupFailure,
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
    callers: dict[Ticket, Slot] = field(default_factory=dict)
    complete_since: float | None = None
    held: list[Outcome] | None = None
    held_since: int = 0
    finished: float | None = None
    finish_number: int = 0
    outcomes: dict[Slot, Outcome] = field(default_factory=dict)

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

    # What comes in

    def arrive(self, arrival: Arrival, now: float) -> Ticket:
        self._pass_time(now)
        self._refuse(arrival)
        ticket = Ticket(self._number())
        life = self._life(arrival)
        if life is None and arrival.size == 1:
            self.effects += [
                Settle(ticket, 0, Rewarded(self.limits.default_score)),
                Release(arrival.material),
            ]
            return ticket
        if life is None:
            life = self._form(arrival)
        slot = self._slot(life, arrival)
        if slot is None:
            self._accept(life, arrival, ticket)
        elif life.active:
            life.callers[ticket] = slot
            self.effects.append(Release(arrival.material))
        else:
            self.effects += [Settle(ticket, slot, life.outcomes[slot]), Release(arrival.material)]
            self._renew(life)
        self._evict()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        for life in self.lives:
            life.callers.pop(ticket, None)

    def judged(self, run: Run, judgement: Judgement, now: float) -> None:
        self._pass_time(now)
        for life in self._judging(run):
            rewards = judgement.rewards
            if len(rewards) == life.size and all(math.isfinite(r) for r in rewards):
                kind, reason = judgement.failure_kind, judgement.failure_reason
                self._conclude(life, [Rewarded(r, kind, reason) for r in rewards], self.clock)
            else:
                self._conclude(life, [GroupFailure("internal", "")] * life.size, self.clock)
        self._evict()

    def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None:
        self._pass_time(now)
        for life in self._judging(run):
            self._conclude(life, [why] * life.size, self.clock)
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
                self._finish(life, [GroupFailure("shutting_down", "")] * life.size, self.clock)
        self._evict()

    # What goes out

    def drain(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def next_deadline(self) -> float | None:
        times = [life.deadline for life in self.lives if life.active and life.held is None]
        if self.limits.ttl_s is not None:
            times += [life.finished + self.limits.ttl_s for life in self.lives if life.finished is not None]
            times += [r.idle_since + self.limits.ttl_s for r in self.all_records if r.idle_since is not None]
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
                outcomes=None if life.active else tuple(life.outcomes[slot] for slot in slots),
            )

    def records(self) -> Iterator[tuple[GroupKey, Attempt, Fingerprint, float | None]]:
        for r in [r for r in self.all_records if r.idle_since is None] + self._idle_records():
            yield r.key, r.attempt, r.question, r.idle_since

    def check(self) -> None:
        """Nothing to add: what is retained is compared with the real book after every step."""

    # L7

    def _refuse(self, a: Arrival) -> None:
        if self.closed:
            raise ShuttingDown
        lives = [life for life in self.lives if life.key == a.key]
        records = [r for r in self.all_records if r.key == a.key]
        known = [(x.attempt, x.question) for x in [*lives, *records]]
        if any(question != a.question for _, question in known):
            raise QuestionMismatch
        if any(a.attempt < attempt for attempt, _ in known):
            raise Superseded
        life = self._life(a)
        if life is None and any(r.attempt == a.attempt for r in records):
            raise ResultGone
        if life is not None:
            self._refuse_member(life, a)
        elif a.size > 1 and not any(other.active for other in lives):
            limit = self.limits.max_active_groups
            if limit is not None and len([x for x in self.lives if x.active]) >= limit:
                raise Overloaded

    def _refuse_member(self, life: Life, a: Arrival) -> None:
        slot = self._slot(life, a)
        exact = slot is not None and life.size == a.size and life.members[slot].answer == a.answer
        if life.phase == "group_failed":
            raise GroupFailed
        if life.phase == "judge_failed" and isinstance(life.key, UnnamedKey) and not exact:
            raise GroupFailed
        if life.size != a.size:
            raise SizeMismatch
        if slot is not None and not exact:
            raise AnswerConflict
        if slot is None and (life.phase != "collecting" or life.by_member_id != (a.slot is None)):
            raise GroupClosed

    # Small steps

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

    def _form(self, a: Arrival) -> Life:
        if not isinstance(a.key, UnnamedKey):
            for old in [life for life in self.lives if life.key == a.key]:
                if old.active:
                    self._stop_judge(old)
                    why = GroupFailure("superseded", str(a.attempt))
                    self._finish(old, [why] * old.size, self.clock)
                if old in self.lives:
                    self.lives.remove(old)
            self.all_records = [r for r in self.all_records if r.key != a.key]
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

    def _accept(self, life: Life, a: Arrival, ticket: Ticket) -> None:
        slot = min(set(range(life.size)) - set(life.members)) if a.slot is None else a.slot
        life.members[slot] = Member(a.answer, a.member_id)
        life.materials[slot] = a.material
        life.callers[ticket] = slot
        if len(life.members) == life.size:
            life.phase = "judging"
            life.complete_since = self.clock
            life.deadline = self.clock + self.limits.judging_timeout_s
            life.deadline_set = self._number()
            materials = tuple(life.materials[slot] for slot in range(life.size))
            self.effects.append(StartJudging(life.run, life.key, life.attempt, life.topic, materials))

    def _judging(self, run: Run) -> list[Life]:
        return [life for life in self.lives if life.run == run and life.phase == "judging" and life.held is None]

    def _stop_judge(self, life: Life) -> None:
        if life.phase == "judging" and life.held is None:
            self.effects.append(StopJudging(life.run))

    def _conclude(self, life: Life, outcomes: list[Outcome], at: float) -> None:
        """Judging is over: finish, or keep the outcome until the release (C15)."""
        if self.holding and not isinstance(outcomes[0], GroupFailure):
            life.held = outcomes
            life.held_since = self._number()
        else:
            self._finish(life, outcomes, at)

    def _finish(self, life: Life, outcomes: list[Outcome], at: float) -> None:
        phases = {Rewarded: "completed", JudgeFailure: "judge_failed", GroupFailure: "group_failed"}
        life.phase = phases[type(outcomes[0])]
        life.held = None
        life.finished = at
        life.finish_number = self._number()
        life.outcomes = {slot: outcomes[slot] for slot in life.members}
        for ticket, slot in life.callers.items():
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

    # Time

    def _pass_time(self, now: float) -> None:
        self.clock = max(self.clock, now)
        while due := [x for x in self.lives if x.active and x.held is None and x.deadline <= self.clock]:
            life = min(due, key=lambda life: (life.deadline, life.deadline_set))
            if life.phase == "collecting":
                why = GroupFailure("collection_timeout", f"{len(life.members)} of {life.size}")
                self._finish(life, [why] * life.size, life.deadline)
            else:
                self._stop_judge(life)
                self._conclude(life, [JudgeFailure("")] * life.size, life.deadline)
        self._evict()

    def _results(self) -> list[Life]:
        return sorted((x for x in self.lives if not x.active), key=lambda life: life.finish_number)

    def _idle_records(self) -> list[Record]:
        return sorted((r for r in self.all_records if r.idle_since is not None), key=lambda r: r.idle_number)

    def _evict(self) -> None:
        results, records = self._results(), self._idle_records()
        keep_results = [x for x in results[-self.limits.max_results :] if not self._old(x.finished)]
        keep_records = [r for r in records[-self.limits.max_attempt_records :] if not self._old(r.idle_since)]
        self.lives = [x for x in self.lives if x.active or x in keep_results]
        self.all_records = [r for r in self.all_records if r.idle_since is None or r in keep_records]

    def _old(self, since: float | None) -> bool:
        ttl = self.limits.ttl_s
        return ttl is not None and since is not None and since + ttl <= self.clock
