"""The linear systems of the models that join verdicts, solved so that no order of anything changes a bit (J20).

A system has one unknown a member, one for the seat and one for the level; each verdict e on (i, j) adds w_e (q_i - q_j
+ seat - lead_e)^2 + u ((q_i + q_j)/2 + level - level_e)^2, and each member ridge q_i^2. It is solved by conjugate
gradients (Hestenes and Stiefel 1952, preconditioned by the diagonal; Golub and Van Loan, Matrix Computations, 11.5).
That method is made of products element by element and of sums; with each sum a `math.fsum`, which rounds once, whatever
the order of its terms, members that are renamed get the same bits under their new names. Elimination would not: its
pivots have an order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from groupjudge.model import Verdict

_TOLERANCE = 1e-13
DENSE_AT_MOST = 64
"""The largest group for which a whole matrix is inverted."""


class System(NamedTuple):
    """The quadratic form: its verdicts' seats, `weights` (w_e), `level_weight` (u), `ridge` (> 0), and the places in a
    list of all first, then all second seats that belong to each member."""

    size: int
    firsts: list[int]
    seconds: list[int]
    weights: list[float]
    level_weight: float
    ridge: float
    places: list[list[int]]

    def product(self, x: Sequence[float]) -> list[float]:
        """The matrix times `x`: members in slot order, then seat and level."""
        seat, level = x[self.size], x[self.size + 1]
        half = self.level_weight / 2
        leads = [w * (x[i] - x[j] + seat) for i, j, w in zip(self.firsts, self.seconds, self.weights, strict=True)]
        levels = [half * ((x[i] + x[j]) / 2 + level) for i, j in zip(self.firsts, self.seconds, strict=True)]
        return self.gather(leads, levels, [self.ridge * value for value in x[: self.size]], level)

    def gather(
        self, leads: Sequence[float], levels: Sequence[float], own: Sequence[float], level: float = 0.0
    ) -> list[float]:
        """The transposed design: for each member the sum of its leads (less where it sat second), of its halves of
        levels and of its `own`; then the sums for seat and level. `level` is its own where levels have no weight."""
        shares = [b + a for a, b in zip(leads, levels, strict=True)] + [
            b - a for a, b in zip(leads, levels, strict=True)
        ]
        members = [
            math.fsum([*[shares[place] for place in places], extra])
            for places, extra in zip(self.places, own, strict=True)
        ]
        return [*members, math.fsum(leads), 2 * math.fsum(levels) if self.level_weight else level]

    def diagonal(self) -> list[float]:
        """The diagonal of the matrix, in the order of the unknowns."""
        quarter = self.level_weight / 4
        both = [w + quarter for w in self.weights] * 2
        members = [math.fsum([*[both[place] for place in places], self.ridge]) for places in self.places]
        level = self.level_weight * len(self.weights) if self.level_weight else 1.0
        return [*members, math.fsum(self.weights) or 1.0, level]

    def uncertainties(self) -> list[float]:
        """The variance of each member's distance from the mean of those with verdicts, in units of a lead's variance:
        of the inverse V it is V_ii - 2 mean_j V_ij + mean_jk V_jk. Of groups above `DENSE_AT_MOST` only what each
        member's own verdicts say, 1 / diagonal, which is less."""
        diagonal = self.diagonal()
        if self.size > DENSE_AT_MOST:
            return [1 / value for value in diagonal[: self.size]]
        judged = [1.0 if places else 0.0 for places in self.places]
        count = math.fsum(judged)
        rows = solved(self, [*judged, 0.0, 0.0], 1.0)[: self.size]
        whole = _dot(rows, judged) / count**2
        variances = _inverse_diagonal(self._columns())[: self.size]
        return [max(0.0, v - 2 * row / count + whole) for v, row in zip(variances, rows, strict=True)]

    def _columns(self) -> list[list[float]]:
        unit = [0.0] * (self.size + 2)
        columns = []
        for index in range(self.size + 2):
            unit[index] = 1.0
            columns.append(self.product(unit))
            unit[index] = 0.0
        return columns


def system(
    size: int, verdicts: Sequence[Verdict], weights: Sequence[float], level_weight: float, ridge: float
) -> System:
    """The system of these verdicts on a group of `size`."""
    firsts, seconds = [verdict.i for verdict in verdicts], [verdict.j for verdict in verdicts]
    places: list[list[int]] = [[] for _ in range(size)]
    for place, slot in enumerate([*firsts, *seconds]):
        places[slot].append(place)
    return System(size, firsts, seconds, list(weights), level_weight, ridge, places)


def solved(form: System, right: Sequence[float], scale: float) -> list[float]:
    """x with `form` x = `right`. What is below a ten-trillionth of `scale` (the size of the data behind `right`) counts
    as nothing: so equal answers stay exactly equal, and rounding makes no differences."""
    diagonal = form.diagonal()
    x, rest = [0.0] * len(right), list(right)
    ahead = [value / d for value, d in zip(rest, diagonal, strict=True)]
    direction, size = ahead, _dot(rest, ahead)
    limit = (_TOLERANCE * scale) ** 2
    for _ in range(4 * len(right) + 20):
        if size <= limit:
            break
        along = form.product(direction)
        step = size / _dot(direction, along)
        x = [a + step * b for a, b in zip(x, direction, strict=True)]
        rest = [a - step * b for a, b in zip(rest, along, strict=True)]
        ahead = [value / d for value, d in zip(rest, diagonal, strict=True)]
        before, size = size, _dot(rest, ahead)
        direction = [a + size / before * b for a, b in zip(ahead, direction, strict=True)]
    return x


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(map(mul, a, b))


def _inverse_diagonal(matrix: Sequence[Sequence[float]]) -> list[float]:
    """Of a symmetric positive definite matrix, by its Cholesky factor L: the squares of the columns of its inverse."""
    size = len(matrix)
    lower: list[list[float]] = []
    for row in matrix:
        new: list[float] = []
        for column, above in enumerate(lower):
            new.append((row[column] - _dot(new, above[:column])) / above[column])
        new.append(math.sqrt(row[len(new)] - _dot(new, new)))
        lower.append(new)
    inverse: list[list[float]] = []
    for index, row in enumerate(lower):
        columns = [math.fsum(row[k] * inverse[k][c] for k in range(c, index)) for c in range(index)]
        inverse.append([*(-value / row[index] for value in columns), 1 / row[index]])
    return [math.fsum(inverse[row][c] ** 2 for row in range(c, size)) for c in range(size)]
