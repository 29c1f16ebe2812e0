"""Which numbers a verdict may hold (J19)."""

from __future__ import annotations

from collections.abc import Iterable

from groupjudge.model import Verdict
from groupjudge.scoring.rules import NotFinite

LARGEST = 1e300
"""The largest number that a verdict may hold, either sign: no sum over a group then leaves the range of floats, in no
order of its terms."""


def check_numbers(verdicts: Iterable[Verdict]) -> None:
    """Raise NotFinite where a number of a verdict is not finite or beyond LARGEST."""
    for verdict in verdicts:
        if not all(abs(number) <= LARGEST for number in (verdict.score_1, verdict.score_2, verdict.ranking)):
            raise NotFinite(f"the verdict on {verdict.i} and {verdict.j} holds no finite number up to {LARGEST}")
