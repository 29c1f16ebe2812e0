"""What verdicts say about qualities, in one unit: points of the judge's score.

A verdict (s1, s2, r) on (i, j) gives three pieces of evidence: by score s1 - s2, by ranking 3.5 - r (both say how far
the first answer is ahead), and the level (s1 + s2)/2: what both are worth by a judge that is more lenient in one call
than in another, which the first two do not feel. How much each of them tells is estimated from the group's own
verdicts:

Two verdicts that share an answer share its quality and nothing else. So the mean product of two such pieces of
evidence, signed so that the shared answer counts as the first, is the variance v of the qualities as this kind of
evidence sees them, free of noise; and a single one has the variance 2 v + noise (of a level v/4 and v/2 + noise). What
is signal is the kind's *reliability*. Few verdicts say little about it, so it is drawn towards a prior worth
`PRIOR_VERDICTS` verdicts.

Scores and rankings of one verdict see the same answers, each with noise of its own, so the square of their correlation
is the product of both reliabilities. By it a ranking that does not go with the scores loses its weight after few
verdicts, long before enough of them share an answer. (A ranking, since rewards are on the scale of scores: which of the
two is wrong where they disagree, a correlation does not say.) A lead joins the first two kinds, each by signal to
noise, on the score's scale.

Every reduction is a `math.fsum`, which rounds once: no order of verdicts or members changes a bit (J20).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple

from groupjudge.model import Verdict
from groupjudge.scoring.tiebreak import RANKING_MIDDLE, needs_tiebreak

RANKING_ALONE = 2.0
"""Points of score that one step of ranking is worth where no score differs: what the tie-break gives it (J14)."""
IN_A_TIE = 0.5
"""And where scores differ elsewhere, but tie in this verdict: a quarter of that, since a tie may be meant."""
PRIOR_VERDICTS = 64
PRIOR_LEAD, PRIOR_LEVEL = 0.7, 0.35
"""Reliabilities before any verdict is seen: a judge as judges are, neither perfect nor blind."""
RELIABILITY = (0.02, 0.95)
AGREEING = 2
"""How many verdicts' worth of shared answers one verdict's agreement is worth: it compares two numbers on the same two
answers, where a shared answer is half of what two verdicts compare."""
LEVEL_WEIGHT = (0.1, 4.0)
"""Bounds of how much a level tells beside a lead. At the upper one scores are taken as the plain mean takes them."""
RIDGE = (0.05, 1.0)
"""Bounds of the ridge: the noise of a lead by the variance of qualities. The lower bound keeps every system solvable,
the upper one keeps rewards from vanishing where a judge is hardly better than chance."""
_NOTHING = 1e-12


class Evidence(NamedTuple):
    """Leads and levels in the order of the verdicts, both divided by `unit` and measured from their means; `mean` is
    that of all scores, not divided. `level_weight` and `ridge` are as in the bounds above."""

    leads: list[float]
    levels: list[float]
    mean: float
    unit: float
    level_weight: float
    ridge: float


class _Kind(NamedTuple):
    """One kind of evidence: its values, measured from their mean; the standard deviation of qualities as it sees them;
    and how reliable it is (0: not there)."""

    values: list[float]
    signal: float
    reliability: float

    @property
    def weight(self) -> float:
        return self.reliability / (1 - self.reliability)


def evidence(verdicts: Sequence[Verdict]) -> Evidence:
    """The evidence of one or more verdicts, whose numbers are finite."""
    scores = [score for verdict in verdicts for score in (verdict.score_1, verdict.score_2)]
    rankings = [RANKING_MIDDLE - verdict.ranking for verdict in verdicts]
    unit = power_of_two([*scores, *(r for v, r in zip(verdicts, rankings, strict=True) if needs_tiebreak(v))])
    by_score = _lead_kind(verdicts, _by_score(verdicts, unit))
    own_unit = power_of_two(rankings)  # a ranking's steps are on a scale of their own
    by_ranking = _lead_kind(verdicts, [ranking / own_unit for ranking in rankings])
    mean = math.fsum(scores) / len(scores)
    level = _level_kind(verdicts, [v.score_1 / unit / 2 + v.score_2 / unit / 2 for v in verdicts])
    lead = _joined(verdicts, by_score, by_ranking)
    scale = lead.signal / level.signal if lead.signal and level.signal else 1.0
    levels = [value * scale for value in level.values]
    return Evidence(lead.values, levels, mean, unit, *_weights(lead, level))


def _by_score(verdicts: Sequence[Verdict], unit: float) -> list[float]:
    """How far the first answer is ahead by the scores, in a tie by some of what the ranking says."""
    step = RANKING_ALONE if all(map(needs_tiebreak, verdicts)) else IN_A_TIE
    return [
        step * (RANKING_MIDDLE / unit - v.ranking / unit) if needs_tiebreak(v) else v.score_1 / unit - v.score_2 / unit
        for v in verdicts
    ]


def power_of_two(numbers: Iterable[float]) -> float:
    """A power of two that is as large as the largest of these numbers, so that dividing by it is exact and no square
    leaves the range of floats. 1 where all are 0."""
    largest = max(map(abs, numbers), default=0.0)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


def mean_square(numbers: Sequence[float]) -> float:
    """The mean of the squares; 0 of nothing."""
    return math.fsum(map(mul, numbers, numbers)) / len(numbers) if numbers else 0.0


def _centred(values: Sequence[float]) -> list[float]:
    """Values less their mean; exactly 0 where nothing but rounding is left."""
    mean = math.fsum(values) / len(values)
    centred = [value - mean for value in values]
    least = _NOTHING * max(map(abs, values))
    return [0.0] * len(values) if max(map(abs, centred)) <= least else centred


def _lead_kind(verdicts: Sequence[Verdict], values: Sequence[float]) -> _Kind:
    centred = _centred(values)
    variance = mean_square(centred)
    if not variance:
        return _Kind(centred, 0.0, 0.0)
    reliability = _reliability(2 * _shared(verdicts, centred, -1) / variance, PRIOR_LEAD, len(verdicts))
    return _Kind(centred, math.sqrt(reliability * variance / 2), reliability)


def _level_kind(verdicts: Sequence[Verdict], values: Sequence[float]) -> _Kind:
    centred = _centred(values)
    variance = mean_square(centred)
    if not variance:
        return _Kind(centred, 0.0, 0.0)
    reliability = _reliability(2 * _shared(verdicts, centred, 1) / variance, PRIOR_LEVEL, len(verdicts))
    return _Kind(centred, math.sqrt(2 * reliability * variance), reliability)


def _shared(verdicts: Sequence[Verdict], values: Sequence[float], second: int) -> float:
    """The mean product of two values that share an answer, each signed by `second` where it sat in the second seat. Two
    that share both answers count twice, as their product does."""
    own: dict[int, list[float]] = {}
    for verdict, value in zip(verdicts, values, strict=True):
        own.setdefault(verdict.i, []).append(value)
        own.setdefault(verdict.j, []).append(second * value)
    products = [math.fsum(mine) ** 2 - math.fsum(map(mul, mine, mine)) for mine in own.values()]
    pairs = sum(len(mine) * (len(mine) - 1) for mine in own.values())
    met = Counter(frozenset((verdict.i, verdict.j)) for verdict in verdicts)
    pairs += 2 * sum(count * (count - 1) for count in met.values())
    return math.fsum(products) / pairs if pairs else 0.0


def _reliability(seen: float, prior: float, verdicts: int) -> float:
    drawn = (PRIOR_VERDICTS * prior + verdicts * seen) / (PRIOR_VERDICTS + verdicts)
    return _within(drawn, RELIABILITY)


def _joined(verdicts: Sequence[Verdict], by_score: _Kind, by_ranking: _Kind) -> _Kind:
    """Both kinds of lead as one, on the score's scale."""
    if not by_score.weight or not by_ranking.weight:
        return by_score  # rankings alone have no place on the score's scale but the one that ties give them
    by_ranking = _agreeing(verdicts, by_ranking, by_score)
    part = by_ranking.weight / (by_score.weight + by_ranking.weight)
    scale = by_score.signal / by_ranking.signal
    joined = [a * (1 - part) + b * scale * part for a, b in zip(by_score.values, by_ranking.values, strict=True)]
    least = _NOTHING * max(map(abs, by_score.values))
    return _lead_kind(verdicts, joined if max(map(abs, joined)) > least else [0.0] * len(joined))


