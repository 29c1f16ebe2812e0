"""Who won a verdict: the higher score, and between equal scores the ranking (J14)."""

from __future__ import annotations

from groupjudge.model import Verdict

RANKING_MIDDLE = 3.5
"""The ranking that prefers neither answer."""


def needs_tiebreak(verdict: Verdict) -> bool:
    """True where both answers got the same score, so that the ranking decides."""
    return verdict.score_1 == verdict.score_2


def winner(verdict: Verdict) -> int:
    """1 where the first answer won, -1 where the second did, 0 where neither: equal scores and the middle ranking."""
    first, second = verdict.score_1, verdict.score_2
    if first == second:
        first, second = RANKING_MIDDLE, verdict.ranking
    return (first > second) - (first < second)
