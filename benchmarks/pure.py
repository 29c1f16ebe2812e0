"""The workloads of single parts, in this process: fingerprints (P10, P11) and the state machine (P12, P14)."""

from __future__ import annotations

import gc

from benchmarks import bodies, core
from benchmarks.table import Row, paced


def fingerprints(name: str, shown: str, targets: dict[str, float], there: float) -> list[Row]:
    """`there`: milliseconds that the baseline takes on the machine that the targets were set on."""
    rows = []
    for label, whole in bodies.usual():
        if label in targets:
            best = bodies.row(whole, 9)
            ours, baseline, floor = best[2], best[3], best[4]
            assert ours
            assert floor
            note = f"SHA-256 alone {floor:.2f}"
            rows.append(
                Row(
                    name,
                    f"fingerprint of one {shown} answer ({label})",
                    "ms",
                    ours,
                    targets[label],
                    baseline,
                    note=note,
                    pace=paced(baseline, there),
                )
            )
    return rows


def arrivals(most: int = 1_000_000) -> list[Row]:
    """What an arrival costs beside finished groups; the baseline is an empty book."""
    rows: list[Row] = []
    alone = None
    for retained in (0, 4_096, most):
        cost = _arrival_us(retained)
        what = f"cost of one arrival with {retained:,} finished groups retained"
        rows.append(Row("P12", what, "us", cost, 50.0 if alone is None else min(50.0, 1.2 * alone), alone))
        alone = alone or cost
    return rows


def _arrival_us(retained: int) -> float:
    gc.disable()
    book = core.crowded(retained, 0)
    gc.enable()
    gc.collect()
    gc.freeze()
    numbers = iter(range(core.ROUNDS))
    try:
        return 1e6 * core.best(core.ROUNDS, lambda: core.whole_groups(book, 300, prefix=f"round-{next(numbers)}"))
    finally:
        gc.unfreeze()


def events() -> list[Row]:
    rows = []
    works = {
        "new members in groups of 16, judged": lambda: core.whole_groups(core.Book(core.Limits()), 500),
        "exact retries": lambda: core.exact_retries(500),
        "callers that leave": lambda: core.leaves(8_000),
    }
    for name, prepare in works.items():
        a_second = 1 / core.best(core.ROUNDS, prepare)
        rows.append(Row("P14", f"state machine alone: {name}", "1/s", a_second, 200_000, at_least=True))
    return rows
