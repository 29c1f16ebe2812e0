"""While a checkpoint is open, outcomes wait (C15)."""

import pytest

from groupjudge.core.effects import Settle, StopJudging
from groupjudge.errors import Superseded
from groupjudge.model import GroupFailure, JudgeFailure, Rewarded, Run

from .play import NO_REWARDS, Play, kinds, outcomes, rewards, started, unnamed


def held(play: Play, key: str = "g") -> Run:
    """A group whose verdicts came in while outcomes are held."""
    run = play.complete(key)
    play.book.hold()
    assert play.judged(run, 1.0, 2.0) == []
    return run


def test_verdicts_that_come_in_are_told_at_the_release() -> None:
    """C15: nothing before, everything then."""
    play = Play()
    held(play)
    assert play.phases() == {"g": "held"}
    assert kinds(play.release()) == ["Settle", "Settle", "Release", "Release"]
    assert play.phases() == {"g": "completed"}


def test_a_judge_failure_waits_too() -> None:
    """C15: a caller would record it as a row."""
    play = Play()
    run = play.complete()
    play.book.hold()
    assert play.judge_failed(run) == []
    assert set(outcomes(play.release()).values()) == {JudgeFailure("the judge is ill")}


def test_a_judging_deadline_that_passes_meanwhile_stops_judging_and_waits() -> None:
    """C15, L16: the calls end at once, the callers hear of it at the release."""
    play = Play(judging_timeout_s=10.0)
    run = play.complete()
    play.book.hold()
    assert play.advance(10.0) == [StopJudging(run)]
    assert play.phases() == {"g": "held"}
    assert set(outcomes(play.release()).values()) == {JudgeFailure("the judging deadline of 10 s passed")}


def test_held_groups_finish_in_the_order_their_outcomes_came() -> None:
    """C15: not in the order in which they began; one that a deadline ended is in that order too."""
    play = Play(judging_timeout_s=10.0)
    runs = {key: play.complete(key) for key in "abcd"}
    play.book.hold()
    play.judged(runs["c"], 1.0, 2.0)
    play.judge_failed(runs["a"])
    play.now = 9.0
    play.judged(runs["d"], 1.0, 2.0)
    play.advance(10.0)
    play.release()
    assert [view.key for view in play.book.groups()] == ["c", "a", "d", "b"]


def test_a_held_group_finishes_at_the_release_and_is_retained_from_then_on() -> None:
    """C15, L18: its time begins at the resume."""
    play = Play(ttl_s=10.0)
    held(play)
    play.advance(100.0)
    play.release()
    assert [view.finished for view in play.book.groups()] == [100.0]
    assert [since for *_, since in play.book.records()] == [100.0]
    play.advance(109.0)
    assert play.phases() == {"g": "completed"}


def test_a_deadline_that_is_due_by_the_release_is_held_and_told_with_the_others() -> None:
    """C15: it passed while the checkpoint was open, though no timer said so."""
    play = Play(judging_timeout_s=10.0)
    play.complete()
    play.book.hold()
    play.now = 11.0
    assert kinds(play.release()) == ["StopJudging", "Settle", "Settle", "Release", "Release"]
    assert [view.finished for view in play.book.groups()] == [11.0]


def test_no_later_deadline_changes_a_held_outcome() -> None:
    """C15: it is final, and it has no deadline any more."""
    play = Play(judging_timeout_s=10.0)
    held(play)
    assert play.book.next_deadline() is None
    assert play.advance(1e6) == []
    assert sorted(rewards(play.release()).values()) == [1.0, 2.0]


def test_no_later_verdict_changes_a_held_outcome() -> None:
    """C15, L24: the first one counts; nothing is judged or told twice."""
    play = Play()
    run = held(play)
    assert play.judged(run, 8.0, 9.0) == []
    assert play.judge_failed(run) == []
    assert play.judged(run, *NO_REWARDS) == []
    assert sorted(rewards(play.release()).values()) == [1.0, 2.0]


