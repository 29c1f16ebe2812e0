"""How near the truth rewards come for a number of judge calls (F3): simulated judges of known qualities.

A trial draws 16 qualities (standard normal), lets a judge compare pairs as a schedule plans them, and looks at the
rewards that an aggregator makes of it: Spearman's correlation with the qualities, and whether the best answer has the
highest one. The first three judges are those that the targets were set with, and their formulas are not ours to change;
the others differ in kind, so that nothing is tuned to the first three.

    python -m benchmarks.fidelity [--trials 400] [--judge NAME] [--size 16]     # every schedule and aggregator
    python -m benchmarks --only F3                                              # the targets, and the plain way beside
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from benchmarks.table import Row
from groupjudge.model import Verdict
from groupjudge.scoring import ListRules, PairRules, ScoringRules, first_pairs, next_pairs, pairs_of, planned_lists
from groupjudge.scoring.aggregators import AGGREGATORS

SIZE = 16
Judge = Callable[[random.Random, float, float], tuple[float, float, float]]
"""Chance and two qualities -> the three numbers of a verdict."""


def _clipped(value: float, low: int, high: int) -> float:
    return float(min(max(round(value), low), high))


def usual(bias: float, noise: float, leniency: float) -> Judge:
    """A judge that scores 1 to 5, is biased towards the first seat, and more lenient in one call than in another."""

    def judge(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
        ahead, shift = a - b, rng.gauss(0, leniency)
        first = 3 + shift + 0.9 * a + 0.35 * ahead + bias / 2 + rng.gauss(0, noise)
        second = 3 + shift + 0.9 * b - 0.35 * ahead - bias / 2 + rng.gauss(0, noise)
        ranking = 3.5 - (ahead + bias / 2 + rng.gauss(0, noise)) * 1.1
        return _clipped(first, 1, 5), _clipped(second, 1, 5), _clipped(ranking, 1, 6)

    return judge


def _hundred(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """Scores 0 to 100 without contrast or leniency; rankings of one of two kinds only."""
    first, second = (60 + 12 * quality + rng.gauss(0, 15) for quality in (a, b))
    return _clipped(first, 0, 100), _clipped(second, 0, 100), 2.0 if a - b + rng.gauss(0, 1) > 0 else 5.0


def _half_ties(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """Half of the time both answers get one score, and the ranking is the middle or one step off."""
    first, second, ranking = usual(0.3, 0.8, 0.5)(rng, a, b)
    if rng.random() < 0.5:
        level = _clipped((first + second) / 2, 1, 5)
        return level, level, 3.0 if a - b + rng.gauss(0, 1) > 0 else 4.0
    return first, second, ranking


def _no_ranking(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """The ranking is missing, so that the default stands in."""
    first, second, _ = usual(0.3, 1.0, 0.5)(rng, a, b)
    return first, second, 3.5


def _wild_ranking(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """The ranking says nothing."""
    first, second, _ = usual(0.3, 0.8, 0.5)(rng, a, b)
    return first, second, float(rng.randint(1, 6))


def _long_tails(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """One verdict in seven has the answers mixed up."""
    return usual(0.3, 0.6, 0.5)(rng, *((b, a) if rng.random() < 1 / 7 else (a, b)))


def _chance(rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
    """Knows nothing."""
    return float(rng.randint(1, 5)), float(rng.randint(1, 5)), float(rng.randint(1, 6))


class Length:
    """Follows length: answers have a length that has nothing to do with their quality, and the judge goes half by
    it."""

    def __init__(self) -> None:
        self._of: dict[float, float] = {}

    def __call__(self, rng: random.Random, a: float, b: float) -> tuple[float, float, float]:
        lengths = [self._of.setdefault(quality, rng.gauss(0, 1)) for quality in (a, b)]
        seen = [0.7 * quality + 0.7 * length for quality, length in zip((a, b), lengths, strict=True)]
        return usual(0.3, 0.8, 0.5)(rng, *seen)


GIVEN: dict[str, Callable[[], Judge]] = {
    "fair, quiet": lambda: usual(0.0, 0.6, 0.5),
    "biased": lambda: usual(0.6, 0.6, 0.5),
    "biased, noisy": lambda: usual(0.6, 1.0, 0.8),
}
OTHERS: dict[str, Callable[[], Judge]] = {
    "very noisy": lambda: usual(0.3, 2.0, 0.3),
    "moody": lambda: usual(0.3, 0.8, 2.0),
    "scores to 100": lambda: _hundred,
    "ties half the time": lambda: _half_ties,
    "no ranking": lambda: _no_ranking,
    "wild ranking": lambda: _wild_ranking,
    "mixes up": lambda: _long_tails,
    "follows length": Length,
    "random": lambda: _chance,
}
JUDGES = GIVEN | OTHERS


@dataclass(frozen=True, slots=True)
class Way:
    """A schedule and an aggregator."""

    shown: str
    pairs: PairRules
    aggregator: str


class Measured(NamedTuple):
    """Calls of a group, mean Spearman correlation, share of trials in which the best answer was found."""

    calls: int
    spearman: float
    best: float


def measure(way: Way, judge: Judge, size: int, trials: int, seed: int = 0) -> Measured:
    """So many groups, from one seed."""
    rng, aggregate, rules = random.Random(seed), AGGREGATORS[way.aggregator], ScoringRules()
    correlations, found, calls = [], [], 0
    for _ in range(trials):
        truth = [rng.gauss(0, 1) for _ in range(size)]
        verdicts: list[Verdict] = []
        pairs = first_pairs(size, way.pairs)
        while pairs:
            verdicts += [Verdict(*pair, *judge(rng, truth[pair.i], truth[pair.j])) for pair in pairs]
            pairs = next_pairs(size, way.pairs, verdicts)
        scores = aggregate(size, verdicts, rules).scores
        correlations.append(spearman(scores, truth))
        found.append(scores.index(max(scores)) == truth.index(max(truth)))
        calls = len(verdicts)
    return Measured(calls, fmean(correlations), fmean(found))


def spearman(a: list[float], b: list[float]) -> float:
    """The rank correlation, equal values sharing their mean rank; 0 where one side is all equal."""
    ranks = [_ranks(values) for values in (a, b)]
    middle = (len(a) + 1) / 2
    left, right = ([rank - middle for rank in own] for own in ranks)
    size = sum(x * x for x in left) * sum(y * y for y in right)
    return sum(x * y for x, y in zip(left, right, strict=True)) / size**0.5 if size else 0.0


def _ranks(values: list[float]) -> list[float]:
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def circulant(calls: int) -> PairRules:
    return PairRules("circulant", calls_per_answer=calls)


def adaptive(budget: int) -> PairRules:
    return PairRules("adaptive", budget_calls=budget)


def measure_lists(rules: ListRules, aggregator: str, size: int, trials: int, seed: int = 0) -> Measured:
    """The same for a judge of lists: biased towards the first places and noisy, more lenient in one call than in
    another, and with contrast to the rest of the list, each as much as "biased, noisy" has it between two answers."""
    rng, aggregate = random.Random(seed), AGGREGATORS[aggregator]
    correlations, found, calls = [], [], 0
    for trial in range(trials):
        truth = [rng.gauss(0, 1) for _ in range(size)]
        lists = planned_lists(range(size), rules, trial.to_bytes(8, "big"))
        verdicts: list[Verdict] = []
        for listing in lists:
            scores = dict(zip(listing.slots, _list_scores(rng, [truth[slot] for slot in listing.slots]), strict=True))
            verdicts += [Verdict(*pair, scores[pair.i], scores[pair.j], 3.5) for pair in pairs_of(listing)]
        rewards = aggregate(size, verdicts, ScoringRules()).scores
        correlations.append(spearman(rewards, truth))
        found.append(rewards.index(max(rewards)) == truth.index(max(truth)))
        calls = len(lists)
    return Measured(calls, fmean(correlations), fmean(found))


def _list_scores(rng: random.Random, shown: list[float]) -> list[float]:
    mood, usual_one, last = rng.gauss(0, 0.8), fmean(shown), len(shown) - 1
    seats = (0.3 - 0.6 * place / last for place in range(len(shown)))
    return [
        _clipped(3 + mood + 0.9 * quality + 0.35 * (quality - usual_one) + seat + rng.gauss(0, 1.0), 1, 5)
        for quality, seat in zip(shown, seats, strict=True)
    ]


PLAIN = "simple_tiebreaker"
TARGETS = (
    (Way("circular, least squares", PairRules(), "least_squares"), circulant(1), 0.80, 0.48),
    (Way("circulant of 2, least squares", circulant(2), "least_squares"), circulant(2), 0.89, 0.62),
    (Way("circulant of 3, least squares", circulant(3), "least_squares"), circulant(3), 0.93, 0.69),
    (Way("circulant of 7, least squares", circulant(7), "least_squares"), circulant(7), 0.96, 0.80),
    (Way("all pairs, least squares", PairRules("all_pairs"), "least_squares"), PairRules("all_pairs"), 0.96, 0.80),
)


def targets(trials: int = 1000) -> list[Row]:
    """F3 with its judge, and at equal calls the plain way as the baseline; then the other judges: by how much the model
    is better there."""
    rows = []
    judge = GIVEN["biased, noisy"]()
    for way, beside, correlation, best in TARGETS:
        ours = measure(way, judge, SIZE, trials)
        plain = measure(Way("", beside, PLAIN), judge, SIZE, trials)
        what = f"{ours.calls} calls, {way.shown}: "
        for shown, value, least, base in (
            ("Spearman", ours.spearman, correlation, plain.spearman),
            ("best found", ours.best, best, plain.best),
        ):
            # The targets have two decimals: what rounds to one reaches it.
            rows.append(Row("F3", what + shown, "", value, least - 0.005, base, at_least=True))
    for repetitions in (1, 3):
        lists = measure_lists(ListRules(repetitions=repetitions), "least_squares", SIZE, trials)
        mean = measure_lists(ListRules(repetitions=repetitions), PLAIN, SIZE, trials)
        what = f"{lists.calls} calls for lists of 8, least squares"
        rows.append(
            Row("F3", what + ": Spearman", "", lists.spearman, mean.spearman - 0.01, mean.spearman, at_least=True)
        )
    for name, make in JUDGES.items():
        if name not in ("biased, noisy", "random"):
            for way, beside, *_ in TARGETS:
                # So many that chance is well below the 0.01, where the two are nearest: with few calls.
                enough = 2 * trials if beside == circulant(1) else trials // 4
                ours, plain = (measure(each, make(), SIZE, enough) for each in (way, Way("", beside, PLAIN)))
                what = f"judge: {name}; {ours.calls} calls, {way.shown}"
                target = plain.spearman - 0.01
                rows.append(Row("F3", what, "", ours.spearman, target, plain.spearman, at_least=True))
    return rows


def ways(size: int) -> Iterator[Way]:
    """Every schedule of some sizes with every aggregator."""
    schedules = {"circular": PairRules()} | {f"circulant {k}": circulant(k) for k in (2, 3, 4)}
    schedules |= {f"adaptive {k} N": adaptive(k * size) for k in (2, 3, 4)}
    schedules |= {"circular, both orders": PairRules(both_orders=True), "all pairs": PairRules("all_pairs")}
    schedules["adaptive, as all pairs"] = adaptive(size * (size - 1) // 2)
    for shown, rules in schedules.items():
        for aggregator in AGGREGATORS:
            yield Way(shown, rules, aggregator)


def main() -> None:
    """Print the whole table."""
    parser = argparse.ArgumentParser(description="Fidelity of every schedule and aggregator, with simulated judges.")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--judge", choices=JUDGES, action="append", help="only this one; may be given again")
    options = parser.parse_args()
    for name in options.judge or JUDGES:
        print(f"\njudge: {name}\n{'schedule':24s}{'aggregator':20s}{'calls':>6s}{'Spearman':>10s}{'best':>6s}")
        for way in ways(options.size):
            found = measure(way, JUDGES[name](), options.size, options.trials)
            print(
                f"{way.shown:24s}{way.aggregator:20s}{found.calls:6d}{found.spearman:10.3f}{found.best:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
