"""How far a group's verdicts can be trusted, and whether its rewards teach anything (F4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupjudge.model import Measures, Verdict
from groupjudge.scoring.evidence import mean_square, power_of_two
from groupjudge.scoring.tiebreak import winner

_EQUAL = 1e-9
"""Rewards that differ by less than this part of the largest are equal."""


def measured(verdicts: Sequence[Verdict], rewards: Sequence[float]) -> Measures:
    """The measures of a group with these verdicts (any order) and rewards (slot order), all finite. What only the
    judge's replies tell (`ambiguous_replies`, `default_scores`) and `calls_saved` are 0; whoever knows them fills them
    in."""
    unit = power_of_two(rewards)
    scaled = [reward / unit for reward in rewards]
    mean = math.fsum(scaled) / len(scaled) if scaled else 0.0
    cycles, triples = _cycles(verdicts)
    return Measures(
        position_bias=math.fsum(v.score_1 - v.score_2 for v in verdicts) / len(verdicts) if verdicts else None,
        swap_flip_rate=_swap_flip_rate(verdicts),
        cycles=cycles,
        triples=triples,
        ties=sum(1 for verdict in verdicts if not winner(verdict)),
        ambiguous_replies=0,
        default_scores=0,
        calls_saved=0,
        spread=unit * math.sqrt(mean_square([reward - mean for reward in scaled])),
        is_flat=len(rewards) > 1 and max(scaled) - min(scaled) <= _EQUAL,
    )


def _swap_flip_rate(verdicts: Sequence[Verdict]) -> float | None:
    """Of the pairs that one judge index saw in both orders, the share in which another answer won each time; where
    either verdict was a tie nothing was turned."""
    won = {verdict[:3]: winner(verdict) for verdict in verdicts}
    both = [(one, won[j, i, judge]) for (i, j, judge), one in won.items() if i < j and (j, i, judge) in won]
    return sum(1 for one, other in both if one * other > 0) / len(both) if both else None


def _cycles(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """How many triples of answers beat each other in a circle, of how many in which all three met and none drew. Who
    won more of the verdicts on a pair beats the other. Sets of slots are the bits of integers, so that 1,024 answers
    take no longer than their pairs."""
    balance: dict[tuple[int, int], int] = {}
    for verdict in verdicts:
        low, high = sorted((verdict.i, verdict.j))
        won = winner(verdict) if verdict.i == low else -winner(verdict)
        balance[low, high] = balance.get((low, high), 0) + won
    beats: dict[int, int] = {}
    beaten_by: dict[int, int] = {}
    for (low, high), won in balance.items():
        if won:
            up, down = (low, high) if won > 0 else (high, low)
            beats[up] = beats.get(up, 0) | 1 << down
            beaten_by[down] = beaten_by.get(down, 0) | 1 << up
    decided = [(low, high) if won > 0 else (high, low) for (low, high), won in balance.items() if won]
    circles = sum((beats.get(down, 0) & beaten_by.get(up, 0)).bit_count() for up, down in decided) // 3
    orders = sum((beats.get(up, 0) & beaten_by.get(down, 0)).bit_count() for up, down in decided)
    return circles, circles + orders
