"""What an aggregator gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from groupjudge.model import Verdict
from groupjudge.scoring.rules import ScoringRules


class Estimate(NamedTuple):
    """Base scores and their standard errors, both in slot order and on the judge's scale. An error is None where the
    verdicts do not show how noisy they are, or the member has none."""

    scores: list[float]
    errors: list[float | None]


def around_mean(
    mean: float,
    offsets: Sequence[float],
    errors: Sequence[float] | None,
    verdicts: Sequence[Verdict],
    rules: ScoringRules,
) -> Estimate:
    """Scores that lie around `mean` by `offsets`, whose own mean over the judged members is taken out: so the group's
    rewards have the mean of the judge's scores. A member without a verdict has the default score (J14)."""
    judged = {slot for verdict in verdicts for slot in (verdict.i, verdict.j)}
    centre = math.fsum(offsets[slot] for slot in judged) / len(judged) if judged else 0.0
    scores = [
        mean + (offset - centre) if slot in judged else rules.default_score for slot, offset in enumerate(offsets)
    ]
    if errors is None:
        return Estimate(scores, [None] * len(scores))
    return Estimate(scores, [error if slot in judged else None for slot, error in enumerate(errors)])
