"""How often the embedded judge prefers the better of two plainly different answers, whether its seat matters, and what
a verdict takes.

    python -m benchmarks.embedded_judge [--split held-out|tuning|both] [--model FILE.gguf] [--show]

The pairs lie beside this file: 20 that the prompts and numbers of the embedded judge were chosen on, and 30 that
nothing was chosen on. Every pair is judged in both orders. `better wins`: the score of the good answer is the higher
one; `second seat`: how often the answer in the second seat got the higher score (0.50: no bias).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groupjudge.judging.local import LOADING, LocalJudge, LocalJudgeOptions
from groupjudge.judging.reading import ReadingRules
from groupjudge.model import AnswerTexts, Message, Pair, Reading, Topic

PAIRS = Path(__file__).with_name("embedded_judge_pairs.jsonl")
ORDERS = (Pair(0, 1, 0), Pair(1, 0, 0))


class Judged(NamedTuple):
    """A pair in both orders: what the good and the bad answer got, and the seconds both verdicts took."""

    kind: str
    good: tuple[float, float]
    bad: tuple[float, float]
    seconds: float

    @property
    def wins(self) -> Iterator[float]:
        return ((g > b) + (g == b) / 2 for g, b in zip(self.good, self.bad, strict=True))

    @property
    def second_seat(self) -> Iterator[float]:
        (g1, g2), (b1, b2) = self.good, self.bad
        yield (b1 > g1) + (b1 == g1) / 2
        yield (g2 > b2) + (g2 == b2) / 2


async def load(judge: LocalJudge) -> float:
    """Seconds until the judge can be asked."""
    started = time.monotonic()
    while (why := await judge.reachable()) == LOADING:  # noqa: ASYNC110 -- a judge tells nobody when it is ready
        await asyncio.sleep(0.05)
    if why:
        raise SystemExit(why)
    return time.monotonic() - started


async def judged(judge: LocalJudge, pair: dict[str, Any]) -> Judged:
    """One pair in both orders, each as a group of its own: no verdict profits from the other."""
    topic = Topic((Message("user", pair["question"]),))
    texts = [AnswerTexts(pair["good"], ""), AnswerTexts(pair["bad"], "")]
    started = time.monotonic()
    readings: list[Reading | None] = []
    for order in ORDERS:
        readings.append((await judge.compare(judge.prepare(topic, texts), order)).reading)
    first, second = (reading or Reading(0.0, 0.0, 3.5) for reading in readings)
    seconds = time.monotonic() - started
    return Judged(pair["kind"], (first.score_1, second.score_2), (first.score_2, second.score_1), seconds)


def report(split: str, rows: Sequence[Judged]) -> str:
    """The figures of one split in one line."""
    goods, bads = ([score for row in rows for score in getattr(row, side)] for side in ("good", "bad"))
    wins = [win for row in rows for win in row.wins]
    seats = [seat for row in rows for seat in row.second_seat]
    return (
        f"{split:9} pairs {len(rows)}  better wins {statistics.mean(wins):.2f}  "
        f"second seat {statistics.mean(seats):.2f}  mean score good {statistics.mean(goods):.2f} "
        f"bad {statistics.mean(bads):.2f}  {statistics.mean(row.seconds for row in rows) / 2:.2f} s a verdict"
    )


async def run(splits: Sequence[str], model: str | None, show: bool) -> None:
    """Judge the pairs and print the table."""
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    async with LocalJudge(LocalJudgeOptions(model=model), ReadingRules()) as judge:
        print(f"loaded in {await load(judge):.1f} s", flush=True)
        for split in splits:
            rows = [await judged(judge, pair) for pair in pairs if pair["split"] == split]
            print(report(split, rows), flush=True)
            for row in rows if show else ():
                print(
                    f"  {row.kind:18} good {row.good[0]:.2f} {row.good[1]:.2f}  bad {row.bad[0]:.2f} {row.bad[1]:.2f}"
                )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"the judge's process took {spent.ru_utime + spent.ru_stime:.0f} s of CPU and {spent.ru_maxrss >> 10} MiB")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Measure the embedded judge on plain pairs.")
    parser.add_argument("--split", choices=("held-out", "tuning", "both"), default="held-out")
    parser.add_argument("--model", help="a GGUF file instead of the model of the extra")
    parser.add_argument("--show", action="store_true", help="print every pair")
    arguments = parser.parse_args()
    splits = ("tuning", "held-out") if arguments.split == "both" else (arguments.split,)
    asyncio.run(run(splits, arguments.model, arguments.show))


if __name__ == "__main__":
    main()
