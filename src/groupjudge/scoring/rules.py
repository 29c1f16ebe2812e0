"""What scoring is told, and the failure that keeps a number that is none from being published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Emoji = Literal["reference", "strict"]


class NotFinite(ValueError):
    """A number is not finite, so the group has no rewards (J19). The text says which and what to look at."""


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """The scoring part of the configuration (H12, same names and defaults), without the ranges: those are the reader's.

    Scores and bonuses are on the judge's scale. `top_percentile` is a share (0..1). A penalty is the weight of a
    zero-centred term within [-1, 1]; a bonus or penalty of 0 is off. All numbers are finite, all bonuses and penalties
    >= 0.
    """

    aggregator: str = "simple_tiebreaker"
    default_score: float = 3.0
    default_ranking: float = 3.5
    reasoning_bonus: float = 0.0
    answer_bonus: float = 0.0
    top_percentile: float = 0.2
    reasoning_length_penalty: float = 0.0
    answer_length_penalty: float = 0.0
    style_penalty: float = 0.0
    emoji: Emoji = "reference"
