"""Zero-centred weights: the shape that every penalty has (J16, J17)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def centred_weights(amounts: Sequence[float]) -> list[float]:
    """How much less of something each member has than the group at large; the less, the higher. They add up to 0.

    For amounts l with span = max - min > 0: w = 1 - (l - min)/span, minus the mean of all w. 0 for all where span = 0.
    """
    least = min(amounts)
    span = max(amounts) - least
    if span == 0:
        return [0.0] * len(amounts)
    weights = [1 - (amount - least) / span for amount in amounts]
    mean = math.fsum(weights) / len(weights)
    return [weight - mean for weight in weights]
