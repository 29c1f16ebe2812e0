"""Rounds within a budget (F1)."""

from __future__ import annotations

import math
import random
from collections import Counter
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupjudge.model import Pair, Verdict
from groupjudge.scoring import PairRules, first_pairs, next_pairs, planned_calls
from groupjudge.scoring.adaptive import ROUNDS
from groupjudge.scoring.least_squares import fit

Rounds = list[list[Pair]]


def played(size: int, rules: PairRules, chance: random.Random) -> tuple[Rounds, list[Verdict]]:
    """All rounds of a group, with a noisy judge of qualities 0, 1, 2, ... in units of half a point."""
    rounds: Rounds = []
    verdicts: list[Verdict] = []
    pairs = first_pairs(size, rules)
    while pairs:
        rounds.append(pairs)
        for i, j, judge in pairs:
            first, second = (slot / 2 + chance.gauss(0, 1) for slot in (i, j))
            verdicts.append(Verdict(i, j, judge, first, second, 3.5 - (first - second)))
        pairs = next_pairs(size, rules, verdicts)
    return rounds, verdicts


rules = st.builds(
    PairRules,
    strategy=st.just("adaptive"),
    judges_per_pair=st.integers(1, 2),
    calls_per_answer=st.integers(1, 6),
    both_orders=st.booleans(),
    budget_calls=st.none() | st.integers(1, 80),
    seed=st.integers(0, 2**64 - 1),
)


@settings(max_examples=40)
@given(st.integers(2, 9), rules, st.integers(0, 10_000))
def test_rounds_ask_for_no_pair_twice_and_stay_within_the_budget(size: int, rules: PairRules, seed: int) -> None:
    """F1, L24."""
    rounds, verdicts = played(size, rules, random.Random(seed))
    asked = [pair for pairs in rounds for pair in pairs]
    assert len(set(asked)) == len(asked) == len(verdicts) <= planned_calls(size, rules)
    assert all(0 <= i < size and 0 <= j < size and i != j for i, j, _ in asked)
    # Each pair of each round is asked of every judge, and in both orders where that is wanted.
    assert Counter(judge for *_, judge in asked) == dict.fromkeys(
        range(rules.judges_per_pair), len(asked) // rules.judges_per_pair
    )
    if rules.both_orders:
        assert {(j, i, judge) for i, j, judge in asked} == set(asked)


def test_the_budget_is_used_up_in_few_rounds() -> None:
    """F1: a round waits for its slowest call."""
    for budget in (20, 32, 48, 120):
        rounds, verdicts = played(16, PairRules("adaptive", budget_calls=budget), random.Random(1))
        assert len(verdicts) == budget
        assert len(rounds) <= ROUNDS + 1


def test_everybody_is_judged_in_both_seats_before_anything_is_decided() -> None:
    """F1."""
    assert first_pairs(7, PairRules("adaptive")) == first_pairs(7, PairRules("circular"))


def test_the_same_verdicts_and_seed_give_the_same_pairs_and_another_seed_another_order() -> None:
    """F1: the order within a round is fixed by the seed."""
    verdicts = [Verdict(*pair, 3.0, 3.0, 3.5) for pair in first_pairs(8, PairRules("adaptive"))]
    by_seed = {seed: next_pairs(8, PairRules("adaptive", seed=seed), verdicts) for seed in range(6)}
    assert by_seed == {seed: next_pairs(8, PairRules("adaptive", seed=seed), verdicts) for seed in range(6)}
    assert len({tuple(pairs) for pairs in by_seed.values()}) > 1


def test_other_strategies_have_no_further_rounds() -> None:
    """F1, J1."""
    verdicts = [Verdict(0, 1, 0, 3.0, 3.0, 3.5)]
    for strategy in ("circular", "all_pairs", "circulant"):
        assert next_pairs(4, PairRules(strategy), verdicts) == []
    assert next_pairs(1, PairRules("adaptive"), []) == []


@settings(max_examples=40)
@given(st.integers(4, 8), st.integers(0, 10_000))
def test_the_pair_that_is_asked_for_first_is_the_one_whose_order_is_most_open(size: int, seed: int) -> None:
    """F1: a slow twin looks at every pair; with one call left there is one choice."""
    _, verdicts = played(size, PairRules("adaptive", budget_calls=2 * size), random.Random(seed))
    rules = PairRules("adaptive", budget_calls=len(verdicts) + 1)
    (chosen,) = next_pairs(size, rules, verdicts)
    model = fit(size, verdicts)
    normal, gains = NormalDist(), {}
    for low in range(size):
        for high in range(low + 1, size):
            variance = sum(model.variance / model.form.diagonal()[slot] for slot in (low, high))
            gap = abs(model.qualities[low] - model.qualities[high])
            before = sum(1 for v in verdicts if {v.i, v.j} == {low, high})
            if before < 2:
                gains[low, high] = variance * normal.cdf(-gap / math.sqrt(variance)) / (1 + before)
    best = max(gains.values())
    assert gains[min(chosen[:2]), max(chosen[:2])] == pytest.approx(best)


def test_calls_go_where_answers_are_close_to_each_other() -> None:
    """F1: with qualities 0, 1/2, 1, ... neighbours are asked for more often than the far ends."""
    apart = Counter[int]()
    for seed in range(20):
        rounds, _ = played(12, PairRules("adaptive", budget_calls=48), random.Random(seed))
        apart.update(abs(i - j) for pairs in rounds[1:] for i, j, _ in pairs)
    near = sum(apart[distance] for distance in (1, 2, 3)) / sum(12 - distance for distance in (1, 2, 3))
    far = sum(apart[distance] for distance in (8, 9, 10, 11)) / sum(12 - distance for distance in (8, 9, 10, 11))
    assert near > 3 * far


def test_seats_are_shared_evenly() -> None:
    """F1: who sat more in the first seat sits in the second now."""
    for seed in range(10):
        rounds, _ = played(10, PairRules("adaptive", budget_calls=60), random.Random(seed))
        firsts = Counter(pair.i for pairs in rounds for pair in pairs)
        seconds = Counter(pair.j for pairs in rounds for pair in pairs)
        assert max(abs(firsts[slot] - seconds[slot]) for slot in range(10)) <= 3


def test_a_large_groups_round_looks_at_neighbours_only() -> None:
    """F1, H11: 300 answers have 44,850 pairs."""
    rules = PairRules("adaptive", budget_calls=450)
    rounds, verdicts = played(300, rules, random.Random(2))
    assert len(verdicts) == 450
    assert len({pair for pairs in rounds for pair in pairs}) == 450
