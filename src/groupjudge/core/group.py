"""One attempt of a group, from its first member to its outcome."""

from __future__ import annotations

from groupjudge.core.backing import Backing
from groupjudge.core.effects import Effect, Release, Seated, Settle, SettleAll, StartJudging
from groupjudge.core.phases import Event, Phase, after
from groupjudge.core.seats import Seats
from groupjudge.model import (
    Arrival,
    GroupFailure,
    JudgeFailure,
    Judgement,
    Outcome,
    Rewarded,
    Run,
    Slot,
    Ticket,
)

ABSENT = GroupFailure("absent", "this member did not come in time to be judged")
"""What stands for a member that did not come (F8). Nobody is ever told it: its seat is empty and closed."""


class Group:
    """An active group. `materials` are in slot order; `callers` maps each waiting ticket to its slot, in the order they
    came, or to None where it waits for all of them; `complete_since` is when judging was begun, `size_judged` how many
    members that was where not all had come (F8); `verdict` is what came in while outcomes are held (C15); `backing` is
    there where the group has an id."""

    __slots__ = (
        "attempt",
        "backing",
        "callers",
        "complete_since",
        "key",
        "materials",
        "phase",
        "question",
        "run",
        "seats",
        "size_judged",
        "started",
        "topic",
        "verdict",
    )

    def __init__(self, run: Run, first: Arrival, now: float) -> None:
        self.run = run
        self.key = first.key
        self.attempt = first.attempt
        self.backing = Backing(first.key, run) if isinstance(first.key, str) else None
        self.question = first.question
        self.topic = first.topic
        self.seats = Seats(first.size, None if first.member_id is None else {})
        self.materials: list[object] = [None] * first.size
        self.callers: dict[Ticket, Slot | None] = {}
        self.phase = Phase.COLLECTING
        self.started = now
        self.complete_since: float | None = None
        self.size_judged: int | None = None
        self.verdict: Judgement | JudgeFailure | None = None

    def step(self, event: Event) -> None:
        """Enter the phase that `event` leads to."""
        self.phase = after(self.phase, event)

    def accept(self, slot: Slot, arrival: Arrival) -> bool:
        """Seat a new member; says whether the group is complete now."""
        self.seats.take(slot, arrival)
        self.materials[slot] = arrival.material
        return self.seats.taken == self.seats.size

    def seated(self, slot: Slot) -> Seated:
        """Tells of a member that has come."""
        named = (self.run, self.key, self.attempt, self.topic)
        return Seated(*named, slot, self.seats.size, self.materials[slot])

    def start_judging(self, now: float) -> StartJudging:
        """What begins judging of those that have come: all of the group, or at its deadline enough of it (F8)."""
        slots = self.seats.present()
        is_complete = len(slots) == self.seats.size
        self.step(Event.LAST_MEMBER if is_complete else Event.ENOUGH_CAME)
        self.complete_since = now
        self.size_judged = None if is_complete else len(slots)
        materials = tuple(self.materials[slot] for slot in slots)
        return StartJudging(self.run, self.key, self.attempt, self.topic, materials, slots, self.seats.size)

    def settle(self, outcomes: tuple[Outcome, ...], judgement: Judgement | None) -> list[Effect]:
        """What tells every caller its member's outcome and lets every answer go."""
        effects: list[Effect] = [
            SettleAll(ticket, outcomes, judgement) if slot is None else Settle(ticket, slot, outcomes[slot])
            for ticket, slot in self.callers.items()
        ]
        effects += [Release(self.materials[slot]) for slot in self.seats.present()]
        self.materials = []
        self.callers = {}
        return effects

    def outcomes_of(self, verdict: Judgement | JudgeFailure | GroupFailure) -> tuple[Outcome, ...]:
        """One outcome for each slot."""
        if isinstance(verdict, GroupFailure):
            return (verdict,) * self.seats.size
        if isinstance(verdict, Judgement):
            note = (verdict.failure_kind, verdict.failure_reason, self.size_judged)
            told: list[Outcome] = [Rewarded(reward, *note) for reward in verdict.rewards]
        else:
            told = [JudgeFailure(verdict.reason, self.size_judged)] * self.seats.taken
        if self.size_judged is None:
            return tuple(told)
        by_slot = dict(zip(self.seats.present(), told, strict=True))
        return tuple(by_slot.get(slot, ABSENT) for slot in range(self.seats.size))
