"""The phases of a group and the one table of what leads from one to the next.

A phase changes by `after(phase, event)` only; a step that the table does not hold raises `IllegalStep`. The diagram in
docs/design.md is made from this table (`python -m groupjudge.core.phases` prints it).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Phase(Enum):
    """Where a group stands. COLLECTING, JUDGING and HELD groups are active, the others finished."""

    COLLECTING = "collecting"
    JUDGING = "judging"
    HELD = "held"
    COMPLETED = "completed"
    JUDGE_FAILED = "judge_failed"
    GROUP_FAILED = "group_failed"


class Event(Enum):
    """What can move a group to another phase."""

    LAST_MEMBER = "the last member came"
    ENOUGH_CAME = "the collection deadline passed, and those that came are judged"
    VERDICTS = "verdicts came"
    JUDGE_FAILURE = "the judge failed, or its deadline passed"
    OUTCOME_HELD = "verdicts or a judge failure while outcomes are held"
    COLLECTION_TIMEOUT = "the collection deadline passed"
    SUPERSEDED = "a newer attempt came"
    SHUTDOWN = "shutdown"
    OWN_ERROR = "an error of our own, or a reward that is not finite"


TABLE: Mapping[tuple[Phase, Event], Phase] = MappingProxyType(
    {
        (Phase.COLLECTING, Event.LAST_MEMBER): Phase.JUDGING,
        (Phase.COLLECTING, Event.ENOUGH_CAME): Phase.JUDGING,
        (Phase.COLLECTING, Event.COLLECTION_TIMEOUT): Phase.GROUP_FAILED,
        (Phase.COLLECTING, Event.SUPERSEDED): Phase.GROUP_FAILED,
        (Phase.COLLECTING, Event.SHUTDOWN): Phase.GROUP_FAILED,
        (Phase.JUDGING, Event.VERDICTS): Phase.COMPLETED,
        (Phase.JUDGING, Event.JUDGE_FAILURE): Phase.JUDGE_FAILED,
        (Phase.JUDGING, Event.OUTCOME_HELD): Phase.HELD,
        (Phase.JUDGING, Event.SUPERSEDED): Phase.GROUP_FAILED,
        (Phase.JUDGING, Event.SHUTDOWN): Phase.GROUP_FAILED,
        (Phase.JUDGING, Event.OWN_ERROR): Phase.GROUP_FAILED,
        (Phase.HELD, Event.VERDICTS): Phase.COMPLETED,
        (Phase.HELD, Event.JUDGE_FAILURE): Phase.JUDGE_FAILED,
        (Phase.HELD, Event.SUPERSEDED): Phase.GROUP_FAILED,
        (Phase.HELD, Event.SHUTDOWN): Phase.GROUP_FAILED,
    }
)


class IllegalStep(AssertionError):
    """A step that the table does not hold: a defect of the core, never of a caller."""


def after(phase: Phase, event: Event) -> Phase:
    """The phase that `event` leads to from `phase`; raises IllegalStep where it leads nowhere."""
    try:
        return TABLE[phase, event]
    except KeyError:
        raise IllegalStep(f"{event.name} in phase {phase.name}") from None


def diagram() -> str:
    """The table as the source of a Mermaid state diagram."""
    steps = [f"    {old.value} --> {new.value}: {event.value}" for (old, event), new in TABLE.items()]
    first, last = ["    [*] --> collecting: the first member came"], []
    for phase in Phase:
        if not any(old is phase for old, _ in TABLE):
            last.append(f"    {phase.value} --> [*]: evicted, or superseded")
    return "\n".join(["stateDiagram-v2", *first, *steps, *last])


if __name__ == "__main__":
    print(diagram())
