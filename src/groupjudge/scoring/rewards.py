"""A group's rewards: the aggregator's base scores, then bonuses, then penalties (J14-J20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from groupjudge.model import AnswerTexts, Metrics, Slot, Verdict
from groupjudge.scoring.aggregators import AGGREGATORS
from groupjudge.scoring.estimate import Estimate
from groupjudge.scoring.lengths import add_length_bonuses, length_penalties
from groupjudge.scoring.limits import check_numbers
from groupjudge.scoring.metrics import verdict_metrics
from groupjudge.scoring.rules import NotFinite, ScoringRules
from groupjudge.scoring.style import style_weights


class Scored(NamedTuple):
    """What a group's verdicts come to. All tuples are in slot order, scores and rewards finite; `metrics` is None
    without verdicts, and so is the standard error of a reward where the verdicts do not show it."""

    base_scores: tuple[float, ...]
    rewards: tuple[float, ...]
    metrics: Metrics | None
    errors: tuple[float | None, ...]


def score_group(
    texts: Sequence[AnswerTexts], verdicts: Sequence[Verdict], rules: ScoringRules, same: Sequence[Slot] | None = None
) -> Scored:
    """Score the members whose texts these are (slot order) by verdicts in any order.

    `same`, where given, names for each slot the one that was judged in its place (its own, or the lowest with an equal
    answer; F6): the verdicts are on these alone, and the others get what they get.

    A group of one has nothing to be compared with: its reward is the default score, without bonus or penalty (L9).
    Raises NotFinite where a number of a verdict is not finite or beyond LARGEST, or a reward is not finite (J19), and
    ValueError for an unknown aggregator or a verdict that is not on two members of this group.
    """
    _check(len(texts), verdicts, rules)
    base, errors = _estimate(len(texts), verdicts, rules, same)
    rewards = base if len(texts) < 2 else _adjusted(base, texts, rules, same)
    for slot, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise NotFinite(f"the reward of slot {slot} came out as {reward}; look at the numbers under scoring")
    shown = tuple(error if error is not None and math.isfinite(error) else None for error in errors)
    return Scored(tuple(base), tuple(rewards), verdict_metrics(verdicts), shown)


def _estimate(size: int, verdicts: Sequence[Verdict], rules: ScoringRules, same: Sequence[Slot] | None) -> Estimate:
    aggregate = AGGREGATORS[rules.aggregator]
    if same is None:
        return aggregate(size, verdicts, rules)
    place = {slot: index for index, slot in enumerate(sorted(set(same)))}
    moved = [Verdict(place[verdict.i], place[verdict.j], *verdict[2:]) for verdict in verdicts]
    scores, errors = aggregate(len(place), moved, rules)
    return Estimate([scores[place[slot]] for slot in same], [errors[place[slot]] for slot in same])


def _check(size: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> None:
    if rules.aggregator not in AGGREGATORS:
        raise ValueError(f"no aggregator {rules.aggregator!r}; there are: {', '.join(sorted(AGGREGATORS))}")
    for verdict in verdicts:
        if not (0 <= verdict.i < size and 0 <= verdict.j < size and verdict.i != verdict.j):
            raise ValueError(f"a verdict on {verdict.i} and {verdict.j} is not on two members of a group of {size}")
    check_numbers(verdicts)


def _adjusted(
    base: Sequence[float], texts: Sequence[AnswerTexts], rules: ScoringRules, same: Sequence[Slot] | None
) -> list[float]:
    # What is switched off is left out: it would cost a pass over every text.
    scores = list(base)
    if rules.reasoning_bonus > 0 or rules.answer_bonus > 0:
        scores = add_length_bonuses(scores, texts, rules, same)
    if rules.reasoning_length_penalty > 0 or rules.answer_length_penalty > 0:
        scores = _sums(scores, length_penalties(texts, rules))
    if rules.style_penalty > 0:
        weights = style_weights([text.answer for text in texts], rules.emoji)
        scores = _sums(scores, [rules.style_penalty * weight for weight in weights])
    return scores


def _sums(scores: Sequence[float], gains: Sequence[float]) -> list[float]:
    return [score + gain for score, gain in zip(scores, gains, strict=True)]
