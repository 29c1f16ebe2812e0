"""What a book knows of its groups without looking at them: the active ones by phase, and how many there have been.

Everything here is kept up as it happens and costs the same however many groups are active or retained, so that it can
be asked at any time. Counts begin with the book and only grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from groupjudge.core.group import Group
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Result
from groupjudge.core.views import GroupView, view_of_group
from groupjudge.model import GroupFailure, JudgeFailure, Judgement, Run, Slot

ACTIVE = (Phase.COLLECTING, Phase.JUDGING, Phase.HELD)
OUTCOMES = ("completed", "judge_failed", "collection_timeout", "superseded", "internal", "shutting_down")
"""What becomes of a group: it has rewards, its judge failed, or it failed as a group (the kinds of `GroupFailure`)."""
RETRIES = ("waits", "reward", "judge_failed")
"""What an exact retry gets: a place beside the first caller (L3), or the saved outcome at once (L4)."""


class Kept(NamedTuple):
    """How much the two stores hold; `spared`: results beyond their time or number that an open session needs (C18)."""

    results: int
    records: int
    spared: int


class Census:
    """`members` counts accepted answers of groups, `alone` answers that need no group (L9), `formed` attempts that
    began, `partial` those of which only the members that came were judged (F8), `ended` how they ended, `retries` exact
    retries by what they got."""

    __slots__ = ("_of_phase", "alone", "ended", "formed", "members", "partial", "retries")

    def __init__(self) -> None:
        self._of_phase: dict[Phase, dict[Run, Group]] = {phase: {} for phase in ACTIVE}
        self.formed = self.members = self.alone = self.partial = 0
        self.ended = dict.fromkeys(OUTCOMES, 0)
        self.retries = dict.fromkeys(RETRIES, 0)

    def count(self, phase: Phase) -> int:
        """How many active groups are in that phase."""
        return len(self._of_phase[phase])

    def oldest(self, phase: Phase, most: int) -> Iterator[GroupView]:
        """Those that have been in that phase for longest, at most so many."""
        return map(view_of_group, islice(self._of_phase[phase].values(), most))

    # -- what the book tells ---------------------------------------------------------------------------------------

    def begins(self, group: Group) -> None:
        """An attempt of a group begins."""
        self.formed += 1
        self.enters(group)

    def enters(self, group: Group) -> None:
        """The group has come to the active phase that it is in."""
        self._of_phase[group.phase][group.run] = group

    def leaves(self, group: Group) -> None:
        """It is about to leave it."""
        del self._of_phase[group.phase][group.run]

    def ends(self, group: Group, verdict: Judgement | JudgeFailure | GroupFailure) -> None:
        """The group has its outcome."""
        what = verdict.kind if isinstance(verdict, GroupFailure) else group.phase.value
        self.ended[what] = self.ended.get(what, 0) + 1

    def replays(self, result: Result, slots: Sequence[Slot]) -> None:
        """Exact retries of these members got what they were given."""
        self.retries["reward" if result.phase is Phase.COMPLETED else "judge_failed"] += len(slots)

    def check(self, active: dict[Run, Phase]) -> None:
        """Raise AssertionError where this differs from the phases of the `active` groups."""
        known = {run: phase for phase, groups in self._of_phase.items() for run in groups}
        assert known == active, "a group is counted in another phase than its own"
        for groups in self._of_phase.values():
            assert all(run == group.run for run, group in groups.items()), "a group is counted under another run"
        assert self.formed == len(active) + sum(self.ended.values()), "an attempt was not counted"
