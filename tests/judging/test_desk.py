"""One address: its limits, its rest, its faults (F10, F11)."""

from __future__ import annotations

from groupjudge.judging.desk import NEVER, Desk


def fault(desk: Desk, now: float) -> None:
    place = desk.seat(0, now)
    desk.heard(place, too_many=False, fault=True, now=now)
    desk.leave(place)


def test_a_full_desk_waits_for_a_call_to_end_and_a_limited_one_for_its_time() -> None:
    """J3, F11."""
    desk = Desk(2, requests_per_minute=60)
    first = desk.seat(0, 0.0)
    assert desk.wait_s(0.0) == 1.0
    desk.seat(0, 1.0)
    assert desk.wait_s(1.0) == NEVER
    desk.leave(first)
    assert desk.wait_s(1.0) == 1.0


def test_tokens_that_were_put_aside_are_exchanged_for_those_that_the_judge_counted() -> None:
    """F11."""
    desk = Desk(9, tokens_per_minute=60)
    place = desk.seat(10.0, 0.0)
    assert desk.wait_s(0.0) == 10.0
    desk.used(place, 4)
    assert desk.wait_s(0.0) == 4.0


def test_what_was_not_sent_is_given_back() -> None:
    """F11: a call that was cancelled just as it got its place."""
    desk = Desk(9, requests_per_minute=60, tokens_per_minute=60)
    place = desk.seat(10.0, 0.0)
    desk.unsent(place)
    desk.leave(place)
    assert (desk.wait_s(0.0), desk.in_flight) == (0.0, 0)


def test_the_longest_rest_counts() -> None:
    """F11: each call that is limited names its own."""
    desk = Desk(9)
    desk.rest(30, 0.0)
    desk.rest(5, 1.0)
    assert desk.wait_s(1.0) == 29.0
    assert desk.is_resting(29.9)
    assert not desk.is_resting(30.0)


def test_it_is_left_out_longer_each_time_up_to_a_minute_and_tried_with_one_call_in_between() -> None:
    """F10."""
    desk, now, outs = Desk(9), 0.0, []
    for _ in range(8):
        fault(desk, now)
        outs.append(desk.living_in_s(now))
        assert not desk.is_living(now + outs[-1] - 0.001)
        now += outs[-1]
        assert desk.is_living(now)
    assert outs == [1, 2, 4, 8, 16, 32, 60, 60]
    trial = desk.seat(0, now)
    assert not desk.is_living(now)
    assert desk.living_in_s(now) == NEVER
    desk.heard(trial, too_many=False, fault=False, now=now)
    desk.leave(trial)
    assert desk.is_living(now)
    fault(desk, now)
    assert desk.living_in_s(now) == 1.0


def test_calls_that_fail_together_are_one_fault() -> None:
    """F10."""
    desk = Desk(9)
    places = [desk.seat(0, 0.0) for _ in range(5)]
    for place in places:
        desk.heard(place, too_many=False, fault=True, now=0.0)
        desk.leave(place)
    assert desk.living_in_s(0.0) == 1.0


def test_a_trial_that_is_cancelled_leaves_the_question_open_for_the_next_call() -> None:
    """F10."""
    desk = Desk(9)
    fault(desk, 0.0)
    trial = desk.seat(0, 5.0)
    desk.leave(trial)
    assert desk.is_living(5.0)
    assert desk.seat(0, 5.0).is_trial


def test_a_good_reply_to_an_earlier_call_brings_it_back() -> None:
    """F10."""
    desk = Desk(9)
    earlier = desk.seat(0, 0.0)
    fault(desk, 0.0)
    desk.heard(earlier, too_many=False, fault=False, now=0.5)
    assert desk.is_living(0.5)


def test_a_closed_one_never_comes_back() -> None:
    """F12."""
    desk = Desk(1)
    desk.is_closed = True
    assert not desk.is_living(1e9)
