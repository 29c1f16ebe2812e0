"""What time does: deadlines (L15, L16), and how every input catches up with it."""

from collections.abc import Callable
from math import nan

import pytest

from groupjudge.core.effects import Release, Settle, StopJudging
from groupjudge.errors import GroupFailed
from groupjudge.model import GroupFailure, JudgeFailure, Run

from .play import Play, arrival, judgement, kinds, outcomes, rewards


def test_a_group_that_does_not_fill_up_fails_and_says_how_many_came() -> None:
    """L15: every caller of every member is told, in the order they came; then the answers are let go, in slot order."""
    play = Play(collection_timeout_s=10.0)
    tickets = [play.arrive(slot, size=4) for slot in (2, 0, 2)]
    play.book.drain()
    failure = GroupFailure("collection_timeout", "the collection deadline passed with 2 of 4 members")
    assert play.advance(10.0) == [
        Settle(tickets[0], 2, failure),
        Settle(tickets[1], 0, failure),
        Settle(tickets[2], 2, failure),
        Release("material of answer of 0"),
        Release("material of answer of 2"),
    ]
    assert play.phases() == {"g": "group_failed"}


def test_a_deadline_of_exactly_now_has_passed() -> None:
    """L15: and not a moment earlier."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0)
    assert play.advance(9.999) == []
    assert kinds(play.advance(10.0)) == ["Settle", "Release"]


def test_neither_retries_nor_further_members_extend_the_collection() -> None:
    """L15: it runs from the first member."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0, size=3)
    play.now = 5.0
    play.arrive(0, size=3)
    play.arrive(1, size=3)
    assert play.book.next_deadline() == 10.0
    play.advance(10.0)
    assert play.phases() == {"g": "group_failed"}


def test_a_judging_deadline_is_a_judge_failure() -> None:
    """L16: the calls are cancelled first, then everyone is told; it is final."""
    play = Play(judging_timeout_s=10.0)
    run = play.complete()
    effects = play.advance(10.0)
    failure = JudgeFailure("the judging deadline of 10 s passed")
    assert effects[0] == StopJudging(run)
    assert kinds(effects[1:]) == ["Settle", "Settle", "Release", "Release"]
    assert set(outcomes(effects).values()) == {failure}
    assert play.judged(run, 1.0, 2.0) == []
    ticket = play.arrive(0)
    assert outcomes(play.book.drain()) == {ticket: failure}


def test_judging_has_its_own_time_from_the_last_member_on() -> None:
    """L16: what collection took does not count, and its deadline is no more."""
    play = Play(collection_timeout_s=10.0, judging_timeout_s=30.0)
    play.arrive(0)
    play.now = 8.0
    play.arrive(1)
    play.book.drain()
    assert play.book.next_deadline() == 38.0
    assert play.advance(37.9) == []
    assert kinds(play.advance(38.0))[0] == "StopJudging"


def test_a_retry_does_not_extend_judging() -> None:
    """L16: the deadline stands."""
    play = Play(judging_timeout_s=10.0)
    play.complete()
    play.now = 9.0
    play.arrive(0)
    assert play.book.next_deadline() == 10.0


def test_a_verdict_before_its_deadline_counts() -> None:
    """L16: up to the last moment."""
    play = Play(judging_timeout_s=10.0)
    run = play.complete()
    play.now = 9.999
    assert kinds(play.judged(run, 1.0, 2.0)) == ["Settle", "Settle", "Release", "Release"]


def test_a_verdict_at_its_deadline_is_too_late_though_no_timer_has_fired() -> None:
    """L16: the deadline is seen by whatever comes first."""
    play = Play(judging_timeout_s=10.0)
    run = play.complete()
    play.now = 10.0
    effects = play.judged(run, 1.0, 2.0)
    assert all(isinstance(outcome, JudgeFailure) for outcome in outcomes(effects).values())


def test_a_last_member_at_the_deadline_is_too_late_though_no_timer_has_fired() -> None:
    """L15: it finds a failed group."""
    play = Play(collection_timeout_s=10.0)
    first = play.arrive(0)
    play.now = 10.0
    with pytest.raises(GroupFailed, match="1 of 2"):
        play.arrive(1)
    assert list(outcomes(play.book.drain())) == [first]


INPUTS: list[Callable[[Play], object]] = [
    lambda play: play.book.arrive(arrival(key="another"), play.now),
    lambda play: play.book.judged(Run(99), judgement(1.0, 2.0), play.now),
    lambda play: play.book.judging_failed(Run(99), JudgeFailure("?"), play.now),
    lambda play: play.book.advance(play.now),
    lambda play: play.book.release(play.now),
    lambda play: play.book.close(play.now),
]


@pytest.mark.parametrize("act", INPUTS, ids=["arrive", "judged", "judging_failed", "advance", "release", "close"])
def test_every_input_first_applies_what_was_due(act: Callable[[Play], object]) -> None:
    """L15, L16, L18: deadlines in order of time, then eviction, then the input itself."""
    play = Play(collection_timeout_s=10.0, judging_timeout_s=5.0, ttl_s=12.0)
    play.finish("old")
    collecting = play.arrive(0, key="collecting")
    play.now = 1.0
    play.complete("judging")
    play.now = 12.0
    act(play)
    told = outcomes(play.book.drain())
    assert isinstance(next(iter(told.values())), JudgeFailure)
    assert told[collecting] == GroupFailure("collection_timeout", "the collection deadline passed with 1 of 2 members")
    assert "old" not in play.phases()


