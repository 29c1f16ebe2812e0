"""Brevity: bonuses for the shortest among the best (J15), penalties by length (J16).

A length is that of the stripped text, in characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from groupjudge.model import AnswerTexts, Slot
from groupjudge.scoring.centering import centred_weights
from groupjudge.scoring.rules import ScoringRules


def add_length_bonuses(
    base: Sequence[float], texts: Sequence[AnswerTexts], rules: ScoringRules, same: Sequence[Slot] | None = None
) -> list[float]:
    """The base scores with the bonuses of J15: first that of the reasoning, then that of the answer.

    Each goes to the shortest non-empty text (lowest slot on ties), if its member's score, an earlier bonus included,
    reaches the threshold: the base score at index max(0, int(N * top_percentile) - 1), sorted high to low. Where `same`
    names the slot that was judged for each (F6), members with the winner's answer and an equal length win with it.
    """
    scores = list(base)
    rank = max(0, int(len(scores) * rules.top_percentile) - 1)
    threshold = sorted(scores, reverse=True)[rank]
    for bonus, lengths in (
        (rules.reasoning_bonus, _lengths(text.reasoning for text in texts)),
        (rules.answer_bonus, _lengths(text.answer for text in texts)),
    ):
        written = [slot for slot, length in enumerate(lengths) if length > 0]
        if bonus > 0 and written:
            winner = min(written, key=lengths.__getitem__)
            for slot in _winners(winner, lengths, same):
                if scores[slot] >= threshold:
                    scores[slot] += bonus
    return scores


def _winners(winner: Slot, lengths: Sequence[int], same: Sequence[Slot] | None) -> list[Slot]:
    if same is None:
        return [winner]
    return [slot for slot, rep in enumerate(same) if rep == same[winner] and lengths[slot] == lengths[winner]]


def length_penalties(texts: Sequence[AnswerTexts], rules: ScoringRules) -> list[float]:
    """What each score gains by J16: w_reasoning * reasoning_length_penalty + w_answer * answer_length_penalty."""
    reasoning = centred_weights(_lengths(text.reasoning for text in texts))
    answer = centred_weights(_lengths(text.answer for text in texts))
    return [
        rules.reasoning_length_penalty * by_reasoning + rules.answer_length_penalty * by_answer
        for by_reasoning, by_answer in zip(reasoning, answer, strict=True)
    ]


def _lengths(texts: Iterable[str]) -> list[int]:
    return [len(text.strip()) for text in texts]
