"""Distributions of any number of values, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

_FINEST = 1 / 64
_BINS_AT_MOST = 512
_LARGEST = 1e300


class Bar(NamedTuple):
    """`amount` values lie in [left, right)."""

    left: float
    right: float
    amount: int


class Extent:
    """How many values there are, their mean, least and largest; 0 without values."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.low = self.high = 0.0

    def add(self, value: float) -> None:
        """One more."""
        self.count += 1
        self.mean += (value - self.mean) / self.count
        self.low = value if self.count == 1 else min(self.low, value)
        self.high = max(self.high, value) if self.count > 1 else value


class Histogram:
    """Finite values in equal bins. They begin at 1/64 and become twice as wide whenever there are too many."""

    def __init__(self) -> None:
        self.extent = Extent()
        self._width = _FINEST
        self._bins: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """One more."""
        value = max(-_LARGEST, min(_LARGEST, value))
        self.extent.add(value)
        self._bins[math.floor(value / self._width)] += 1
        while len(self._bins) > _BINS_AT_MOST:
            self._bins = _halved(self._bins)
            self._width *= 2

    def quantile(self, share: float) -> float:
        """The value below which `share` (0..1) of all lie, as exactly as the bins are wide; 0 without values."""
        found = _at(self._bins, share) * self._width
        return max(self.extent.low, min(self.extent.high, found))

    def bars(self, at_most: int = 48) -> list[Bar]:
        """The bins that are not empty, in order, so wide that `at_most` of them span all values. Values that stand on
        steps (halves, quarters) are in the middle of a bar as wide as a step."""
        bins, width = self._bins, self._width
        step = math.gcd(*bins)
        if step > 1 and (max(bins) - min(bins)) // step < at_most:
            return [Bar((key - step / 2) * width, (key + step / 2) * width, bins[key]) for key in sorted(bins)]
        while bins and max(bins) - min(bins) >= at_most:
            bins, width = _halved(bins), width * 2
        return [Bar(key * width, (key + 1) * width, bins[key]) for key in sorted(bins)]


def _halved(bins: Counter[int]) -> Counter[int]:
    merged: Counter[int] = Counter()
    for key, count in bins.items():
        merged[key // 2] += count
    return merged


def _at(bins: Counter[int], share: float) -> int:
    """The bin that holds the value at `share` of all."""
    wanted = share * bins.total()
    seen = 0
    for key in sorted(bins):
        seen += bins[key]
        if seen >= wanted:
            return key
    return 0


class Octaves:
    """Values >= 0 over many sizes, in bins that are each by the same factor wider than the one before: `parts` to a
    doubling. Zeros stand apart."""

    def __init__(self, parts: int = 8) -> None:
        self.extent = Extent()
        self.zeros = 0
        self._parts = parts
        self._bins: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """One more."""
        self.extent.add(value)
        if value > 0:
            self._bins[octave(value, self._parts)] += 1
        else:
            self.zeros += 1

    def quantile(self, share: float) -> float:
        """The value below which about `share` (0..1) of all lie; 0 without values."""
        rank = share * self.extent.count
        if rank <= self.zeros or not self._bins:
            return 0.0
        key = _at(self._bins, (rank - self.zeros) / self._bins.total())
        return max(self.extent.low, min(self.extent.high, 2 ** ((key + 0.5) / self._parts)))

    def bars(self) -> list[Bar]:
        """The bins that are not empty, in order; without the zeros."""
        return [Bar(*octave_range(key, self._parts), self._bins[key]) for key in sorted(self._bins)]


def octave(value: float, parts: int) -> int:
    """The bin of a value > 0."""
    return math.floor(math.log2(value) * parts)


def octave_range(key: int, parts: int) -> tuple[float, float]:
    """Where a bin begins and ends."""
    return 2 ** (key / parts), 2 ** ((key + 1) / parts)