def _agreeing(verdicts: Sequence[Verdict], by_ranking: _Kind, by_score: _Kind) -> _Kind:
    """The ranking's evidence with what its agreement with the scores says of its reliability. A tie takes its lead from
    the ranking, and says nothing of that."""
    untied = [place for place, verdict in enumerate(verdicts) if not needs_tiebreak(verdict)]
    if not untied:
        return by_ranking
    rankings, scores = (_centred([kind.values[place] for place in untied]) for kind in (by_ranking, by_score))
    size = math.sqrt(mean_square(rankings) * mean_square(scores))
    correlation = max(0.0, math.fsum(map(mul, rankings, scores)) / len(untied) / size) if size else 0.0
    seen = min(correlation**2 / by_score.reliability, RELIABILITY[1])
    own, more = PRIOR_VERDICTS + len(verdicts), AGREEING * len(untied)
    reliability = _within((own * by_ranking.reliability + more * seen) / (own + more), RELIABILITY)
    variance = mean_square(by_ranking.values)
    return _Kind(by_ranking.values, math.sqrt(reliability * variance / 2), reliability)


def _weights(lead: _Kind, level: _Kind) -> tuple[float, float]:
    """How much a level tells beside a lead, and the ridge. With Var = 2 v + noise of a lead and v / 2 + noise of a
    level, noise / v is 2 / w and 1 / (2 w) for the weights w = reliability / (1 - reliability)."""
    if not lead.weight:
        return LEVEL_WEIGHT[1], RIDGE[1]
    return _within(4 * level.weight / lead.weight, LEVEL_WEIGHT), _within(2 / lead.weight, RIDGE)


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
