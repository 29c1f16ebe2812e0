"""The scoring formulas once more: slow, exact, written from the rules alone (J14-J18), to compare with."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from groupjudge.model import AnswerTexts, Verdict
from groupjudge.scoring import ScoringRules

BLANKS = frozenset(
    map(chr, (*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000))
)
BLANKS |= frozenset(map(chr, range(0x2000, 0x200B)))


class Exact(NamedTuple):
    """Base scores and rewards as fractions; mean, variance and tie-break rate as fractions, None without verdicts."""

    base: list[Fraction]
    rewards: list[Fraction]
    metrics: tuple[Fraction, Fraction, Fraction] | None


def exact_scores(texts: Sequence[AnswerTexts], verdicts: Sequence[Verdict], rules: ScoringRules) -> Exact:
    base = [_base_score(slot, verdicts, rules) for slot in range(len(texts))]
    if len(texts) == 1:
        return Exact(base, base, None)
    rewards = list(base)
    threshold = sorted(base)[-1 - max(0, int(len(base) * rules.top_percentile) - 1)]
    for bonus, field in ((rules.reasoning_bonus, "reasoning"), (rules.answer_bonus, "answer")):
        lengths = [(_length(getattr(text, field)), slot) for slot, text in enumerate(texts)]
        lengths = sorted(pair for pair in lengths if pair[0])
        if lengths and rewards[lengths[0][1]] >= threshold:
            rewards[lengths[0][1]] += Fraction(bonus)
    for penalty, amount in _penalties(rules):
        for slot, weight in enumerate(_weights([amount(text) for text in texts])):
            rewards[slot] += Fraction(penalty) * weight
    return Exact(base, rewards, _metrics(verdicts))


def _penalties(rules: ScoringRules) -> list[tuple[float, Callable[[AnswerTexts], Fraction]]]:
    return [
        (rules.reasoning_length_penalty, lambda text: Fraction(_length(text.reasoning))),
        (rules.answer_length_penalty, lambda text: Fraction(_length(text.answer))),
        (rules.style_penalty, lambda text: density(text.answer, rules.emoji == "strict")),
    ]


def _base_score(slot: int, verdicts: Sequence[Verdict], rules: ScoringRules) -> Fraction:
    total, count = Fraction(0), 0
    for i, j, _, first, second, ranking in verdicts:
        lead = Fraction(7, 2) - Fraction(ranking) if first == second else Fraction(0)
        if slot == i:
            total, count = total + Fraction(first) + lead, count + 1
        if slot == j:
            total, count = total + Fraction(second) - lead, count + 1
    return total / count if count else Fraction(rules.default_score)


def _weights(amounts: list[Fraction]) -> list[Fraction]:
    if len(set(amounts)) == 1:
        return [Fraction(0)] * len(amounts)
    raw = [(max(amounts) - amount) / (max(amounts) - min(amounts)) for amount in amounts]
    return [weight - sum(raw) / len(raw) for weight in raw]


def _metrics(verdicts: Sequence[Verdict]) -> tuple[Fraction, Fraction, Fraction] | None:
    if not verdicts:
        return None
    scores = [Fraction(s) for v in verdicts for s in (v.score_1, v.score_2)]
    mean = sum(scores, Fraction(0)) / len(scores)
    variance = sum((s * s for s in scores), Fraction(0)) / len(scores) - mean * mean
    return mean, variance, Fraction(len([v for v in verdicts if v.score_1 == v.score_2]), len(verdicts))


def _length(text: str) -> int:
    kept = [index for index, char in enumerate(text) if char not in BLANKS]
    return kept[-1] - kept[0] + 1 if kept else 0


def density(answer: str, strict: bool) -> Fraction:
    """Style elements a character (J17), by hand: no pattern in it."""
    prose = _without_blocks(answer)
    lines = prose.split("\n")
    elements = sum(_is_header(line, last) or _is_item(line, last) for line, last in _marked_last(lines))
    elements += sum(_bold_spans(line, "*") + _bold_spans(line, "_") for line in lines)
    elements += sum(_is_emoji(ord(char), strict) for char in prose)
    length = _length(prose)
    return Fraction(elements, length) if length else Fraction(0)


def _marked_last(lines: list[str]) -> list[tuple[str, bool]]:
    return [(line, number == len(lines)) for number, line in enumerate(lines, 1)]


def _without_blocks(answer: str) -> str:
    parts = []
    while "```" in answer:
        before, _, rest = answer.partition("```")
        if "```" not in rest:
            break
        parts.append(before)
        answer = rest.partition("```")[2]
    return "".join(parts) + answer


def _blank_follows(rest: str, last: bool) -> bool:
    # The line break itself is white space too; the last line has none.
    return rest[0] in BLANKS if rest else not last


def _is_header(line: str, last: bool) -> bool:
    marks = len(line) - len(line.lstrip("#"))
    return 1 <= marks <= 6 and _blank_follows(line[marks:], last)


def _is_item(line: str, last: bool) -> bool:
    while line and line[0] in BLANKS:
        line = line[1:]
    if line[:1] in ("-", "*", "+"):
        return _blank_follows(line[1:], last)
    digits = 0
    while digits < len(line) and unicodedata.category(line[digits]) == "Nd":
        digits += 1
    return digits > 0 and line[digits : digits + 1] == "." and _blank_follows(line[digits + 1 :], last)


def _bold_spans(line: str, mark: str) -> int:
    spans, at = 0, 0
    while at < len(line):
        end = at + 2
        while end < len(line) and line[end] != mark:
            end += 1
        if line[at : at + 2] == mark * 2 and end > at + 2 and line[end : end + 2] == mark * 2:
            spans, at = spans + 1, end + 2
        else:
            at += 1
    return spans


def _is_emoji(code: int, strict: bool) -> bool:
    narrow = (0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F680, 0x1F6FF), (0x1F1E0, 0x1F1FF), (0x2702, 0x27B0)
    wide = () if strict else ((0x24C2, 0x1F251),)
    return any(low <= code <= high for low, high in (*narrow, *wide))
