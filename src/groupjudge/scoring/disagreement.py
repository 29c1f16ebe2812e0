"""How often the jurors of a panel prefer different answers (F10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from groupjudge.model import Slot, Verdict
from groupjudge.scoring.tiebreak import winner


class Compared(NamedTuple):
    """Verdicts of different jurors on the same pair in the same seats, two by two: how many there are, and how many of
    them prefer different answers, or only one of which prefers any."""

    pairs: int = 0
    differing: int = 0

    @property
    def share(self) -> float | None:
        """0 (always of one mind) to 1; None where no two jurors judged the same pair."""
        return self.differing / self.pairs if self.pairs else None


def disagreement(verdicts: Sequence[Verdict], jurors: int) -> tuple[Compared, list[Compared]]:
    """Over all jurors, and for each of them with the others. Its judge index modulo `jurors` says whose a verdict
    is."""
    pairs, differing = [0] * jurors, [0] * jurors
    for one, other in _met(verdicts, jurors):
        differ = winner(one) != winner(other)
        for verdict in (one, other):
            pairs[verdict.judge % jurors] += 1
            differing[verdict.judge % jurors] += differ
    # Each two verdicts were counted for both of their jurors.
    return Compared(sum(pairs) // 2, sum(differing) // 2), list(map(Compared, pairs, differing))


def _met(verdicts: Sequence[Verdict], jurors: int) -> Iterator[tuple[Verdict, Verdict]]:
    """Every two verdicts of different jurors on the same pair."""
    by_seats: dict[tuple[Slot, Slot], list[Verdict]] = {}
    for verdict in verdicts:
        by_seats.setdefault((verdict.i, verdict.j), []).append(verdict)
    for met in by_seats.values():
        yield from ((a, b) for a, b in combinations(met, 2) if a.judge % jurors != b.judge % jurors)
