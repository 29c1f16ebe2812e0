"""How often jurors prefer different answers (F10)."""

from __future__ import annotations

from random import Random

from groupjudge.model import Verdict
from groupjudge.scoring.disagreement import Compared, disagreement

FIRST, SECOND, TIE = (4.0, 2.0, 2.0), (2.0, 4.0, 5.0), (3.0, 3.0, 3.5)


def verdict(i: int, j: int, judge: int, said: tuple[float, float, float]) -> Verdict:
    return Verdict(i, j, judge, *said)


def test_verdicts_on_the_same_seats_are_compared_two_by_two() -> None:
    """F10: three jurors on one pair are three comparisons, two of them with the odd one out."""
    said = [verdict(0, 1, 0, FIRST), verdict(0, 1, 1, FIRST), verdict(0, 1, 2, SECOND)]
    over_all, each = disagreement(said, 3)
    assert over_all == Compared(3, 2)
    assert [one.share for one in each] == [0.5, 0.5, 1.0]


def test_a_tie_is_another_opinion_than_a_win_and_the_ranking_decides_between_equal_scores() -> None:
    """F10, J14."""
    tie_by_ranking = (3.0, 3.0, 1.0)
    assert disagreement([verdict(0, 1, 0, TIE), verdict(0, 1, 1, FIRST)], 2)[0].share == 1.0
    assert disagreement([verdict(0, 1, 0, tie_by_ranking), verdict(0, 1, 1, FIRST)], 2)[0].share == 0.0


def test_a_juror_is_not_compared_with_itself_nor_a_pair_with_its_swap() -> None:
    """F10: how steady a juror is, and position bias, are other measures."""
    said = [verdict(0, 1, 0, FIRST), verdict(0, 1, 2, SECOND), verdict(1, 0, 1, FIRST)]
    over_all, each = disagreement(said, 2)
    assert (over_all.share, [one.share for one in each]) == (None, [None, None])


def test_it_hangs_on_no_order() -> None:
    """J20."""
    random = Random(1)
    said = [verdict(i, (i + 1) % 5, judge, random.choice([FIRST, SECOND, TIE])) for judge in range(6) for i in range(5)]
    expected = disagreement(said, 3)
    for _ in range(5):
        random.shuffle(said)
        assert disagreement(said, 3) == expected
