"""Results as rows: a table for people, JSON for comparing two commits."""

from __future__ import annotations

import json
import mmap
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"


class Row(NamedTuple):
    """One figure. `target` is the most that it may be (of `at_least` rows, the least). `baseline`: what was measured
    beside it in the same run, None where there is nothing to measure against. `pace`: how many times longer the
    baseline's work takes here than on the machine that the target was set on; the target holds for that machine, and
    on a slower one by the ratio."""

    name: str
    what: str
    unit: str
    ours: float
    target: float
    baseline: float | None = None
    at_least: bool = False
    note: str = ""
    pace: float = 1.0

    @property
    def ratio(self) -> float | None:
        return self.ours / self.baseline if self.baseline else None

    @property
    def met(self) -> str:
        """`yes`, `pace` where only a slower machine's target is met, `NO`."""
        if self.at_least:
            return "yes" if self.ours >= self.target else "NO"
        if self.ours <= self.target:
            return "yes"
        return "pace" if self.ours <= self.target * self.pace else "NO"


def paced(here: float | None, there: float) -> float:
    """The pace of a machine that takes `here` for what takes `there` on the one that the targets were set on; of a
    range of figures, `there` is the one that leaves least."""
    return here / there if here else 1.0


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def line(row: Row) -> str:
    """One line of the table."""
    target = f"{'>=' if row.at_least else '<='} {_shown(row.target)}"
    cells = (
        f"{row.unit:>8}{_shown(row.ours):>11}{_shown(row.baseline):>11}{_shown(row.ratio):>8}{target:>12}{row.met:>5}"
    )
    note = f"at this machine's pace <= {_shown(row.target * row.pace)}" if row.met == "pace" else ""
    note = "; ".join(each for each in (note, row.note) if each)
    return f"{row.name:<5}{row.what:<62}{cells}  {note}".rstrip()


HEADER = f"{'':<5}{'workload':<62}{'unit':>8}{'ours':>11}{'baseline':>11}{'ratio':>8}{'target':>12}{'met':>5}"


def machine() -> dict[str, Any]:
    """What the figures were taken on, and what else went on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "cold_page_us": round(cold_page_us(), 2),
    }


def cold_page_us(pages: int = 1000, pause_s: float = 0.1) -> float:
    """Microseconds to read from a page of memory that nobody touched for so long. A tenth of one where the memory is
    the machine's own; several, and more the longer the pause, on virtual machines whose host takes such pages away:
    there all that comes seldom is slow, whatever it does (P13)."""
    took = []
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory, memoryview(memory) as whole, whole[:: mmap.PAGESIZE] as firsts:
        firsts[:] = bytes(pages)
        for _ in range(10):
            time.sleep(pause_s)
            began = time.perf_counter()
            firsts.tobytes()
            took.append(time.perf_counter() - began)
    return 1e6 * statistics.median(took) / pages


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
    figures = [{**row._asdict(), "ratio": row.ratio, "met": row.met} for row in rows]
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
