"""What the outside may see of groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupjudge.core.group import Group
from groupjudge.core.retention import Result
from groupjudge.model import Attempt, GroupKey, Judgement, Outcome, Run, Slot


@dataclass(frozen=True, slots=True)
class GroupView:
    """What may be shown of a group: no text, no fingerprint. Times are of the clock of `now`; `phase` is one of
    collecting, judging, held, completed, judge_failed, group_failed; `outcomes` are in slot order; `judgement` is what
    a completed group's rewards were made of. `size_judged`: how many members are judged, or were, where not all came
    (F8); their slots are those in `present`."""

    key: GroupKey
    attempt: Attempt
    run: Run
    phase: str
    size: int
    present: tuple[Slot, ...]
    callers: int
    started: float
    complete_since: float | None
    finished: float | None
    outcomes: tuple[Outcome, ...] | None
    judgement: Judgement | None = field(default=None, compare=False)
    size_judged: int | None = None


def view_of_group(group: Group) -> GroupView:
    """An active group."""
    seats = group.seats
    times = (group.started, group.complete_since, None)
    return GroupView(
        group.key,
        group.attempt,
        group.run,
        group.phase.value,
        seats.size,
        seats.present(),
        len(group.callers),
        *times,
        None,
        size_judged=group.size_judged,
    )


def view_of_result(result: Result) -> GroupView:
    """A finished group that is retained."""
    seats = result.seats
    times = (result.started, result.complete_since, result.since)
    return GroupView(
        result.key,
        result.attempt,
        result.run,
        result.phase.value,
        seats.size,
        seats.present(),
        0,
        *times,
        result.outcomes,
        result.judgement,
        getattr(result.outcomes[seats.present()[0]], "group_size_judged", None),
    )
