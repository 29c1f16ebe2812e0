import pytest

from groupjudge.model import Pair
from groupjudge.scoring import planned_pairs
from groupjudge.scoring.pairs import SCHEDULES


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
    with pytest.raises(ValueError, match="no strategy 'pairs'; there are: all_pairs, circular"):
        planned_pairs(1, "pairs", 1)
