"""From a judge's text to the scores of a list (F9): `{"scores": {"answer_1": 4, ...}}`, read with the care of J11.

Every name of the list must be there once and no other; a number that is missing, no number or out of range makes the
whole object invalid. Nothing is clamped, nothing invented, and no list is read in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from groupjudge.judging.lenient import Found
from groupjudge.judging.reading import Bounds, NoVerdict, ReadingRules, ReadResult, number_in, read_text, verdict_object

SCORES = "scores"


def read_scores(text: str, names: Sequence[str], rules: ReadingRules) -> ReadResult[tuple[float, ...]]:
    """Read the scores of the answers called `names`, in that order, out of a judge's final text. Never raises."""
    return read_text(text, partial(_scores, names, rules.score_range), rules)


def _scores(names: Sequence[str], bounds: Bounds, found: Found) -> tuple[float, ...]:
    scores = verdict_object(found).get(SCORES)
    if not isinstance(scores, dict):
        raise NoVerdict(f"{SCORES} is missing, or no object")
    if len(scores) > len(names) or not scores.keys() <= set(names):
        raise NoVerdict(f"{SCORES} holds a name that no answer has")
    return tuple(_score(scores, name, bounds) for name in names)


def _score(scores: dict[str, object], name: str, bounds: Bounds) -> float:
    number = number_in(scores, name, bounds)
    if number is None:
        raise NoVerdict(f"the score of {name} is missing")
    return number
