"""How far verdicts can be trusted (F4)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.model import Verdict
from groupjudge.scoring.limits import LARGEST
from groupjudge.scoring.measures import measured

from .slow_models import cycles_twin

FIRST, SECOND, TIE = (4.0, 2.0, 2.0), (2.0, 4.0, 5.0), (3.0, 3.0, 3.5)


def test_a_swap_that_turns_the_verdict_is_counted_among_the_pairs_that_were_swapped() -> None:
    """F4: (0, 1) went to whoever sat first, (0, 2) to 0 both times; (1, 2) was asked once."""
    verdicts = [Verdict(0, 1, 0, *FIRST), Verdict(1, 0, 0, *FIRST), Verdict(0, 2, 0, *FIRST), Verdict(2, 0, 0, *SECOND)]
    measures = measured([*verdicts, Verdict(1, 2, 0, *FIRST)], [3.0, 2.0, 1.0])
    assert measures.swap_flip_rate == 0.5


def test_each_judge_index_is_swapped_on_its_own_and_a_tie_turns_nothing() -> None:
    """F4."""
    assert measured([Verdict(0, 1, 0, *FIRST), Verdict(1, 0, 1, *FIRST)], [1.0, 2.0]).swap_flip_rate is None
    assert measured([Verdict(0, 1, 0, *FIRST), Verdict(1, 0, 0, *TIE)], [1.0, 2.0]).swap_flip_rate == 0.0


def test_position_bias_is_what_the_first_seat_scored_more() -> None:
    """F4: 2, 2 and -1 points more."""
    verdicts = [Verdict(0, 1, 0, *FIRST), Verdict(1, 2, 0, *FIRST), Verdict(2, 0, 0, 3.0, 4.0, 4.0)]
    assert measured(verdicts, [1.0, 2.0, 3.0]).position_bias == 1.0


def test_ties_are_verdicts_that_nobody_won() -> None:
    """F4: a ranking that decides between equal scores makes a winner (J14)."""
    verdicts = [Verdict(0, 1, 0, *TIE), Verdict(1, 2, 0, 3.0, 3.0, 3.0), Verdict(2, 0, 0, *FIRST)]
    assert measured(verdicts, [1.0, 2.0, 3.0]).ties == 1


def test_a_circle_of_three_is_a_cycle_and_a_line_is_none() -> None:
    """F4."""
    circle = [Verdict(0, 1, 0, *FIRST), Verdict(1, 2, 0, *FIRST), Verdict(2, 0, 0, *FIRST)]
    line = [*circle[:2], Verdict(2, 0, 0, *SECOND)]
    assert measured(circle, [1.0, 2.0, 3.0])[2:4] == (1, 1)
    assert measured(line, [1.0, 2.0, 3.0])[2:4] == (0, 1)
    assert measured(circle[:2], [1.0, 2.0, 3.0])[2:4] == (0, 0)


@given(st.integers(3, 7), st.randoms(use_true_random=False))
def test_cycles_are_those_that_looking_at_every_triple_finds(size: int, chance: random.Random) -> None:
    """F4: pairs may be judged several times, and one against the other."""
    pairs = [tuple(chance.sample(range(size), 2)) for _ in range(chance.randint(0, 3 * size))]
    verdicts = [Verdict(*pair, judge, *chance.choice([FIRST, SECOND, TIE])) for judge, pair in enumerate(pairs)]
    assert measured(verdicts, [0.0] * size)[2:4] == cycles_twin(size, verdicts)


@pytest.mark.parametrize(
    ("rewards", "flat", "spread"),
    [
        ([3.0, 3.0, 3.0], True, 0.0),
        ([3.0, 3.0 + 1e-12], True, 0.0),
        ([1.0, 5.0], False, 2.0),
        ([3.0], False, 0.0),
        ([], False, 0.0),
    ],
)
def test_a_group_whose_rewards_are_all_equal_is_flagged(rewards: list[float], flat: bool, spread: float) -> None:
    """F4: it teaches a trainer nothing. A group of one never does, and is no news."""
    measures = measured([], rewards)
    assert measures.is_flat is flat
    assert measures.spread == pytest.approx(spread, abs=1e-9)


def test_the_largest_numbers_have_finite_measures() -> None:
    """J19, F4."""
    measures = measured([Verdict(0, 1, 0, LARGEST, -LARGEST, 1.0)] * 3, [LARGEST, -LARGEST])
    assert measures.spread == LARGEST
    assert measures.position_bias == pytest.approx(2 * LARGEST)


def test_without_verdicts_there_is_nothing_to_measure() -> None:
    """F4, L9."""
    assert measured([], [3.0]) == (None, None, 0, 0, 0, 0, 0, 0, 0.0, False)
