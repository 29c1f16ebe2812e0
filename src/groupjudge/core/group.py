"""One attempt of a group, from its first member to its outcome."""

from __future__ import annotations

from groupjudge.core.backing import Backing
from groupjudge.core.effects import Effect, Release, Settle, SettleAll, StartJudging
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


class Group:
    """An active group. `materials` are in slot order; `callers` maps each waiting ticket to its slot, in the order they
    came, or to None where it waits for all of them; `verdict` is what came in while outcomes are held (C15); `backing`
    is there where the group has an id."""

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
        self.verdict: Judgement | JudgeFailure | None = None

    def step(self, event: Event) -> None:
        """Enter the phase that `event` leads to."""
        self.phase = after(self.phase, event)

    def accept(self, slot: Slot, arrival: Arrival) -> bool:
        """Seat a new member; says whether the group is complete now."""
        self.seats.take(slot, arrival)
        self.materials[slot] = arrival.material
        return self.seats.taken == self.seats.size

    def start_judging(self, now: float) -> StartJudging:
        """The group is complete: what begins its judging."""
        self.step(Event.LAST_MEMBER)
        self.complete_since = now
        return StartJudging(self.run, self.key, self.attempt, self.topic, tuple(self.materials))

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
        if isinstance(verdict, Judgement):
            kind, reason = verdict.failure_kind, verdict.failure_reason
            return tuple(Rewarded(reward, kind, reason) for reward in verdict.rewards)
        return (verdict,) * self.seats.size