def test_deadlines_happen_in_order_of_time_and_at_their_own_time() -> None:
    """L15, L16, L18: a book that was left alone for long is as if it had been told of every moment."""
    play = Play(collection_timeout_s=10.0, judging_timeout_s=4.0)
    play.arrive(0, key="first")
    play.now = 5.0
    play.complete("second")
    play.advance(100.0)
    assert [(view.key, view.finished) for view in play.book.groups()] == [("second", 9.0), ("first", 10.0)]
    assert [since for *_, since in play.book.records()] == [9.0, 10.0]


def test_a_failure_that_nobody_noticed_in_time_may_be_over_age_already() -> None:
    """L18: its callers are told nevertheless."""
    play = Play(collection_timeout_s=10.0, ttl_s=5.0)
    ticket = play.arrive(0)
    assert list(outcomes(play.advance(15.0))) == [ticket]
    assert play.phases() == {}
    assert play.records() == []


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b")])
def test_deadlines_at_the_same_moment_happen_in_the_order_they_were_set(order: tuple[str, ...]) -> None:
    """L15: nothing hangs on names or identities."""
    play = Play(collection_timeout_s=10.0)
    tickets = [play.arrive(0, key=key) for key in order]
    assert list(outcomes(play.advance(10.0))) == tickets


def test_a_judging_deadline_set_later_comes_after_a_collection_deadline_of_the_same_moment() -> None:
    """L15, L16: ties go by when the deadline was set, not by when the group began."""
    play = Play(collection_timeout_s=10.0, judging_timeout_s=5.0)
    play.arrive(0, key="began first")
    collecting = play.arrive(0, key="collecting")
    play.book.drain()
    play.now = 5.0
    play.arrive(1, key="began first")
    play.book.drain()
    effects = play.advance(10.0)
    assert isinstance(effects[0], Settle)
    assert effects[0].ticket == collecting


def test_time_never_goes_back() -> None:
    """An input of an earlier time than one before counts as of that one: deadlines and ages run from there."""
    play = Play(collection_timeout_s=10.0)
    play.advance(100.0)
    play.now = 50.0
    play.arrive(0)
    assert play.book.next_deadline() == 110.0
    assert play.advance(20.0) == []
    assert play.advance(109.0) == []
    assert kinds(play.advance(110.0)) == ["Settle", "Release"]
    assert [view.finished for view in play.book.groups()] == [110.0]


def test_a_verdict_from_the_past_counts_as_of_now() -> None:
    """An earlier `now` cannot slip in before a deadline that has passed, nor make an older result."""
    play = Play(judging_timeout_s=10.0)
    late = play.complete("late")
    play.now = 5.0
    good = play.complete("good")
    play.advance(10.0)
    play.now = 6.0
    assert play.judged(late, 1.0, 2.0) == []
    play.judged(good, 1.0, 2.0)
    assert [(view.key, view.finished) for view in play.book.groups()] == [("late", 10.0), ("good", 10.0)]


def test_a_time_that_is_no_number_counts_as_no_time_at_all() -> None:
    """A defect of the host's clock must not let every deadline pass at once."""
    play = Play(now=1.0, collection_timeout_s=10.0)
    play.arrive(0)
    assert play.advance(nan) == []
    assert play.book.next_deadline() == 11.0
    assert kinds(play.advance(11.0)) == ["Settle", "Release"]


def test_the_clock_may_start_anywhere() -> None:
    """Only differences matter."""
    play = Play(now=-1e6, collection_timeout_s=10.0)
    play.arrive(0)
    assert play.book.next_deadline() == -1e6 + 10.0


def test_the_next_deadline_is_the_earliest_of_all_there_is() -> None:
    """A deadline, or the expiry of a result, or of a record: one timer serves them all."""
    play = Play(collection_timeout_s=10.0, judging_timeout_s=30.0, ttl_s=100.0)
    assert play.book.next_deadline() is None
    play.complete("judging")
    assert play.book.next_deadline() == 30.0
    play.arrive(0, key="collecting")
    assert play.book.next_deadline() == 10.0
    play.advance(30.0)
    assert play.book.next_deadline() == 110.0
    play.advance(110.0)
    assert play.book.next_deadline() == 130.0
    play.advance(130.0)
    assert play.book.next_deadline() is None


def test_the_next_deadline_is_a_records_where_that_is_all_that_is_left() -> None:
    """L18: by time a record outlives its result."""
    play = Play(ttl_s=100.0)
    play.finish()
    play.now = 50.0
    play.arrive(0)
    assert play.book.next_deadline() == 100.0
    play.advance(100.0)
    assert play.book.next_deadline() == 150.0


def test_a_timer_set_to_the_next_deadline_always_gets_somewhere() -> None:
    """L18: it never finds that it came a rounding error too early, and would be set to the same moment again."""
    play = Play(now=0.1, ttl_s=0.7, collection_timeout_s=0.3, judging_timeout_s=0.2)
    play.finish("a")
    play.arrive(0, key="b")
    play.complete("c")
    moments = []
    while (moment := play.book.next_deadline()) is not None:
        moments.append(moment)
        play.advance(moment)
    assert moments == sorted(set(moments))
    assert len(moments) == 5
    assert play.phases() == {}


def test_a_member_accepted_before_the_deadline_is_judged_though_the_timer_is_late() -> None:
    """L15: the deadline was met, and counts no more."""
    play = Play(collection_timeout_s=10.0)
    play.arrive(0)
    play.now = 9.0
    play.arrive(1)
    play.book.drain()
    play.now = 11.0
    assert set(rewards(play.judged(Run(1), 1.0, 2.0)).values()) == {1.0, 2.0}