def test_a_retry_may_join_a_held_group_and_waits_with_the_others() -> None:
    """C15, L3: its callers wait until the resume, and one that left is not told."""
    play = Play()
    run = play.complete()
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    gone, stays = play.arrive(0), play.arrive(1)
    play.book.leave(gone)
    play.book.drain()
    told = rewards(play.release())
    assert told[stays] == 2.0
    assert gone not in told


def test_a_higher_attempt_fails_a_held_group_at_once() -> None:
    """C15, L11: there is no judging left to stop; its outcome is lost."""
    play = Play()
    held(play)
    play.arrive(0, attempt=1)
    effects = play.book.drain()
    assert kinds(effects) == ["Settle", "Settle", "Release", "Release"]
    assert {outcome.kind for outcome in outcomes(effects).values()} == {"superseded"}
    assert play.release() == []
    with pytest.raises(Superseded):
        play.arrive(0)


def test_a_shutdown_fails_a_held_group_at_once() -> None:
    """C15, L19."""
    play = Play()
    held(play)
    effects = play.close()
    assert kinds(effects) == ["Settle", "Settle", "Release", "Release"]
    assert {outcome.kind for outcome in outcomes(effects).values()} == {"shutting_down"}
    assert play.release() == []


def test_group_failures_are_not_held() -> None:
    """C15: a collection deadline and an error of our own are no rows that a caller records."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0, key="collecting")
    run = play.complete("judging")
    play.book.hold()
    assert kinds(play.judged(run, *NO_REWARDS)) == ["Settle", "Settle", "Release", "Release"]
    assert kinds(play.advance(10.0)) == ["Settle", "Release"]


def test_an_error_of_our_own_is_not_held() -> None:
    """C15: nor one that the host reports."""
    play = Play()
    run = play.complete()
    play.book.hold()
    play.book.judging_failed(run, GroupFailure("internal", "a defect"), play.now)
    assert set(outcomes(play.book.drain()).values()) == {GroupFailure("internal", "a defect")}


def test_groups_go_on_forming_and_being_judged_meanwhile() -> None:
    """C15: judging itself goes on; known outcomes are replayed."""
    play = Play()
    play.finish("done")
    play.book.hold()
    assert play.complete("new") == Run(2)
    ticket = play.arrive(0, key="done")
    assert rewards(play.book.drain()) == {ticket: 1.0}


def test_holding_ends_with_the_release() -> None:
    """C15: what comes in later is told at once; a second release has nothing to tell."""
    play = Play()
    run = play.complete("later")
    held(play)
    play.release()
    assert play.release() == []
    assert kinds(play.judged(run, 1.0, 2.0))[0] == "Settle"


def test_each_checkpoint_tells_its_own() -> None:
    """C15: all that is held is told before the next prepare is looked at."""
    play = Play()
    for key in ("first", "second"):
        held(play, key)
        assert len(outcomes(play.release())) == 2


def test_hold_twice_is_hold_once() -> None:
    """C7: every call of the control plane is safe to repeat."""
    play = Play()
    held(play)
    play.book.hold()
    assert len(outcomes(play.release())) == 2


def test_a_held_group_is_active() -> None:
    """C15, L18: it counts among the active ones, and no finished group is pushed out by it."""
    play = Play(max_active_groups=1, max_results=1)
    play.finish("done")
    held(play)
    assert play.phases() == {"g": "held", "done": "completed"}
    assert play.records() == [("g", 0), ("done", 0)]
    play.release()
    assert play.phases() == {"g": "completed"}


def test_a_held_group_without_an_id_is_told_like_any_other() -> None:
    """C15, L20."""
    play = Play()
    ticket = play.arrive(0, key=unnamed())
    play.arrive(1, key=unnamed())
    (run,) = started(play.book.drain())
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    assert play.release()[0] == Settle(ticket, 0, Rewarded(1.0))
