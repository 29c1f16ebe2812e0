"""Rates that are kept, numbers of calls that adapt, guesses of tokens (F11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.limits import Adaptive, Allowance, Expected


def times_of(allowance: Allowance, calls: int, start: float = 0.0) -> list[float]:
    """When calls go that are made as soon as they may."""
    now, times = start, []
    for _ in range(calls):
        now += max(0.0, allowance.wait_s(now))
        allowance.take(1, now)
        times.append(now)
    return times


@given(per_minute=st.integers(1, 2000), idle=st.floats(0, 200))
def test_no_minute_sees_more_calls_than_allowed_and_nearly_as_many_as_allowed(per_minute: int, idle: float) -> None:
    """F11: also right after a time without any."""
    allowance = Allowance(per_minute)
    allowance.take(1, 0.0)
    times = times_of(allowance, 2 * per_minute + 2, idle)
    widest = min(b - a for a, b in zip(times, times[per_minute:], strict=False))
    assert widest >= 60 - 1e-6
    assert times[per_minute] - times[0] <= 60 * 1.04 + 1e-6


def test_a_seconds_share_may_go_at_once_and_no_more() -> None:
    """F11."""
    times = times_of(Allowance(600), 11)
    assert times[:10] == [0.0] * 10
    assert times[10] > 0


def test_what_a_call_took_beyond_its_guess_is_waited_for_and_what_it_did_not_take_is_given_back() -> None:
    """F11: 60 a minute, so that a unit is a second."""
    allowance = Allowance(60)
    allowance.take(5, 100.0)
    assert allowance.wait_s(100.0) == pytest.approx(5.0)
    allowance.correct(2)
    assert allowance.wait_s(100.0) == pytest.approx(7.0)
    allowance.correct(-7)
    assert allowance.wait_s(100.0) <= 1e-9


def test_an_idle_time_is_not_saved_up() -> None:
    """F11: nor does a correction of long ago make one."""
    allowance = Allowance(60)
    allowance.take(1, 0.0)
    allowance.correct(-1000)
    allowance.take(1, 1000.0)
    assert allowance.wait_s(1000.0) == pytest.approx(1.0)


def test_without_a_floor_the_limit_is_the_ceiling_whatever_happens() -> None:
    """F11, J3."""
    fixed = Adaptive(8)
    fixed.too_many(fixed.cuts)
    fixed.good(8)
    assert fixed.limit == 8


def test_it_begins_at_the_floor_and_grows_by_one_for_each_good_reply_until_the_first_cut() -> None:
    """F11."""
    adaptive = Adaptive(6, 2)
    seen = []
    for _ in range(6):
        seen.append(adaptive.limit)
        adaptive.good(adaptive.limit)
    assert seen == [2, 3, 4, 5, 6, 6]


def test_after_a_cut_as_many_good_replies_as_there_are_places_add_one() -> None:
    """F11: additive up."""
    adaptive = Adaptive(100, 2)
    for _ in range(6):
        adaptive.good(adaptive.limit)
    adaptive.too_many(adaptive.cuts)
    assert adaptive.limit == 4
    for _ in range(3):
        adaptive.good(adaptive.limit)
    assert adaptive.limit == 4
    adaptive.good(4)
    assert adaptive.limit == 5


def test_calls_that_were_under_way_together_cut_it_once() -> None:
    """F11: multiplicative down, never below the floor."""
    adaptive = Adaptive(64, 3)
    for _ in range(40):
        adaptive.good(adaptive.limit)
    assert adaptive.limit == 43
    together = adaptive.cuts
    for _ in range(40):
        adaptive.too_many(together)
    assert adaptive.limit == 21
    for _ in range(10):
        adaptive.too_many(adaptive.cuts)
    assert adaptive.limit == 3


def test_it_does_not_grow_while_places_are_free() -> None:
    """F11: nothing is learnt then."""
    adaptive = Adaptive(6, 2)
    adaptive.good(1)
    assert adaptive.limit == 2


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 50), st.integers(1, 50))
def test_it_stays_between_floor_and_ceiling(goods: list[bool], floor: int, ceiling: int) -> None:
    """F11."""
    adaptive = Adaptive(ceiling, floor)
    for good in goods:
        adaptive.good(adaptive.limit) if good else adaptive.too_many(adaptive.cuts)
        assert min(floor, ceiling) <= adaptive.limit <= ceiling


@pytest.mark.parametrize(
    ("params", "reply"),
    [
        ({"max_tokens": 300}, 300),
        ({"max_completion_tokens": 50, "max_tokens": 300}, 50),
        ({}, 1024),
        ({"max_tokens": "x"}, 1024),
    ],
)
def test_before_any_reply_the_worst_is_expected(params: dict[str, object], reply: int) -> None:
    """F11."""
    assert Expected(params).tokens(400) == 100 + reply


def test_then_what_replies_took_on_the_average() -> None:
    """F11."""
    expected = Expected({"max_tokens": 10_000})
    expected.learn(400, 150)
    assert expected.tokens(800) == 200 + 50
    for _ in range(200):
        expected.learn(400, 170)
    assert expected.tokens(0) == pytest.approx(70, abs=0.1)
    expected.learn(400, 10)  # fewer than the request alone was thought to take
    assert expected.tokens(0) == pytest.approx(63, abs=0.1)
