"""`least_squares`: a regularised linear model of the verdicts.

Each verdict on (i, j) is read as lead = q_i - q_j + seat + noise and level = (q_i + q_j)/2 + mean + leniency, where q
are the members' qualities, `seat` is what the first seat is worth, and the leniency differs from call to call: it is a
random effect, so that it enters as the noise of a level (Henderson 1975, best linear unbiased prediction; the leads
alone are the least-squares ratings of Mosteller 1951). Qualities have a normal prior (the ridge). Leads and levels are
those of `evidence.py`, where the variances are estimated too.

Two rewards differ by what the judge's scores for these two answers are expected to differ, shown together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from groupjudge.model import Verdict
from groupjudge.scoring.estimate import Estimate, around_mean
from groupjudge.scoring.evidence import Evidence, evidence, mean_square
from groupjudge.scoring.rules import ScoringRules
from groupjudge.scoring.solving import System, solved, system


class Fit(NamedTuple):
    """The model of a group: qualities in slot order and the variance of a lead, both by the evidence's unit; the system
    they came from."""

    qualities: list[float]
    variance: float
    form: System
    seen: Evidence


def fit(size: int, verdicts: Sequence[Verdict]) -> Fit:
    """The model of one or more verdicts on a group of `size`."""
    seen = evidence(verdicts)
    form = system(size, verdicts, [1.0] * len(verdicts), seen.level_weight, seen.ridge)
    half = seen.level_weight / 2
    right = form.gather(seen.leads, [half * level for level in seen.levels], [0.0] * size)
    scale = math.sqrt(mean_square(seen.leads) + mean_square(seen.levels))
    x = solved(form, right, scale)
    variance = _variance(form, seen.leads, seen.levels, x)
    return Fit(x[:size], variance, form, seen)


def least_squares(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> Estimate:
    """The qualities of the model, around the mean of the judge's scores; see the head of this module."""
    if not verdicts:
        return around_mean(rules.default_score, [0.0] * size, None, verdicts, rules)
    model = fit(size, verdicts)
    unit = model.seen.unit
    errors = [unit * math.sqrt(model.variance * value) for value in model.form.uncertainties()]
    return around_mean(model.seen.mean, [unit * quality for quality in model.qualities], errors, verdicts, rules)


def _variance(form: System, leads: Sequence[float], levels: Sequence[float], x: Sequence[float]) -> float:
    """The variance of a lead: the least value of the quadratic form over its degrees of freedom (the maximum of the
    marginal likelihood, where qualities have the prior that the ridge says; Bishop 2006, 3.5)."""
    size = form.size
    seats = list(zip(form.firsts, form.seconds, strict=True))
    off = [lead - (x[i] - x[j] + x[size]) for lead, (i, j) in zip(leads, seats, strict=True)]
    high = [level - ((x[i] + x[j]) / 2 + x[size + 1]) for level, (i, j) in zip(levels, seats, strict=True)]
    terms = [value * value for value in off] + [form.level_weight * value * value for value in high]
    terms += [form.ridge * value * value for value in x[:size]]
    return math.fsum(terms) / max(1, 2 * len(leads) - 2)
