"""What a group's verdicts looked like before any formula touched them (J18)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupjudge.model import Metrics, Verdict
from groupjudge.scoring.tiebreak import needs_tiebreak


def verdict_metrics(verdicts: Sequence[Verdict]) -> Metrics | None:
    """Mean and population standard deviation of all scores as the judge gave them, and the share of verdicts that
    needed the tie-break (0..1). None without verdicts."""
    if not verdicts:
        return None
    scores = [score for verdict in verdicts for score in (verdict.score_1, verdict.score_2)]
    mean = math.fsum(scores) / len(scores)
    return Metrics(mean, _deviation(scores, mean), sum(map(needs_tiebreak, verdicts)) / len(verdicts))


def _deviation(scores: Sequence[float], mean: float) -> float:
    distances = [abs(score - mean) for score in scores]
    # In units of the largest distance, so that no square leaves the range of numbers.
    unit = max(distances)
    if unit == 0:
        return 0.0
    return unit * math.sqrt(math.fsum((distance / unit) ** 2 for distance in distances) / len(distances))
