import math
from collections.abc import Sequence
from itertools import combinations

import pytest

from groupjudge.model import Pair
from groupjudge.scoring import PairRules, planned_calls, planned_pairs
from groupjudge.scoring.pairs import SCHEDULES, circulant_steps


def test_circular_pairs_each_answer_with_the_next() -> None:
    """J1."""
    assert planned_pairs(4, "circular", 1) == [Pair(0, 1, 0), Pair(1, 2, 0), Pair(2, 3, 0), Pair(3, 0, 0)]


def test_circular_asks_for_two_answers_in_both_orders() -> None:
    """J1."""
    assert planned_pairs(2, "circular", 1) == [Pair(0, 1, 0), Pair(1, 0, 0)]


def test_all_pairs_lists_every_pair_once_the_lower_slot_first() -> None:
    """J1."""
    assert planned_pairs(3, "all_pairs", 1) == [Pair(0, 1, 0), Pair(0, 2, 0), Pair(1, 2, 0)]
    assert len(planned_pairs(16, "all_pairs", 1)) == 16 * 15 // 2


def test_pairs_are_ordered_by_judge_first() -> None:
    """J2."""
    assert planned_pairs(2, "circular", 2) == [Pair(0, 1, 0), Pair(1, 0, 0), Pair(0, 1, 1), Pair(1, 0, 1)]


@pytest.mark.parametrize("strategy", sorted(SCHEDULES))
@pytest.mark.parametrize("size", [0, 1])
def test_a_group_of_one_or_none_has_no_pairs(strategy: str, size: int) -> None:
    """L9: a single answer costs no judge call; without the guard circular would compare it with itself."""
    assert planned_pairs(size, strategy, 3) == []


def test_an_unknown_strategy_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no strategy 'pairs'; there are: adaptive, all_pairs, circulant, circular"):
        planned_pairs(1, "pairs", 1)


# -- circulant, both orders (F1)
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 16, 33])
@pytest.mark.parametrize("calls", [1, 2, 3, 7, 100])
def test_circulant_seats_each_answer_as_often_first_as_second_and_asks_nothing_twice(size: int, calls: int) -> None:
    """F1, L24: k calls an answer, as far as there are so many."""
    pairs = planned_pairs(size, "circulant", 1, calls_per_answer=calls)
    each = min(calls, size - 1)
    assert len(set(pairs)) == len(pairs) == size * each
    for slot in range(size):
        assert sum(1 for pair in pairs if pair.i == slot) == sum(1 for pair in pairs if pair.j == slot) == each


def test_circulant_with_one_call_an_answer_is_circular() -> None:
    """F1, J1."""
    assert planned_pairs(9, "circulant", 1, calls_per_answer=1) == planned_pairs(9, "circular", 1)


def test_circulant_asks_for_swapped_pairs_only_once_all_others_are_asked_for() -> None:
    """F1: another pair tells more than the same one again."""
    for size in range(3, 20):
        met = [frozenset(pair[:2]) for pair in planned_pairs(size, "circulant", 1, calls_per_answer=(size - 1) // 2)]
        assert len(set(met)) == len(met)


@pytest.mark.parametrize("size", [5, 8, 12, 16, 24, 32])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_circulant_pairs_are_nearly_as_well_connected_as_any_circulants(size: int, count: int) -> None:
    """F1: beside every other choice of steps, by the mean resistance between two answers; all of it from the
    eigenvalues of a circulant graph."""
    choices = list(combinations(range(1, (size - 1) // 2 + 1), count))
    if choices:
        best = min(_resistance(size, steps) for steps in choices)
        assert _resistance(size, circulant_steps(size, count)) < 1.05 * best


def _resistance(size: int, steps: Sequence[int]) -> float:
    """Of the graph with the edges (i, i + s); infinite where it is not connected."""
    waves = [sum(2 - 2 * math.cos(2 * math.pi * f * s / size) for s in steps) for f in range(1, size)]
    return math.inf if min(waves) < 1e-9 else sum(1 / wave for wave in waves)


def test_both_orders_adds_the_swapped_pairs_behind_the_others() -> None:
    """F1, J2."""
    pairs = planned_pairs(3, "all_pairs", 2, both_orders=True)
    order = [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)]
    assert pairs == [Pair(i, j, judge) for judge in (0, 1) for i, j in order]


@pytest.mark.parametrize("strategy", sorted(SCHEDULES))
def test_both_orders_asks_for_no_pair_twice(strategy: str) -> None:
    """F1, L24: two answers in a circle meet in both orders already."""
    for size in (2, 3, 4):
        pairs = planned_pairs(size, strategy, 1, calls_per_answer=3, both_orders=True)
        assert len(set(pairs)) == len(pairs)
        assert {(j, i) for i, j, _ in pairs} == {(i, j) for i, j, _ in pairs}


@pytest.mark.parametrize(
    ("rules", "calls"),
    [
        (PairRules(), 16),
        (PairRules(judges_per_pair=3, both_orders=True), 96),
        (PairRules("circulant", calls_per_answer=5), 80),
        (PairRules("all_pairs"), 120),
        (PairRules("adaptive"), 48),
        (PairRules("adaptive", budget_calls=40), 40),
        (PairRules("adaptive", budget_calls=41, both_orders=True), 40),
        (PairRules("adaptive", budget_calls=3), 16),
        (PairRules("adaptive", budget_calls=10_000, judges_per_pair=2), 480),
    ],
)
def test_the_calls_of_a_group_are_known_beforehand(rules: PairRules, calls: int) -> None:
    """F1, F6: what is saved is counted against it."""
    assert planned_calls(16, rules) == calls
    assert planned_calls(1, rules) == planned_calls(0, rules) == 0
