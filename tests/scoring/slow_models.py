"""The models of F2 once more, slow and written from their definitions, to compare with: whole matrices, elimination
with pivots, no trick about sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from groupjudge.model import Verdict

Matrix = list[list[float]]


def solve(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """Gauss's elimination with the largest pivot."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for step in range(len(rows)):
        pivot = max(range(step, len(rows)), key=lambda k: abs(rows[k][step]))
        rows[step], rows[pivot] = rows[pivot], rows[step]
        for k in range(len(rows)):
            if k != step:
                factor = rows[k][step] / rows[step][step]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[step], strict=True)]
    return [row[-1] / row[step] for step, row in enumerate(rows)]


def centred_variances(matrix: Matrix, judged: Sequence[float]) -> list[float]:
    """What the inverse says of each judged unknown less the mean of all judged ones."""
    found = []
    for slot, is_judged in enumerate(judged):
        off = [float(k == slot) - is_judged * other / sum(judged) for k, other in enumerate(judged)] + [0.0, 0.0]
        found.append(sum(a * b for a, b in zip(off, solve(matrix, off), strict=True)) if is_judged else 0.0)
    return found


def leads_of(verdicts: Sequence[Verdict]) -> list[float]:
    """Half of the difference of the scores, half of the ranking's, brought to one root mean square."""
    scores = [v.score_1 - v.score_2 for v in verdicts]
    rankings = [3.5 - v.ranking for v in verdicts]
    if not any(scores):
        return [2 * ranking for ranking in rankings]
    if not any(rankings):
        return scores
    scale = math.sqrt(fmean(s * s for s in scores) / fmean(r * r for r in rankings))
    return [(s + scale * r) / 2 for s, r in zip(scores, rankings, strict=True)]


def weights_of(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """The level's weight and the ridge, by the moments that `evidence.py` names."""
    scores, leads = [v.score_1 - v.score_2 for v in verdicts], leads_of(verdicts)
    levels = [(v.score_1 + v.score_2) / 2 for v in verdicts]
    lead_variance = fmean((lead - fmean(leads)) ** 2 for lead in leads)
    level_variance = fmean((level - fmean(levels)) ** 2 for level in levels)
    two_kinds = any(scores) and any(v.ranking != 3.5 for v in verdicts)
    apart = fmean((s - lead) ** 2 for s, lead in zip(scores, leads, strict=True)) if two_kinds else 0.0
    noise = max(apart, 0.05 * lead_variance)
    spread = max(lead_variance - noise, 0.05 * lead_variance) / 2
    level_noise = max(level_variance - spread / 2, 0.1 * level_variance)
    weight = min(max(noise / level_noise, 0.1), 1.0) if level_noise else 1.0
    return weight, min(max(noise / spread, 0.05), 1.0) if spread else 1.0


def least_squares_twin(size: int, verdicts: Sequence[Verdict]) -> tuple[list[float], list[float]]:
    """Rewards and standard errors, by the normal equations of the whole design."""
    leads = leads_of(verdicts)
    weight, ridge = weights_of(verdicts)
    levels = [(v.score_1 + v.score_2) / 2 for v in verdicts]
    rows: list[tuple[list[float], float, float]] = []
    for verdict, lead, level in zip(verdicts, leads, levels, strict=True):
        ahead, high = [0.0] * (size + 2), [0.0] * (size + 2)
        ahead[verdict.i], ahead[verdict.j], ahead[size] = 1.0, -1.0, 1.0
        high[verdict.i], high[verdict.j], high[size + 1] = 0.5, 0.5, 1.0
        rows += [(ahead, lead, 1.0), (high, level, weight)]
    for slot in range(size):
        rows.append(([float(k == slot) for k in range(size + 2)], 0.0, ridge))
    matrix = [[sum(w * x[a] * x[b] for x, _, w in rows) for b in range(size + 2)] for a in range(size + 2)]
    x = solve(matrix, [sum(w * row[a] * y for row, y, w in rows) for a in range(size + 2)])
    loss = sum(w * (y - sum(a * b for a, b in zip(row, x, strict=True))) ** 2 for row, y, w in rows)
    variance = loss / max(1, 2 * len(verdicts) - 2)
    judged = [float(any(slot in (v.i, v.j) for v in verdicts)) for slot in range(size)]
    errors = [math.sqrt(variance * value) for value in centred_variances(matrix, judged)]
    return around(verdicts, x[:size]), errors


def around(verdicts: Sequence[Verdict], qualities: Sequence[float]) -> list[float]:
    """Qualities moved so that those of judged members have the mean of the scores."""
    judged = {slot for v in verdicts for slot in (v.i, v.j)}
    mean = fmean(score for v in verdicts for score in (v.score_1, v.score_2))
    centre = fmean(qualities[slot] for slot in judged)
    return [mean + quality - centre for quality in qualities]


def bradley_terry_loss(size: int, verdicts: Sequence[Verdict]) -> Callable[[Sequence[float]], float]:
    """What the model makes least: the cross entropy of the wins by parts, and the prior. A point is qualities, then the
    seat, all in logits."""
    leads = leads_of(verdicts)
    usual = math.sqrt(fmean(lead * lead for lead in leads))
    parts = [min(max(0.5 + lead / (4 * usual), 0.0), 1.0) if usual else 0.5 for lead in leads]

    def loss(x: Sequence[float]) -> float:
        total = 0.1 / 2 * sum(quality * quality for quality in x[:size])
        for verdict, part in zip(verdicts, parts, strict=True):
            logit = x[verdict.i] - x[verdict.j] + x[size]
            total += math.log1p(math.exp(-abs(logit))) + max(logit, 0.0) - part * logit
        return total

    return loss


def win_rate_twin(size: int, verdicts: Sequence[Verdict]) -> list[float]:
    """Shares of wins, worth the mean lead of a winner."""
    shares, leads = [], []
    for slot in range(size):
        own = [_won(v) if v.i == slot else 1 - _won(v) for v in verdicts if slot in (v.i, v.j)]
        shares.append(fmean(own) if own else 0.5)
    for verdict in verdicts:
        if _won(verdict) != 0.5:
            tie = verdict.score_1 == verdict.score_2
            leads.append(abs(2 * (3.5 - verdict.ranking) if tie else verdict.score_1 - verdict.score_2))
    return around(verdicts, [share * (fmean(leads) if leads else 0.0) for share in shares])


def _won(verdict: Verdict) -> float:
    """What of the verdict the first answer won."""
    if verdict.score_1 != verdict.score_2:
        return float(verdict.score_1 > verdict.score_2)
    return {True: 1.0, False: 0.0}[verdict.ranking < 3.5] if verdict.ranking != 3.5 else 0.5


def cycles_twin(size: int, verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """Circles and decided triples, by looking at every triple."""

    def beats(a: int, b: int) -> bool:
        balance = 0.0
        for v in verdicts:
            if (v.i, v.j) == (a, b):
                balance += _won(v) - 0.5
            elif (v.i, v.j) == (b, a):
                balance -= _won(v) - 0.5
        return balance > 0

    circles = decided = 0
    for a in range(size):
        for b in range(a):
            for c in range(b):
                edges = [beats(*pair) for pair in ((a, b), (b, c), (c, a))]
                back = [beats(*pair) for pair in ((b, a), (c, b), (a, c))]
                decided += all(one or other for one, other in zip(edges, back, strict=True))
                circles += all(edges) or all(back)
    return circles, decided
