"""Who sits where in one group: the fingerprints by slot. A group has it while it lives, its result keeps it after."""

from __future__ import annotations

from collections.abc import Sequence

from groupjudge.errors import AnswerConflict, GroupClosed, SizeMismatch
from groupjudge.model import Arrival, Fingerprint, Slot


class Seats:
    """`size` slots, each empty (None) or taken by one answer's fingerprint. Slots are named by index, or given out to
    member ids in order (A3): `by_member` is None in a group that takes slots by index."""

    __slots__ = ("answers", "by_member", "size", "taken")

    def __init__(self, size: int, by_member: dict[str, Slot] | None = None) -> None:
        self.size = size
        self.answers: list[Fingerprint | None] = [None] * size
        self.by_member = by_member
        self.taken = 0

    def find(self, arrival: Arrival, *, is_open: bool) -> Slot:
        """The slot that `arrival` means: taken by the very same answer, or, where the group `is_open`, empty.

        Raises SizeMismatch, AnswerConflict or GroupClosed (in this order) and changes nothing.
        """
        if arrival.size != self.size:
            raise SizeMismatch(f"this group has {self.size} members, the request says {arrival.size}")
        by_index = self.by_member is None and arrival.member_id is None
        slot = arrival.slot if by_index else self._slot_of_member(arrival.member_id, is_open)
        answer = self.answers[slot] if slot is not None else None
        if slot is None or (answer is None and not is_open):
            raise GroupClosed(self._why_closed(arrival))
        if answer is not None and answer != arrival.answer:
            raise AnswerConflict(f"slot {slot} of this group already holds another answer")
        return slot

    def find_all(self, arrivals: Sequence[Arrival], *, is_open: bool) -> list[Slot]:
        """The slots of a whole group's arrivals, one for each. Raises as `find` does for one of them, conflicts before
        what is closed, as the order of checks is (L7)."""
        slots: list[Slot] = []
        closed: Arrival | None = None
        for arrival in arrivals:
            try:
                slots.append(self.find(arrival, is_open=is_open))
            except GroupClosed:
                closed = arrival
        if closed is not None:
            self.find(closed, is_open=is_open)
        return slots

    def take(self, slot: Slot, arrival: Arrival) -> None:
        """Put `arrival` into the empty `slot` that `find` gave."""
        self.answers[slot] = arrival.answer
        self.taken += 1
        if arrival.member_id is not None and self.by_member is not None:
            self.by_member[arrival.member_id] = slot

    def vacate(self, slot: Slot) -> None:
        """Empty a taken slot of a finished group: nobody is to find it any more."""
        self.answers[slot] = None
        self.taken -= 1
        member_id = self.member_id_of(slot)
        if member_id is not None and self.by_member is not None:
            del self.by_member[member_id]

    def put_back(self, slot: Slot, answer: Fingerprint, member_id: str | None) -> None:
        """Seat a member of a restored group; the same one may come again."""
        self.taken += self.answers[slot] is None
        self.answers[slot] = answer
        if member_id is not None and self.by_member is not None:
            self.by_member[member_id] = slot

    def member_id_of(self, slot: Slot) -> str | None:
        """The member id that the slot was given to, where the group takes its slots so."""
        return next((name for name, taken in (self.by_member or {}).items() if taken == slot), None)

    def present(self) -> tuple[Slot, ...]:
        return tuple(slot for slot, answer in enumerate(self.answers) if answer is not None)

    def _slot_of_member(self, member_id: str | None, is_open: bool) -> Slot | None:
        """A known member's slot, or the next free one for a new member of an open group; None where there is none."""
        if member_id is None or self.by_member is None:
            return None
        return self.by_member.get(member_id, self.taken if is_open else None)

    def _why_closed(self, arrival: Arrival) -> str:
        if (arrival.member_id is None) != (self.by_member is None):
            return "this group takes its slots by " + ("index" if self.by_member is None else "member id")
        return "this group is being judged or finished, and this slot is not part of it"
