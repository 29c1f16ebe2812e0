"""What must hold of every run (L24), said without knowing how the book or the workload work.

The checker hears what passes between the host, its callers and the judge. Each accepted arrival carries a serial
number as its material, and the simulated judge rewards an answer with the serial number that it was given: so every
reward tells which arrival, and with it which group, attempt, run, slot and answer, it was made for.
"""

from __future__ import annotations

from typing import NamedTuple

from groupjudge.core.effects import Release, Seated, Settle, SettleAll, StartJudging
from groupjudge.model import Arrival, Attempt, GroupFailure, GroupKey, Outcome, Rewarded, Run, Slot, Ticket, UnnamedKey

Group = tuple[GroupKey, Attempt]


class Watcher(NamedTuple):
    """Somebody who asked for a member without bringing it (A2)."""

    key: GroupKey
    attempt: Attempt
    slot: Slot


class Whole(NamedTuple):
    """Somebody who brought a whole group (A1)."""

    key: GroupKey
    attempt: Attempt
    arrivals: tuple[Arrival, ...]


Caller = Arrival | Watcher | Whole


class Violation(AssertionError):
    """L24 does not hold."""


class Checker:
    def __init__(self, default_score: float, min_members: int | None = None, *, eager: bool = False) -> None:
        self.eager = eager
        self.seated_in: dict[Run, dict[Slot, object]] = {}
        self.default_score = default_score
        self.min_members = min_members
        self.judged_of: dict[Run, int | None] = {}
        self.open: dict[Ticket, Caller] = {}
        self.open_of: dict[Group, set[Ticket]] = {}
        self.held: dict[int, Arrival] = {}
        self.judged: dict[int, tuple[Run, Slot, Arrival]] = {}
        self.runs: set[Run] = set()
        self.running: set[Run] = set()
        self.reported: set[Run] = set()
        self.newest_run: dict[Group, Run] = {}
        self.published: dict[Group, tuple[Run | None, object]] = {}
        self.batch: dict[Group, object] = {}
        self.just_accepted: Ticket | None = None
        self.accepted_count = self.replied_count = self.left_count = 0

    # What passes

    def accepted(self, ticket: Ticket, caller: Caller) -> None:
        _demand(ticket not in self.open, "a ticket was given twice")
        self.open[ticket] = caller
        self.open_of.setdefault(caller[:2], set()).add(ticket)
        if not isinstance(caller, Watcher):
            for arrival in caller.arrivals if isinstance(caller, Whole) else (caller,):
                self.held[_serial(arrival)] = arrival
        self.just_accepted = ticket
        self.accepted_count += 1

    def left(self, ticket: Ticket) -> None:
        self._forget(ticket)
        self.left_count += 1

    def settled(self, effect: Settle) -> None:
        ticket, slot, outcome = effect
        arrival = self._answered(ticket)
        _demand(not isinstance(arrival, Whole), "a whole group's caller got one member's outcome")
        self._told(ticket, arrival, slot, outcome)  # type: ignore[arg-type]

    def settled_all(self, effect: SettleAll) -> None:
        whole = self._answered(effect.ticket)
        _demand(isinstance(whole, Whole), "one member's caller got a whole group's outcomes")
        assert isinstance(whole, Whole)
        _demand(len(effect.outcomes) == len(whole.arrivals), "a whole group got another number of outcomes")
        for slot, (arrival, outcome) in enumerate(zip(whole.arrivals, effect.outcomes, strict=True)):
            self._told(effect.ticket, arrival, slot, outcome)

    def _answered(self, ticket: Ticket) -> Caller:
        _demand(ticket in self.open, "a reply to nobody, to one that left, or a second reply")
        self.replied_count += 1
        return self._forget(ticket)

    def _told(self, ticket: Ticket, arrival: Arrival | Watcher, slot: Slot, outcome: Outcome) -> None:
        """Somebody was told the outcome of a member."""
        if arrival.slot is not None:
            _demand(slot == arrival.slot, "a reply names another slot")
        if isinstance(arrival, Arrival) and arrival.size == 1:
            _demand(outcome == Rewarded(self.default_score), "N = 1 got another outcome (L9)")
            return
        group = arrival[:2]
        if isinstance(outcome, Rewarded):
            essence: object = self._rewarded(arrival, slot, outcome.reward)
        else:
            essence = outcome
        if not isinstance(outcome, GroupFailure):
            run = self.newest_run.get(group)
            _demand(run is not None, "an outcome of judging before any judging")
            _demand(outcome.group_size_judged == self.judged_of[run], "a reply tells another number of judged members")
            before = self.published.setdefault(group, (run, essence))
            _demand(before[0] != run or before[1] == essence, "a group published twice")
            self.published[group] = (run, essence)
        if ticket != self.just_accepted:
            _demand(self.batch.setdefault(group, essence) == essence, "callers of one group got different outcomes")

    def seated(self, effect: Seated) -> None:
        """F7: a member may be compared early; it must be one of that very group, and the group not judged yet."""
        run, key, attempt, topic, slot, size, material = effect
        _demand(self.eager, "a member was compared early, though that is switched off")
        _demand(run not in self.runs, "a member came to a group that is judged")
        arrival = self.held.get(material)  # type: ignore[call-overload]
        _demand(arrival is not None, "an answer was seated that nobody brought, or that was let go")
        _demand(arrival[:3] == (key, attempt, size) and arrival.slot in (slot, None), "an answer was seated elsewhere")
        members = self.seated_in.setdefault(run, {})
        _demand(slot not in members, "a slot was seated twice")
        members[slot] = material
        asked = {self.held[m].topic for m in members.values()}  # type: ignore[index]
        _demand(asked == {topic}, "a member was seated with another question")

    def judging_started(self, effect: StartJudging) -> None:
        run, key, attempt, topic, materials, slots, size = effect
        _demand(run not in self.runs, "a run was judged twice")
        first = self.held.get(materials[0])  # type: ignore[call-overload]
        _demand(first is not None and size == first.size, "a group was judged with another size than its own")
        _demand(len(slots) == len(materials), "an incomplete group was judged")
        if slots != tuple(range(size)):
            enough = self.min_members is not None and self.min_members <= len(slots) < size
            _demand(enough and not isinstance(key, UnnamedKey), "an incomplete group was judged")
            _demand(sorted(set(slots)) == list(slots), "answers were judged out of order")
        if self.eager:
            seated = self.seated_in.pop(run, {})
            _demand(seated == dict(zip(slots, materials, strict=True)), "others were judged than were seated")
        self.judged_of[run] = None if len(slots) == size else len(slots)
        for slot, material in zip(slots, materials, strict=True):
            arrival = self.held.get(material)  # type: ignore[call-overload]
            _demand(arrival is not None, "an answer was judged that nobody brought, or that was let go")
            _demand(material not in self.judged, "an answer was judged twice")
            _demand(arrival.slot in (slot, None), "an answer was judged in another slot")
            _demand(
                (arrival.key, arrival.attempt, arrival.size, arrival.question)
                == (key, attempt, first.size, first.question),
                "members of different groups were judged together",
            )
            self.judged[material] = (run, slot, arrival)  # type: ignore[index]
        _demand(topic in (self.held[m].topic for m in materials), "a question was judged that no member asked")  # type: ignore[index]
        self.runs.add(run)
        self.running.add(run)
        self.newest_run[key, attempt] = run

    def judge_reports(self, run: Run) -> None:
        if run in self.running:
            self.running.discard(run)
            self.reported.add(run)

    def judging_stopped(self, run: Run) -> None:
        if self.seated_in.pop(run, None) is None:
            _demand(run in self.running, "a judging was stopped that does not run")
        self.running.discard(run)

    def released(self, effect: Release) -> None:
        _demand(self.held.pop(effect.material, None) is not None, "material let go twice, or never taken")  # type: ignore[call-overload]

    def batch_over(self) -> None:
        """All effects of one input were seen: no caller of a group that published may still wait."""
        for group in self.batch:
            late = self.open_of.get(group, set()) - {self.just_accepted}
            _demand(not late, "a caller of a finished group got no reply")
        self.batch.clear()
        self.just_accepted = None

    def over(self) -> None:
        """Nothing more will happen: everyone has a reply and everything was let go."""
        _demand(not self.open and not self.open_of, "callers were never answered")
        _demand(not self.running and not self.seated_in, "a judging was never stopped")
        _demand(not self.held, "material was never let go")
        _demand(self.accepted_count == self.replied_count + self.left_count, "replies and callers differ in number")

    # Small steps

    def _rewarded(self, arrival: Arrival | Watcher, slot: Slot, reward: float) -> Run:
        """The run that made the reward, which must be one of this very answer."""
        _demand(int(reward) in self.judged, "a reward that the judge never gave")
        run, judged_slot, source = self.judged[int(reward)]
        _demand(run in self.reported, "a reward before its judge reported, or after it was stopped")
        _demand(run == self.newest_run[arrival[:2]], "a reward of an earlier run of the group")
        _demand(slot == judged_slot, "a reward of another slot")
        if isinstance(arrival, Watcher):
            _demand(arrival[:2] == source[:2], "a reward of another group or attempt")
            return run
        _demand(arrival[:6] == source[:6], "a reward of another group, attempt, slot or answer")
        _demand(arrival.member_id == source.member_id, "a reward of another member")
        return run

    def _forget(self, ticket: Ticket) -> Caller:
        arrival = self.open.pop(ticket)
        waiting = self.open_of[arrival[:2]]
        waiting.discard(ticket)
        if not waiting:
            del self.open_of[arrival[:2]]
        return arrival


def _serial(arrival: Arrival) -> int:
    assert isinstance(arrival.material, int)
    return arrival.material


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)
