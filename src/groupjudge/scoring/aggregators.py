"""From verdicts to one base score a member.

An aggregator takes the group's size, its verdicts in any order and the rules, and gives the base scores in slot order
with their standard errors. To add one, write its function and name it in `AGGREGATORS`. It has to give the same bits
whatever the order of the verdicts and whichever slot a member has (J20): sum with `math.fsum`, which rounds once, and
never with `sum` or `+=`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from groupjudge.model import Verdict
from groupjudge.scoring.bradley_terry import bradley_terry
from groupjudge.scoring.estimate import Estimate
from groupjudge.scoring.evidence import mean_square, power_of_two
from groupjudge.scoring.least_squares import least_squares
from groupjudge.scoring.rules import ScoringRules
from groupjudge.scoring.tiebreak import RANKING_MIDDLE, needs_tiebreak
from groupjudge.scoring.win_rate import win_rate

Aggregator: TypeAlias = Callable[[int, Sequence[Verdict], ScoringRules], Estimate]


def simple_tiebreaker(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> list[float]:
    """The plain mean of what a member scored, the ranking standing in between equals (J14).

    A verdict (s1, s2, r) on (i, j) gives s1 to i and s2 to j; where s1 = s2, s1 + (3.5 - r) and s2 - (3.5 - r). A
    member without a verdict has the default score.
    """
    return [_mean(own, rules.default_score) for own in _own_scores(size, verdicts)]


def plain_mean(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> Estimate:
    """`simple_tiebreaker` with its standard errors: the deviation of scores from their own member's mean, over all
    members together, by the root of how many the member has."""
    scores = _own_scores(size, verdicts)
    means = [_mean(own, rules.default_score) for own in scores]
    unit = power_of_two(score for own in scores for score in own)
    off = [score / unit - mean / unit for own, mean in zip(scores, means, strict=True) for score in own]
    freedom = len(off) - sum(1 for own in scores if own)
    if freedom < 1:
        return Estimate(means, [None] * size)
    deviation = unit * math.sqrt(mean_square(off) * (len(off) / freedom))
    by_count = {count: deviation / math.sqrt(count) for count in {len(own) for own in scores} if count}
    return Estimate(means, [by_count.get(len(own)) for own in scores])


def _own_scores(size: int, verdicts: Sequence[Verdict]) -> list[list[float]]:
    scores: list[list[float]] = [[] for _ in range(size)]
    for verdict in verdicts:
        lead = RANKING_MIDDLE - verdict.ranking if needs_tiebreak(verdict) else 0.0
        scores[verdict.i].append(verdict.score_1 + lead)
        scores[verdict.j].append(verdict.score_2 - lead)
    return scores


def _mean(scores: Sequence[float], default: float) -> float:
    return math.fsum(scores) / len(scores) if scores else default


AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType(
    {
        "simple_tiebreaker": plain_mean,
        "least_squares": least_squares,
        "bradley_terry": bradley_terry,
        "win_rate": win_rate,
    }
)
