"""`bradley_terry`: the odds that one answer beats another, with the strength of wins, ties and the first seat.

The logit of i (first seat) beating j is q_i - q_j + seat (Bradley and Terry 1952; the seat as in Davidson and Beaver
1977, a tie as half a win for each). A verdict is a win by a part: 1/2 + lead / (4 root mean square of all leads),
within 0 and 1, so that a tie is 1/2, a usual win 3/4 and one by twice that or more a whole win. Qualities have a normal
prior, which keeps them finite where somebody won everything. Fitted by Newton's method; rewards are in points of score
by what a lead is worth near a tie.

The leads are those of `evidence.py`. No library fits: choix needs numpy and scipy and knows neither ties nor seats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupjudge.model import Verdict
from groupjudge.scoring.estimate import Estimate, around_mean
from groupjudge.scoring.evidence import evidence, mean_square
from groupjudge.scoring.rules import ScoringRules
from groupjudge.scoring.solving import System, solved, system

RIDGE = 0.1
"""The prior's precision: a standard deviation of about three logits."""
_STEPS, _SMALLEST_STEP = 30, 1e-11


def bradley_terry(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> Estimate:
    """The qualities of the model, around the mean of the judge's scores; see the head of this module."""
    if not verdicts:
        return around_mean(rules.default_score, [0.0] * size, None, verdicts, rules)
    seen = evidence(verdicts)
    usual = math.sqrt(mean_square(seen.leads))
    parts = [0.5 + max(-0.5, min(0.5, lead / (4 * usual))) if usual else 0.5 for lead in seen.leads]
    x, form = _fitted(size, verdicts, parts)
    worth = usual * seen.unit
    errors = [worth * math.sqrt(value) for value in form.uncertainties()]
    return around_mean(seen.mean, [worth * quality for quality in x[:size]], errors, verdicts, rules)


def _fitted(size: int, verdicts: Sequence[Verdict], parts: Sequence[float]) -> tuple[list[float], System]:
    """The most likely qualities, then the seat; and the curvature there."""
    form = system(size, verdicts, [0.25] * len(verdicts), 0.0, RIDGE)
    x = [0.0] * (size + 2)
    # The seat alone first: where all verdicts are the same it explains them, exactly.
    x[size] = _logit(math.fsum(parts) / len(parts))
    for _ in range(_STEPS):
        chances = [_chance(x[v.i] - x[v.j] + x[size]) for v in verdicts]
        form = form._replace(weights=[max(chance * (1 - chance), 1e-9) for chance in chances])
        off = [part - chance for part, chance in zip(parts, chances, strict=True)]
        right = form.gather(off, [0.0] * len(off), [-RIDGE * value for value in x[:size]])
        step = solved(form, right, 1.0)
        x = [a + b for a, b in zip(x, step, strict=True)]
        if max(map(abs, step)) <= _SMALLEST_STEP:
            break
    return x, form


def _chance(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def _logit(share: float) -> float:
    share = min(max(share, 0.01), 0.99)
    return math.log(share / (1 - share))
