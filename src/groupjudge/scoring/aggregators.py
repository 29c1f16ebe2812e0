"""From verdicts to one base score a member.

An aggregator takes the group's size, its verdicts in any order and the rules, and gives the base scores in slot order.
To add one, write its function and name it in `AGGREGATORS`. It has to give the same bits whatever the order of the
verdicts and whichever slot a member has (J20): sum with `math.fsum`, which rounds once, and never with `sum` or `+=`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from groupjudge.model import Verdict
from groupjudge.scoring.rules import ScoringRules

Aggregator: TypeAlias = Callable[[int, Sequence[Verdict], ScoringRules], list[float]]

RANKING_MIDDLE = 3.5
"""The ranking that prefers neither answer."""


def needs_tiebreak(verdict: Verdict) -> bool:
    """True where both answers got the same score, so that the ranking decides."""
    return verdict.score_1 == verdict.score_2


def simple_tiebreaker(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> list[float]:
    """The plain mean of what a member scored, the ranking standing in between equals (J14).

    A verdict (s1, s2, r) on (i, j) gives s1 to i and s2 to j; where s1 = s2, s1 + (3.5 - r) and s2 - (3.5 - r). A
    member without a verdict has the default score.
    """
    scores: list[list[float]] = [[] for _ in range(size)]
    for verdict in verdicts:
        lead = RANKING_MIDDLE - verdict.ranking if needs_tiebreak(verdict) else 0.0
        scores[verdict.i].append(verdict.score_1 + lead)
        scores[verdict.j].append(verdict.score_2 - lead)
    return [math.fsum(own) / len(own) if own else rules.default_score for own in scores]


AGGREGATORS: Mapping[str, Aggregator] = MappingProxyType({"simple_tiebreaker": simple_tiebreaker})
