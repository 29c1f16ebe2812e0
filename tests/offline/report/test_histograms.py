"""Distributions in bounded memory, against plain lists."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.offline.report.histograms import Histogram, Octaves

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=200))
def test_a_histogram_holds_every_value_once(values: list[float]) -> None:
    """Issue: distributions are gathered while streaming. Whatever the values are, each lies in one bar."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    bars = histogram.bars(20)
    assert sum(bar.amount for bar in bars) == len(values) == histogram.extent.count
    assert all(bar.amount > 0 and bar.left < bar.right for bar in bars)
    assert histogram.extent.low <= histogram.quantile(0.5) <= histogram.extent.high


@given(st.lists(st.integers(-400, 400), min_size=1, max_size=300))
def test_a_bar_holds_the_values_between_its_ends(values: list[int]) -> None:
    """Bars are the histogram of the list."""
    histogram = Histogram()
    for value in values:
        histogram.add(value / 7)
    for bar in histogram.bars(10):
        assert bar.amount == sum(bar.left <= value / 7 < bar.right for value in values)


def test_bins_stay_few_however_many_values_come() -> None:
    """A million lines in constant memory."""
    histogram = Histogram()
    for value in range(20_000):
        histogram.add(value * 0.37)
    assert len(histogram._bins) <= 512
    assert len(histogram.bars(48)) <= 48
    assert histogram.extent.mean == pytest.approx(0.37 * 19_999 / 2)
    assert histogram.quantile(0.25) == pytest.approx(0.37 * 5000, abs=16)


def test_values_on_steps_stand_in_the_middle_of_their_bars() -> None:
    """Rewards are often halves or quarters: a bar then is one value."""
    histogram = Histogram()
    for value in (1.0, 1.5, 1.5, 3.0):
        histogram.add(value)
    assert histogram.bars() == [(0.75, 1.25, 1), (1.25, 1.75, 2), (2.75, 3.25, 1)]
    assert [histogram.quantile(share) for share in (0.1, 0.5, 0.75, 1)] == [1.0, 1.5, 1.5, 3.0]


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=100))
def test_octaves_hold_every_value_once(values: list[float]) -> None:
    """Zeros stand apart, all others between the ends of their bar."""
    octaves = Octaves(2)
    for value in values:
        octaves.add(value)
    assert octaves.zeros == values.count(0)
    assert octaves.zeros + sum(bar.amount for bar in octaves.bars()) == len(values)
    assert octaves.extent.low <= octaves.quantile(0.9) <= octaves.extent.high or octaves.quantile(0.9) == 0


def test_a_quantile_of_octaves_is_right_to_a_few_percent() -> None:
    """Latencies: eight bins to a doubling."""
    octaves = Octaves()
    values = [0.01 * 1.01**n for n in range(1000)]
    for value in values:
        octaves.add(value)
    for share, expected in ((0.5, statistics.median(values)), (0.95, values[950])):
        assert math.isclose(octaves.quantile(share), expected, rel_tol=0.06)
    assert Octaves().quantile(0.5) == Histogram().quantile(0.5) == 0
    assert Counter(Octaves().bars()) == Counter(Histogram().bars()) == Counter()
