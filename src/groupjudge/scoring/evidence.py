"""What verdicts say about qualities, in one unit: points of the judge's score.

A verdict (s1, s2, r) on (i, j) gives two pieces of evidence. Its *lead*, how far the first answer is ahead: half of
s1 - s2 and half of 3.5 - r, the latter brought to the same root mean square; where one of the two is 0 in all verdicts
the other stands alone. And its *level*, the mean of s1 and s2: what both answers are worth by a judge that is more
lenient in one call than in another (which a lead does not feel). How much a level tells beside a lead, and how much the
qualities differ at all, is estimated from the group's own verdicts, within bounds.

Every reduction is a `math.fsum`, which rounds once: no order of verdicts or members changes a bit (J20).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple

from groupjudge.model import Verdict
from groupjudge.scoring.tiebreak import RANKING_MIDDLE, needs_tiebreak

RANKING_ALONE = 2.0
"""Points of score that one step of ranking is worth where all scores tie: what the tie-break gives it (J14)."""
LEVEL_WEIGHT = (0.1, 1.0)
"""Bounds of how much a level tells beside a lead."""
RIDGE = (0.05, 1.0)
"""Bounds of the ridge: the share of noise in a lead to the spread of qualities. The lower bound keeps every system
solvable, the upper one keeps rewards from vanishing where a judge is hardly better than chance."""
_LEAST_SHARE = 0.05


class Evidence(NamedTuple):
    """Leads and levels in the order of the verdicts, both divided by `unit`; levels are measured from `mean`, the mean
    of all scores, which is not divided. `level_weight` and `ridge` are as in the bounds above."""

    leads: list[float]
    levels: list[float]
    mean: float
    unit: float
    level_weight: float
    ridge: float


def evidence(verdicts: Sequence[Verdict]) -> Evidence:
    """The evidence of one or more verdicts, whose numbers are finite."""
    scores = [score for verdict in verdicts for score in (verdict.score_1, verdict.score_2)]
    all_tie = all(map(needs_tiebreak, verdicts))
    unit = power_of_two([*scores, *(RANKING_MIDDLE - v.ranking for v in verdicts)] if all_tie else scores)
    by_score = [v.score_1 / unit - v.score_2 / unit for v in verdicts]
    by_ranking = _by_ranking(verdicts, by_score, unit)
    mean = math.fsum(scores) / len(scores)
    levels = [v.score_1 / unit / 2 + v.score_2 / unit / 2 - mean / unit for v in verdicts]
    leads = _joined(by_score, by_ranking)
    weight, ridge = _weights(leads, levels, _disagreement(by_score, by_ranking))
    return Evidence(leads, levels, mean, unit, weight, ridge)


def power_of_two(numbers: Iterable[float]) -> float:
    """A power of two that is as large as the largest of these numbers, so that dividing by it is exact and no square
    leaves the range of floats. 1 where all are 0."""
    largest = max(map(abs, numbers), default=0.0)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


def mean_square(numbers: Sequence[float]) -> float:
    """The mean of the squares; 0 of nothing."""
    return math.fsum(map(mul, numbers, numbers)) / len(numbers) if numbers else 0.0


def _by_ranking(verdicts: Sequence[Verdict], by_score: Sequence[float], unit: float) -> list[float]:
    """What the rankings say, brought to the root mean square of what the scores say."""
    rankings = [RANKING_MIDDLE - verdict.ranking for verdict in verdicts]
    if not any(by_score):
        return [ranking / unit * RANKING_ALONE for ranking in rankings]
    own_unit = power_of_two(rankings)  # of the score's unit they know nothing
    rankings = [ranking / own_unit for ranking in rankings]
    size = mean_square(rankings)
    scale = math.sqrt(mean_square(by_score) / size) if size else 0.0
    return [ranking * scale for ranking in rankings]


def _joined(by_score: Sequence[float], by_ranking: Sequence[float]) -> list[float]:
    if not any(by_score):
        return list(by_ranking)
    if not any(by_ranking):
        return list(by_score)
    return [score / 2 + ranking / 2 for score, ranking in zip(by_score, by_ranking, strict=True)]


def _disagreement(by_score: Sequence[float], by_ranking: Sequence[float]) -> float:
    """The variance of a lead's noise, as far as its two halves show it by differing."""
    if not any(by_score) or not any(by_ranking):
        return 0.0
    return mean_square([score / 2 - ranking / 2 for score, ranking in zip(by_score, by_ranking, strict=True)])


def _weights(leads: Sequence[float], levels: Sequence[float], noise: float) -> tuple[float, float]:
    """Level weight and ridge by moments: Var(lead) = noise + 2 q, Var(level) = level noise + q / 2, where q is the
    variance of the qualities. No part is taken for less than a twentieth of the whole."""
    seat = math.fsum(leads) / len(leads)
    whole = mean_square([lead - seat for lead in leads])
    level = mean_square(levels)
    noise = max(noise, _LEAST_SHARE * whole)
    spread = max(whole - noise, _LEAST_SHARE * whole) / 2
    level_noise = max(level - spread / 2, 2 * _LEAST_SHARE * level)
    weight = _within(noise / level_noise, LEVEL_WEIGHT) if level_noise else LEVEL_WEIGHT[1]
    return weight, _within(noise / spread, RIDGE) if spread else RIDGE[1]


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
