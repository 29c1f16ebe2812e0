"""What can be told of all groups without looking at them (H8)."""

from __future__ import annotations

import pytest

from groupjudge.core.census import ACTIVE, OUTCOMES
from groupjudge.core.phases import Phase
from groupjudge.errors import GroupFailed
from groupjudge.model import GroupFailure, Run

from .play import Play, arrival, judgement, unnamed


def counts(play: Play) -> dict[str, int]:
    """How many active groups there are in each phase."""
    return {phase.value: play.book.census.count(phase) for phase in ACTIVE}


def oldest(play: Play, phase: Phase, most: int = 9) -> list[str]:
    return [str(view.key) for view in play.book.census.oldest(phase, most)]


def test_groups_are_counted_in_the_phase_that_they_are_in() -> None:
    """H8, L2: collecting, then judging, then held or not active at all."""
    play = Play()
    play.arrive(0, key="a")
    play.arrive(0, key="b")
    assert counts(play) == {"collecting": 2, "judging": 0, "held": 0}
    run = play.complete("c")
    assert counts(play) == {"collecting": 2, "judging": 1, "held": 0}
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    assert counts(play) == {"collecting": 2, "judging": 0, "held": 1}
    play.release()
    assert counts(play) == {"collecting": 2, "judging": 0, "held": 0}
    assert (play.book.census.formed, play.book.census.ended["completed"]) == (3, 1)


def test_the_oldest_of_a_phase_come_first_and_no_more_than_asked_for() -> None:
    """H8: by when they came to the phase, not by when they began."""
    play = Play()
    for key in ("a", "b", "c"):
        play.arrive(0, key=key)
    play.arrive(1, key="b")
    play.arrive(1, key="a")
    assert oldest(play, Phase.JUDGING) == ["b", "a"]
    assert oldest(play, Phase.JUDGING, 1) == ["b"]
    assert oldest(play, Phase.COLLECTING) == ["c"]


def test_every_way_to_end_is_counted_by_its_name() -> None:
    """H8: each group once, whatever ended it."""
    play = Play(collection_timeout_s=10.0)
    play.finish("rewarded")
    play.finish_without_judge("ill judge")
    play.spoil("no numbers")
    play.arrive(0, key="older")
    play.arrive(0, key="older", attempt=1)
    play.advance(10.0)
    play.arrive(0, key="last")
    play.close()
    census = play.book.census
    assert census.ended == {**dict.fromkeys(OUTCOMES, 1)}
    assert census.formed == 6


def test_members_retries_and_lonely_answers_are_counted_apart() -> None:
    """L3, L4, L9: an exact retry is no member; a refused request is nothing."""
    play = Play()
    play.arrive(0)
    play.arrive(0)
    play.judged(Run(1), 1.0)
    play.arrive(1)
    play.judged(Run(1), 1.0, 2.0)
    for _ in range(3):
        play.arrive(1)
    play.finish_without_judge("ill")
    play.arrive(0, key="ill")
    play.spoil("spoilt")
    with pytest.raises(GroupFailed):
        play.arrive(0, key="spoilt")
    play.arrive(0, key="alone", size=1)
    census = play.book.census
    assert (census.members, census.alone) == (6, 1)
    assert census.retries == {"waits": 1, "reward": 3, "judge_failed": 1}


def test_whole_groups_are_counted_by_their_members() -> None:
    """A1: those that were there already are retries, each of them."""
    play = Play()
    play.arrive(0)
    play.book.arrive_all([arrival(0), arrival(1)], play.now)
    play.judged(Run(1), 1.0, 2.0)
    play.book.arrive_all([arrival(0), arrival(1)], play.now)
    play.book.arrive_all([arrival(0, key="alone", size=1)], play.now)
    census = play.book.census
    assert (census.members, census.alone) == (2, 1)
    assert census.retries == {"waits": 1, "reward": 2, "judge_failed": 0}


def test_verdicts_that_come_too_late_are_told_apart() -> None:
    """L11, L16, J19: whether rewards are the group's is said at once."""
    play = Play()
    run = play.complete("g")
    assert play.book.judged(run, judgement(1.0, 2.0), play.now)
    assert not play.book.judged(run, judgement(1.0, 2.0), play.now)
    assert not play.book.judged(play.complete("h"), judgement(1.0), play.now)


def test_the_newest_results_come_first() -> None:
    """H8."""
    play = Play()
    for key in ("a", "b", "c"):
        play.finish(key)
    assert [view.key for view in play.book.newest_results()] == ["c", "b", "a"]


def test_what_is_retained_is_counted() -> None:
    """L18, L20: a completed group without an id leaves nothing."""
    play = Play(max_results=2)
    for key in ("a", "b", "c"):
        play.finish(key)
    play.finish(unnamed())
    assert play.book.kept() == (2, 3, 0)


def test_an_active_groups_material_can_be_seen_and_a_finished_ones_is_gone() -> None:
    """F5, L17."""
    play = Play()
    play.arrive(1)
    assert play.book.materials(Run(1)) == ("topic of q", (None, "material of answer of 1"))
    play.arrive(0)
    assert play.book.materials(Run(1)) == ("topic of q", ("material of answer of 0", "material of answer of 1"))
    play.book.judging_failed(Run(1), GroupFailure("internal", "broken"), 0.0)
    assert play.book.materials(Run(1)) is None
