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


def centred(values: Sequence[float]) -> list[float]:
    return [value - fmean(values) for value in values] if max(values) - min(values) > 1e-9 else [0.0] * len(values)


def reliability(verdicts: Sequence[Verdict], values: Sequence[float], second: int, prior: float) -> float:
    """Twice the mean product of values that share an answer by their variance; drawn to the prior, within bounds. All
    pairs of verdicts are looked at one by one."""
    products, shares = 0.0, 0
    for a, x in zip(verdicts, values, strict=True):
        for b, y in zip(verdicts, values, strict=True):
            for slot in {a.i, a.j} & {b.i, b.j} if a is not b else ():
                products += (x if a.i == slot else second * x) * (y if b.i == slot else second * y)
                shares += len({a.i, a.j} & {b.i, b.j})
    if not any(values):
        return 0.0
    seen = 2 * (products / shares if shares else 0.0) / fmean(value * value for value in values)
    return min(max((64 * prior + len(verdicts) * seen) / (64 + len(verdicts)), 0.02), 0.95)


def leads_of(verdicts: Sequence[Verdict]) -> list[float]:
    """Both kinds of lead by signal to noise, on the score's scale."""
    step = 2.0 if all(v.score_1 == v.score_2 for v in verdicts) else 0.5
    scores = [step * (3.5 - v.ranking) if v.score_1 == v.score_2 else v.score_1 - v.score_2 for v in verdicts]
    scores, rankings = centred(scores), centred([3.5 - v.ranking for v in verdicts])
    if not any(scores) or not any(rankings):
        return scores
    one, other = (reliability(verdicts, values, -1, 0.7) for values in (scores, rankings))
    other = agreeing(verdicts, scores, rankings, one, other)
    weights = one / (1 - one), other / (1 - other)
    scale = math.sqrt(one * fmean(s * s for s in scores) / (other * fmean(r * r for r in rankings)))
    joined = [(weights[0] * s + weights[1] * scale * r) / sum(weights) for s, r in zip(scores, rankings, strict=True)]
    return centred(joined)


def agreeing(
    verdicts: Sequence[Verdict], scores: Sequence[float], rankings: Sequence[float], one: float, other: float
) -> float:
    """The ranking's reliability, drawn towards what its correlation with the scores says, ties apart."""
    untied = [n for n, verdict in enumerate(verdicts) if verdict.score_1 != verdict.score_2]
    if not untied:
        return other
    a, b = (centred([values[n] for n in untied]) for values in (scores, rankings))
    size = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    correlation = max(0.0, sum(x * y for x, y in zip(a, b, strict=True)) / size) if size else 0.0
    own, more = 64 + len(verdicts), 2 * len(untied)
    drawn = (own * other + more * min(correlation**2 / one, 0.95)) / (own + more)
    return min(max(drawn, 0.02), 0.95)


def levels_of(verdicts: Sequence[Verdict]) -> tuple[list[float], float]:
    """Levels, brought to the scale on which leads see qualities; and their reliability."""
    levels, leads = centred([(v.score_1 + v.score_2) / 2 for v in verdicts]), leads_of(verdicts)
    own = reliability(verdicts, levels, 1, 0.35)
    if not any(levels) or not any(leads):
        return levels, own
    lead = reliability(verdicts, leads, -1, 0.7) * fmean(x * x for x in leads) / 2
    scale = math.sqrt(lead / (2 * own * fmean(x * x for x in levels)))
    return [level * scale for level in levels], own


def weights_of(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """The level's weight and the ridge: noise by signal."""
    lead, level = reliability(verdicts, leads_of(verdicts), -1, 0.7), levels_of(verdicts)[1]
    if not lead:
        return 4.0, 1.0
    noise = 2 * (1 - lead) / lead
    of_level = (1 - level) / (2 * level) if level else math.inf
    return min(max(noise / of_level, 0.1), 4.0), min(max(noise, 0.05), 1.0)


def least_squares_twin(size: int, verdicts: Sequence[Verdict]) -> tuple[list[float], list[float]]:
    """Rewards and standard errors, by the normal equations of the whole design."""
    leads = leads_of(verdicts)
    weight, ridge = weights_of(verdicts)
    levels, _ = levels_of(verdicts)
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
