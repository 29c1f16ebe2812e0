"""The table of phases, and what it does not hold."""

from itertools import product

import pytest

from groupjudge.core.group import Group
from groupjudge.core.phases import TABLE, Event, IllegalStep, Phase, after, diagram
from groupjudge.model import Run

from .play import arrival, frozen

ILLEGAL = [step for step in product(Phase, Event) if step not in TABLE]
FINISHED = {Phase.COMPLETED, Phase.JUDGE_FAILED, Phase.GROUP_FAILED}


@pytest.mark.parametrize(("phase", "event"), ILLEGAL)
def test_a_step_outside_the_table_raises_and_changes_nothing(phase: Phase, event: Event) -> None:
    group = Group(Run(1), arrival(), 0.0)
    group.phase = phase
    before = frozen(group)
    with pytest.raises(IllegalStep, match=f"{event.name} in phase {phase.name}"):
        group.step(event)
    assert frozen(group) == before


@pytest.mark.parametrize(("phase", "event"), list(TABLE))
def test_a_step_of_the_table_leads_where_it_says(phase: Phase, event: Event) -> None:
    group = Group(Run(1), arrival(), 0.0)
    group.phase = phase
    group.step(event)
    assert group.phase is TABLE[phase, event] is after(phase, event)


def test_a_finished_group_takes_no_further_step() -> None:
    """L24: what was published once stays so."""
    assert {phase for phase in Phase if not any(old is phase for old, _ in TABLE)} == FINISHED


def test_only_the_last_member_or_the_deadline_leads_to_judging() -> None:
    """L2, F8: judging begins exactly once, and no way leads back to it."""
    into_judging = [step for step, new in TABLE.items() if new is Phase.JUDGING]
    assert into_judging == [(Phase.COLLECTING, Event.LAST_MEMBER), (Phase.COLLECTING, Event.ENOUGH_CAME)]


def test_a_superseded_or_stopped_group_fails_from_every_active_phase() -> None:
    """L11, L19: whatever an active group does, a newer attempt or the shutdown ends it."""
    for phase, event in product(set(Phase) - FINISHED, (Event.SUPERSEDED, Event.SHUTDOWN)):
        assert after(phase, event) is Phase.GROUP_FAILED


def test_the_phases_are_those_of_the_spec_and_no_more() -> None:
    """C15, L15, L16: which event ends which phase, spelled out once more by hand."""
    ends = {
        "collecting": {"LAST_MEMBER", "ENOUGH_CAME", "COLLECTION_TIMEOUT", "SUPERSEDED", "SHUTDOWN"},
        "judging": {"VERDICTS", "JUDGE_FAILURE", "OUTCOME_HELD", "SUPERSEDED", "SHUTDOWN", "OWN_ERROR"},
        "held": {"VERDICTS", "JUDGE_FAILURE", "SUPERSEDED", "SHUTDOWN"},
    }
    assert {(phase.value, event.name) for phase, event in TABLE} == {(p, e) for p, es in ends.items() for e in es}


def test_the_diagram_shows_every_step() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert "    [*] --> collecting: the first member came" in lines
    for (old, event), new in TABLE.items():
        assert f"    {old.value} --> {new.value}: {event.value}" in lines
    assert len([line for line in lines if line.endswith("--> [*]: evicted, or superseded")]) == len(FINISHED)
