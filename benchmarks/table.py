"""Results as rows: a table for people, JSON for comparing two commits."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"


class Row(NamedTuple):
    """One figure. `target` is the most that it may be (of `at_least` rows, the least). `baseline`: what was measured
    beside it in the same run, None where there is nothing to measure against."""

    name: str
    what: str
    unit: str
    ours: float
    target: float
    baseline: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.baseline if self.baseline else None

    @property
    def is_met(self) -> bool:
        return self.ours >= self.target if self.at_least else self.ours <= self.target


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def line(row: Row) -> str:
    """One line of the table."""
    target = f"{'>=' if row.at_least else '<='} {_shown(row.target)}"
    met = "yes" if row.is_met else "NO"
    cells = f"{row.unit:>8}{_shown(row.ours):>11}{_shown(row.baseline):>11}{_shown(row.ratio):>8}{target:>12}{met:>5}"
    return f"{row.name:<5}{row.what:<62}{cells}  {row.note}".rstrip()


HEADER = f"{'':<5}{'workload':<62}{'unit':>8}{'ours':>11}{'baseline':>11}{'ratio':>8}{'target':>12}{'met':>5}"


def machine() -> dict[str, Any]:
    """What the figures were taken on, and what else went on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def save(rows: list[Row], before: dict[str, Any]) -> Path:
    """Write a run down; returns where."""
    RESULTS.mkdir(exist_ok=True)
    commit = _commit()
    file = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}-{commit}.json"
    figures = [{**row._asdict(), "ratio": row.ratio, "met": row.is_met} for row in rows]
    whole = {"commit": commit, "before": before, "after": machine(), "rows": figures}
    file.write_text(json.dumps(whole, indent=1) + "\n")
    return file


def compared(first: Path, second: Path) -> str:
    """Two runs side by side. Where both have a baseline its ratios are compared: machines and their load differ."""
    old, new = (json.loads(file.read_text()) for file in (first, second))
    before = {(row["name"], row["what"]): row for row in old["rows"]}
    lines = [f"{'':<5}{'workload':<62}{old['commit'][:14]:>15}{new['commit'][:14]:>15}{'change':>9}"]
    for row in new["rows"]:
        if (was := before.get((row["name"], row["what"]))) is None:
            continue
        by = "ratio" if row["ratio"] and was["ratio"] else "ours"
        change = row[by] / was[by] - 1 if was[by] else 0.0
        values = f"{_shown(was[by]):>15}{_shown(row[by]):>15}{change:>+9.0%}"
        lines.append(f"{row['name']:<5}{row['what']:<62}{values}  {'to baseline' if by == 'ratio' else row['unit']}")
    return "\n".join(lines)
