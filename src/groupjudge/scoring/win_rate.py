"""`win_rate`: the share of its verdicts that a member won, a tie being half a win (Copeland's score, by verdicts).

On the judge's scale: the mean of the scores plus (share - mean share) times the mean lead of a winner. So two answers
that met once have the scores that they got.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupjudge.model import Verdict
from groupjudge.scoring.estimate import Estimate, around_mean
from groupjudge.scoring.evidence import power_of_two
from groupjudge.scoring.rules import ScoringRules
from groupjudge.scoring.tiebreak import RANKING_MIDDLE, needs_tiebreak, winner


def win_rate(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> Estimate:
    """The shares of wins, around the mean of the judge's scores; see the head of this module."""
    if not verdicts:
        return around_mean(rules.default_score, [0.0] * size, None, verdicts, rules)
    scores = [score for verdict in verdicts for score in (verdict.score_1, verdict.score_2)]
    lead = _mean_lead(verdicts)
    wins, met = [0] * size, [0] * size  # in halves
    for verdict in verdicts:
        won = winner(verdict)
        for slot, halves in ((verdict.i, 1 + won), (verdict.j, 1 - won)):
            wins[slot] += halves
            met[slot] += 1
    shares = [own / (2 * count) if count else 0.5 for own, count in zip(wins, met, strict=True)]
    errors = [lead * _error(own, count) for own, count in zip(wins, met, strict=True)]
    return around_mean(math.fsum(scores) / len(scores), [lead * share for share in shares], errors, verdicts, rules)


def _mean_lead(verdicts: Sequence[Verdict]) -> float:
    """How far a winner was ahead in points, the tie-break of J14 included."""
    unit = power_of_two([RANKING_MIDDLE, *(number for v in verdicts for number in v[3:])])
    leads = [
        2 * abs(RANKING_MIDDLE / unit - v.ranking / unit)
        if needs_tiebreak(v)
        else abs(v.score_1 / unit - v.score_2 / unit)
        for v in verdicts
        if winner(v)
    ]
    return unit * (math.fsum(leads) / len(leads)) if leads else 0.0


def _error(halves: int, met: int) -> float:
    """The standard error of a share, half a win and half a defeat added so that it never is 0 (Agresti and Coull
    1998)."""
    share = (halves / 2 + 0.5) / (met + 1)
    return math.sqrt(share * (1 - share) / max(met, 1))
