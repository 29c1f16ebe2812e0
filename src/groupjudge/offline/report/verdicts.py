"""What verdicts say about the judge: which seat it prefers, whether it keeps to its word, how often it is torn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

RANKING_MIDDLE = 3.5
_95_PERCENT = 1.96


class Said(NamedTuple):
    """One verdict: members `i` (first seat) and `j` by their place in the row, and what was said of them."""

    i: int
    j: int
    score_1: float
    score_2: float
    ranking: float

    @property
    def is_level(self) -> bool:
        """Whether both scores are the same, so that the ranking decides."""
        return self.score_1 == self.score_2

    @property
    def lead(self) -> float:
        """What the first answer gains over the second, the tie-break (J14) included."""
        return 2 * (RANKING_MIDDLE - self.ranking) if self.is_level else self.score_1 - self.score_2


Default = tuple[float, float]
"""The default score and the default ranking."""


def said(row: dict[str, Any], default: Default) -> Iterator[Said | None]:
    """The verdicts of a row; None where the default scores stood in for one (J13). Rows do not mark them: in a group
    that got default scores, what equals them counts as such."""
    score, ranking = default
    had_defaults = row.get("failure_kind") is not None
    for verdict in row["verdicts"]:
        read = Said(verdict["i"], verdict["j"], verdict["score_1"], verdict["score_2"], verdict["ranking"])
        yield None if had_defaults and read[2:] == (score, score, ranking) else read


@dataclass(slots=True)
class Seats:
    """Verdicts by how they came about. `first` and `second` are those that prefer the answer in that seat; of both,
    `by_ranking` had level scores. `ties` prefer neither, `defaults` are none.

    Pairs that were judged in both orders: `same` answer both times, the `other` one (the seat decided), `unsure` where
    one of the two was a tie. `points` is what the first seats scored more than the second, all added up."""

    first: int = 0
    second: int = 0
    by_ranking: int = 0
    ties: int = 0
    defaults: int = 0
    same: int = 0
    other: int = 0
    unsure: int = 0
    points: float = 0.0

    @property
    def all(self) -> int:
        """All verdicts, default scores included."""
        return self.first + self.second + self.ties + self.defaults

    @property
    def mean_lead(self) -> float:
        """What the first seat scored more than the second, on average and in points; 0 without verdicts."""
        return self.points / max(1, self.first + self.second + self.ties)

    @property
    def both_orders(self) -> int:
        """Pairs that were judged in both orders."""
        return self.same + self.other + self.unsure

    def add(self, verdicts: Sequence[Said | None]) -> None:
        """The verdicts of one group."""
        for verdict in verdicts:
            if verdict is None:
                self.defaults += 1
                continue
            self.points += verdict.score_1 - verdict.score_2
            if verdict.lead == 0:
                self.ties += 1
            else:
                self.by_ranking += verdict.is_level
                self.first += verdict.lead > 0
                self.second += verdict.lead < 0
        for there, back in _both_orders(verdict for verdict in verdicts if verdict):
            self.same += _sign(there) == -_sign(back)
            self.other += there * back > 0
            self.unsure += (there == 0) != (back == 0)

    def first_share(self) -> tuple[float, float, float]:
        """The share of decided verdicts that the first seat won, and the ends of its 95 % interval (Wilson's score
        interval, as if verdicts were independent); 0.5, 0 and 1 without any."""
        count = self.first + self.second
        if not count:
            return 0.5, 0.0, 1.0
        share, z2 = self.first / count, _95_PERCENT**2
        middle = (share + z2 / (2 * count)) / (1 + z2 / count)
        half = _95_PERCENT * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
        return share, middle - half, middle + half


def _both_orders(verdicts: Iterable[Said]) -> Iterator[tuple[float, float]]:
    """For each pair that was judged in both orders, what its first seat gained there and back, over all judges."""
    leads: dict[tuple[int, int], float] = defaultdict(float)
    for verdict in verdicts:
        leads[verdict.i, verdict.j] += verdict.lead
    return ((lead, leads[j, i]) for (i, j), lead in leads.items() if i < j and (j, i) in leads)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def at_odds(verdicts: Iterable[Said | None], rewards: Sequence[float]) -> float:
    """The share (0..1) of decided verdicts whose winner came out with the lower reward."""
    decided = [verdict for verdict in verdicts if verdict and verdict.lead != 0]
    against = sum(verdict.lead * (rewards[verdict.i] - rewards[verdict.j]) < 0 for verdict in decided)
    return against / len(decided) if decided else 0.0


def plain_errors(verdicts: Iterable[Said | None], size: int) -> list[float | None]:
    """Each member's standard error of the mean over what its verdicts gave it; None with fewer than
    three, of which nothing can be said."""
    gained: list[list[float]] = [[] for _ in range(size)]
    for verdict in verdicts:
        if verdict:
            level = verdict.lead / 2 if verdict.is_level else 0.0
            gained[verdict.i].append(verdict.score_1 + level)
            gained[verdict.j].append(verdict.score_2 - level)
    return [_standard_error(each) for each in gained]


def _standard_error(values: Sequence[float]) -> float | None:
    count = len(values)
    if count < 3:
        return None
    mean = math.fsum(values) / count
    return math.sqrt(math.fsum((value - mean) * (value - mean) for value in values) / (count - 1) / count)
