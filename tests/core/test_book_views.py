"""What the book shows of itself: groups, records."""

import pytest

from groupjudge.core.views import GroupView
from groupjudge.model import GroupId, JudgeFailure, Judgement, Rewarded, Run, Verdict

from .play import Play, unnamed


def test_active_groups_come_first_in_the_order_they_began_then_results_as_they_finished() -> None:
    """H8: the order is the book's own, so that a listing does not jump about."""
    play = Play()
    play.finish("done 1")
    play.arrive(0, key="active 1")
    play.finish("done 2")
    play.complete("active 2")
    assert list(play.phases()) == ["active 1", "active 2", "done 1", "done 2"]


def test_a_collecting_group_shows_who_is_there() -> None:
    """H8: which slots, how many callers, since when."""
    play = Play(now=5.0)
    play.arrive(2, size=3)
    play.arrive(2, size=3)
    play.arrive(0, size=3)
    assert list(play.book.groups()) == [
        GroupView("g", 0, Run(1), "collecting", 3, (0, 2), 3, 5.0, None, None, None),
    ]


def test_a_judged_group_shows_when_it_was_complete() -> None:
    """H8: its age in each phase can be told."""
    play = Play(now=5.0)
    play.arrive(0)
    play.now = 7.0
    play.arrive(1, attempt=0)
    (view,) = play.book.groups()
    assert (view.phase, view.started, view.complete_since, view.finished) == ("judging", 5.0, 7.0, None)


def test_a_result_shows_its_times_its_run_and_its_outcomes() -> None:
    """H8: nobody waits for it any more."""
    play = Play(now=5.0)
    play.arrive(0, attempt=4)
    play.now = 7.0
    play.arrive(1, attempt=4)
    play.now = 9.0
    play.judged(Run(1), 1.0, 2.0)
    outcomes = (Rewarded(1.0), Rewarded(2.0))
    assert list(play.book.groups()) == [
        GroupView("g", 4, Run(1), "completed", 2, (0, 1), 0, 5.0, 7.0, 9.0, outcomes),
    ]


def test_a_result_of_a_group_that_never_filled_up_shows_who_was_there() -> None:
    """H8, L15: and that it was never complete."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(1, size=3)
    play.advance(10.0)
    (view,) = play.book.groups()
    assert (view.phase, view.present, view.complete_since, view.finished) == ("group_failed", (1,), None, 10.0)
    assert view.outcomes is not None
    assert len(view.outcomes) == 3


def test_a_held_group_shows_no_outcome_yet() -> None:
    """C15: it is not told, to nobody."""
    play = Play()
    run = play.complete()
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    (view,) = play.book.groups()
    assert (view.phase, view.outcomes) == ("held", None)


def test_groups_without_an_id_are_shown_by_what_stands_in_for_one() -> None:
    """L20."""
    play = Play()
    play.finish_without_judge(unnamed())
    (view,) = play.book.groups()
    assert view.key == unnamed()
    assert view.outcomes == (JudgeFailure("the judge is ill"),) * 2


def test_records_of_active_groups_come_first_and_are_not_idle() -> None:
    """L18: then the idle ones in the order in which they will go."""
    play = Play()
    play.finish("done")
    play.now = 3.0
    play.finish("done later", attempt=2)
    play.arrive(0, key="active", attempt=1, question="other")
    assert list(play.book.records()) == [
        ("active", 1, b"other", None),
        ("done", 0, b"q", 0.0),
        ("done later", 2, b"q", 3.0),
    ]


def test_one_group_is_found_by_its_id_and_attempt() -> None:
    """F5: active or retained; of another attempt there is nothing to show."""
    play = Play()
    play.finish("done", attempt=2)
    play.arrive(0, key="active", attempt=1)
    done, active = GroupId("done"), GroupId("active")
    shown = {(key, attempt): play.book.group(key, attempt) for key in (done, active) for attempt in (0, 1, 2)}
    assert {name: view.phase for name, view in shown.items() if view is not None} == {
        (done, 2): "completed",
        (active, 1): "collecting",
    }


def test_a_superseded_or_evicted_group_is_not_found() -> None:
    """F5, L11, L18: it is shown while it is retained."""
    play = Play(max_results=1)
    play.finish("g", attempt=1)
    play.finish("pushes g out")
    assert play.book.group(GroupId("g"), 1) is None
    play.complete("g", attempt=2)
    play.arrive(0, key="g", attempt=3)
    assert play.book.group(GroupId("g"), 2) is None


def test_a_completed_group_shows_what_its_rewards_were_made_of() -> None:
    """F5: the judgement as it came in, with every verdict, also where it was held (C15)."""
    play = Play()
    judgement = Judgement((4.0, 2.0), (Verdict(0, 1, 0, 4.0, 2.0, 2.0),), None)
    for key in ("told", "held"):
        run = play.complete(key)
        play.book.judged(run, judgement, play.now)
        play.book.hold()
    play.release()
    assert [view.judgement for view in play.book.groups()] == [judgement, judgement]


@pytest.mark.parametrize("fail", [Play.finish_without_judge, Play.spoil])
def test_a_failed_group_shows_no_judgement(fail) -> None:
    """F5, J19: what came in was none."""
    play = Play()
    fail(play)
    assert [view.judgement for view in play.book.groups()] == [None]


def test_looking_changes_nothing() -> None:
    """L18: it renews no record."""
    play = Play()
    play.finish()
    play.now = 5.0
    before = play.state()
    play.book.group(GroupId("g"), 0)
    list(play.book.groups())
    list(play.book.records())
    assert play.state() == before
