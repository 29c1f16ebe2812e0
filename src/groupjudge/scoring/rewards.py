"""A group's rewards: the aggregator's base scores, then bonuses, then penalties (J14-J20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from groupjudge.model import AnswerTexts, Metrics, Verdict
from groupjudge.scoring.aggregators import AGGREGATORS
from groupjudge.scoring.lengths import add_length_bonuses, length_penalties
from groupjudge.scoring.metrics import verdict_metrics
from groupjudge.scoring.rules import NotFinite, ScoringRules
from groupjudge.scoring.style import style_weights

LARGEST = 1e300
"""The largest number that a verdict may hold, either sign: no sum over a group then leaves the range of floats, in no
order of its terms."""


class Scored(NamedTuple):
    """What a group's verdicts come to. Both tuples are in slot order and finite; `metrics` is None without verdicts."""

    base_scores: tuple[float, ...]
    rewards: tuple[float, ...]
    metrics: Metrics | None


def score_group(texts: Sequence[AnswerTexts], verdicts: Sequence[Verdict], rules: ScoringRules) -> Scored:
    """Score the members whose texts these are (slot order) by verdicts in any order.

    A group of one has nothing to be compared with: its reward is the default score, without bonus or penalty (L9).
    Raises NotFinite where a number of a verdict is not finite or beyond LARGEST, or a reward is not finite (J19), and
    ValueError for an unknown aggregator or a verdict that is not on two members of this group.
    """
    _check(len(texts), verdicts, rules)
    base = AGGREGATORS[rules.aggregator](len(texts), verdicts, rules)
    rewards = base if len(texts) < 2 else _adjusted(base, texts, rules)
    for slot, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise NotFinite(f"the reward of slot {slot} came out as {reward}; look at the numbers under scoring")
    return Scored(tuple(base), tuple(rewards), verdict_metrics(verdicts))


def _check(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> None:
    if rules.aggregator not in AGGREGATORS:
        raise ValueError(f"no aggregator {rules.aggregator!r}; there are: {', '.join(sorted(AGGREGATORS))}")
    for verdict in verdicts:
        if not (0 <= verdict.i < size and 0 <= verdict.j < size and verdict.i != verdict.j):
            raise ValueError(f"a verdict on {verdict.i} and {verdict.j} is not on two members of a group of {size}")
        if not all(abs(number) <= LARGEST for number in (verdict.score_1, verdict.score_2, verdict.ranking)):
            raise NotFinite(f"the verdict on {verdict.i} and {verdict.j} holds no finite number up to {LARGEST}")


def _adjusted(base: Sequence[float], texts: Sequence[AnswerTexts], rules: ScoringRules) -> list[float]:
    # What is switched off is left out: it would cost a pass over every text.
    scores = list(base)
    if rules.reasoning_bonus > 0 or rules.answer_bonus > 0:
        scores = add_length_bonuses(scores, texts, rules)
    if rules.reasoning_length_penalty > 0 or rules.answer_length_penalty > 0:
        scores = _sums(scores, length_penalties(texts, rules))
    if rules.style_penalty > 0:
        weights = style_weights([text.answer for text in texts], rules.emoji)
        scores = _sums(scores, [rules.style_penalty * weight for weight in weights])
    return scores


def _sums(scores: Sequence[float], gains: Sequence[float]) -> list[float]:
    return [score + gain for score, gain in zip(scores, gains, strict=True)]
