"""What a whole file comes to: sums and distributions over its groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from groupjudge.offline.report.histograms import Histogram, Octaves, octave
from groupjudge.offline.report.verdicts import Said, Seats

LENGTH_PARTS = 2
"""Bins of answer length to a doubling."""


class Lengths:
    """Reward against answer length (characters). `by_length` has the rewards of each bin of length, -1 the empty."""

    def __init__(self) -> None:
        self.by_length: dict[int, Histogram] = {}
        self._xx = self._yy = self._xy = 0.0

    def add(self, lengths: Sequence[int], rewards: Sequence[float]) -> None:
        """One group, member by member."""
        for length, reward in zip(lengths, rewards, strict=True):
            key = octave(length, LENGTH_PARTS) if length else -1
            self.by_length.setdefault(key, Histogram()).add(reward)
        longer = _deviations(lengths)
        better = _deviations(rewards)
        self._xx += sum(x * x for x in longer)
        self._yy += sum(y * y for y in better)
        self._xy += sum(x * y for x, y in zip(longer, better, strict=True))

    def correlation(self) -> float | None:
        """How length and reward go together within groups (Pearson's r of what each member has more than its group's
        mean), so that long questions with good answers do not count; None where one of the two never differs."""
        product = self._xx * self._yy
        return self._xy / math.sqrt(product) if 0 < product < math.inf else None


def _deviations(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


class Costs:
    """What the judge took. `unknown` counts groups whose rows do not say (they were written by an older version)."""

    def __init__(self) -> None:
        self.known = self.unknown = 0
        self.tries: Counter[str] = Counter()
        self.try_s = Octaves()
        self.group_s = Octaves()
        self.tokens = Octaves()
        self.prompt_tokens = self.completion_tokens = self.reported = self.ambiguous = 0

    def add(self, cost: dict[str, Any] | None) -> None:
        """What one group cost, as its row has it (`usage.Usage.row`)."""
        if cost is None:
            self.unknown += 1
            return
        self.known += 1
        self.tries += Counter(cost["tries"])
        for seconds in cost["try_s"]:
            self.try_s.add(seconds)
        self.group_s.add(cost["seconds"])
        self.ambiguous += cost["ambiguous"]
        if cost["reported"]:
            self.reported += cost["reported"]
            self.prompt_tokens += cost["prompt_tokens"]
            self.completion_tokens += cost["completion_tokens"]
            self.tokens.add(cost["prompt_tokens"] + cost["completion_tokens"])


class Trust:
    """How sure rewards are, as far as rows say it (F4): standard errors, how many `triples` of answers that all met
    beat each other in `cycles`, and the calls that equal answers saved (F6)."""

    def __init__(self) -> None:
        self.errors = Histogram()
        self.cycles = self.triples = self.calls_saved = 0

    def add(self, errors: Sequence[float | None] | None, measures: dict[str, Any] | None) -> None:
        """What one group's row has."""
        for error in errors or ():
            if error is not None:
                self.errors.add(error)
        if measures:
            self.cycles += measures["cycles"]
            self.triples += measures["triples"]
            self.calls_saved += measures["calls_saved"]


class Sums:
    """Everything that is added up. Groups of one count among the groups and rewards, and not among the spreads."""

    def __init__(self) -> None:
        self.groups = 0
        self.sizes: Counter[int] = Counter()
        self.rewards = Histogram()
        self.spreads = Histogram()
        self.level = 0
        self.with_defaults = 0
        self.seats = Seats()
        self.lengths = Lengths()
        self.costs = Costs()
        self.trust = Trust()

    def add(self, row: dict[str, Any], verdicts: Sequence[Said | None], lengths: Sequence[int]) -> None:
        """One group: its row, its verdicts, how long its answers are."""
        rewards = row["rewards"]
        self.groups += 1
        self.sizes[len(rewards)] += 1
        for reward in rewards:
            self.rewards.add(reward)
        if len(rewards) > 1:
            spread = spread_of(rewards)
            self.spreads.add(spread)
            measures = row.get("measures")
            self.level += measures["is_flat"] if measures else spread == 0
        self.with_defaults += row.get("failure_kind") is not None
        self.seats.add(verdicts)
        self.lengths.add(lengths, rewards)
        self.costs.add(row.get("judge"))
        self.trust.add(row.get("standard_errors"), row.get("measures"))


def spread_of(rewards: Sequence[float]) -> float:
    """The best reward less the worst."""
    return float(max(rewards) - min(rewards))
