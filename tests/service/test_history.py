"""The last hour, minute by minute (H8)."""

from __future__ import annotations

import pytest

from groupjudge.service.history import BOUNDS, MINUTES, RATIO, History, quantile


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock(60_000.0)


@pytest.fixture
def history(clock: Clock) -> History:
    return History(clock)


def test_an_hour_has_sixty_minutes_and_the_present_one_is_the_last(history: History, clock: Clock) -> None:
    """H8: what happens in a minute is shown in its place, however long ago it was."""
    history.rewarded([1.0, 4.0])
    clock.now += 60
    history.rewarded([3.0])
    hour = history.hour()
    assert {len(values) for values in hour.values()} == {MINUTES}
    assert hour["rewards"][-2:] == [2, 1]
    assert hour["reward_mean"][-3:] == [None, 2.5, 3.0]
    assert (hour["reward_min"][-2], hour["reward_max"][-2]) == (1.0, 4.0)


def test_what_is_an_hour_old_is_gone_though_nothing_came_after_it(history: History, clock: Clock) -> None:
    """H8: the 60th minute is still there, the 61st is not."""
    history.rewarded([2.0])
    clock.now += 59 * 60
    assert history.hour()["rewards"][0] == 1
    clock.now += 60
    assert sum(history.hour()["rewards"]) == 0
    history.rewarded([5.0])
    assert history.over_all()["reward_min"] == 5.0


def test_groups_that_ended_are_counted_once_in_the_minute_in_which_it_is_seen(history: History, clock: Clock) -> None:
    """H8: what is told are counts since the start."""
    history.looked(0.0, {"completed": 2, "superseded": 1})
    history.looked(0.0, {"completed": 2, "superseded": 1})
    clock.now += 60
    history.looked(0.0, {"completed": 5, "superseded": 1, "judge_failed": 1})
    hour, whole = history.hour(), history.over_all()
    assert hour["completed"][-2:] == [2, 3]
    assert hour["group_failed"][-2:] == [1, 0]
    assert hour["judge_failed"][-2:] == [0, 1]
    assert (whole["completed"], whole["judge_failed"], whole["group_failed"]) == (5, 1, 1)


def test_the_longest_lag_of_a_minute_is_kept(history: History) -> None:
    """P9, H8."""
    for late in (0.001, 0.2, 0.003):
        history.looked(late, {})
    assert history.hour()["lag_max_s"][-1] == 0.2


def test_latency_is_that_of_replies_and_errors_are_all_but_verdicts(history: History) -> None:
    """H8: a request that got no reply says nothing about how long the judge takes."""
    for _ in range(19):
        history.tried("ok", 200, 1.0)
    history.tried("unreadable", 200, 9.0)
    history.tried("transport", None, 500.0)
    whole = history.over_all()
    assert (whole["tries"], whole["errors"]) == (21, 2)
    assert 1.0 / RATIO <= whole["latency_p50_s"] <= 1.0 * RATIO
    assert whole["latency_p95_s"] <= 1.0 * RATIO
    assert history.hour()["errors"][-1] == 2


@pytest.mark.parametrize("seconds", [0.0001, 0.001, 0.0137, 0.5, 3.0, 77.0, 1700.0])
def test_a_quantile_is_right_within_the_ratio_of_the_bounds(seconds: float) -> None:
    """What the documentation promises."""
    history = History(Clock())
    for _ in range(3):
        history.tried("ok", 200, seconds)
    said = history.over_all()["latency_p50_s"]
    assert max(seconds, BOUNDS[0] / RATIO) / RATIO <= said * 1.05
    assert said <= max(seconds, BOUNDS[0]) * RATIO


def test_a_quantile_of_nothing_is_nothing_and_one_beyond_all_bounds_is_the_last() -> None:
    """Nothing is invented."""
    assert quantile([0] * 67, 0.5) is None
    history = History(Clock())
    history.tried("ok", 200, 1e9)
    assert BOUNDS[-1] / RATIO <= history.over_all()["latency_p95_s"] <= BOUNDS[-1]


def test_the_latest_errors_come_first_and_few_are_kept(history: History, clock: Clock) -> None:
    """H8, L26: kind and status, no text."""
    for status in range(500, 600):
        history.tried("transport", status, 0.1)
        clock.now += 1
    errors = history.errors()
    assert len(errors) == 20
    assert errors[0] == {"ago_s": 1.0, "result": "transport", "status": 599}
    history.failed("g", 3, "why")
    clock.now += 2
    assert history.failures() == [{"ago_s": 2.0, "group": "g", "attempt": 3, "why": "why"}]


def test_a_group_without_rewards_changes_nothing(history: History) -> None:
    """J18."""
    history.rewarded([])
    assert history.hour()["reward_min"][-1] is None
