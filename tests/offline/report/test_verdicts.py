"""What verdicts say about the judge."""

from __future__ import annotations

import pytest

from groupjudge.offline.report.verdicts import Said, Seats, at_odds, plain_errors, said

FIRST, SECOND = Said(0, 1, 4, 2, 2), Said(0, 1, 2, 4, 5)
TIE_BREAK_FIRST, TIE_BREAK_SECOND, TIE = Said(0, 1, 3, 3, 2), Said(0, 1, 3, 3, 6), Said(0, 1, 3, 3, 3.5)


def back(verdict: Said, lead: float) -> Said:
    """A verdict on the same pair with the seats changed, that gives its first seat `lead`."""
    return Said(verdict.j, verdict.i, 3 + lead / 2, 3 - lead / 2, 3.5)


def seats(*verdicts: Said | None) -> Seats:
    found = Seats()
    found.add(verdicts)
    return found


def test_the_winner_is_the_higher_score_and_between_level_ones_the_ranking() -> None:
    """F4, J14: a low ranking prefers the first seat."""
    found = seats(FIRST, FIRST, SECOND, TIE_BREAK_FIRST, TIE_BREAK_SECOND, TIE, None)
    assert (found.first, found.second, found.by_ranking, found.ties, found.defaults) == (3, 2, 2, 1, 1)
    assert found.all == 7


@pytest.mark.parametrize(
    ("there", "lead_back", "expected"),
    [
        (FIRST, -1, (1, 0, 0)),
        (SECOND, 1, (1, 0, 0)),
        (FIRST, 1, (0, 1, 0)),
        (SECOND, -1, (0, 1, 0)),
        (FIRST, 0, (0, 0, 1)),
        (TIE, 1, (0, 0, 1)),
        (TIE, 0, (1, 0, 0)),
    ],
)
def test_both_orders_of_a_pair_agree_or_not(there: Said, lead_back: float, expected: tuple[int, int, int]) -> None:
    """F4: with both orders: whether a swap of the seats turns the verdict."""
    found = seats(there, back(there, lead_back))
    assert (found.same, found.other, found.unsure) == expected


def test_pairs_in_one_order_say_nothing_about_the_other() -> None:
    """F4: neither do defaults, nor another group's pair."""
    found = seats(FIRST, FIRST, Said(1, 2, 4, 2, 1), None)
    found.add([back(FIRST, 1)])
    assert found.both_orders == 0


def test_several_judges_of_a_pair_are_one_opinion() -> None:
    """F4: what they gave is added up for each order."""
    found = seats(FIRST, FIRST, SECOND, back(FIRST, -1))
    assert (found.both_orders, found.same) == (1, 1)


def test_the_interval_of_the_first_seat() -> None:
    """Wilson's interval for 60 of 100 is known to be 0.502 to 0.691."""
    found = seats(*[FIRST] * 60, *[SECOND] * 40, TIE, None)
    assert found.first_share() == pytest.approx((0.6, 0.5020, 0.6906), abs=1e-4)
    assert Seats().first_share() == (0.5, 0.0, 1.0)


def test_verdicts_at_odds_with_rewards() -> None:
    """F4: the share of decided verdicts whose winner came out lower; equal rewards contradict nobody."""
    assert at_odds([FIRST, FIRST, SECOND, TIE, None], [2.0, 1.0]) == pytest.approx(1 / 3)
    assert at_odds([FIRST, SECOND], [1.0, 1.0]) == 0
    assert at_odds([], [1.0]) == 0


def test_standard_errors_of_what_verdicts_gave() -> None:
    """F4: the sample deviation of 1, 2, 3 is 1, so its error is 1/sqrt(3); of two nothing is said."""
    verdicts = [Said(0, 1, score, 5, 1) for score in (1, 2, 3)]
    assert plain_errors(verdicts, 2) == pytest.approx([3**-0.5, 0.0])
    assert plain_errors([*verdicts[:2], None], 2) == [None, None]
    assert plain_errors([TIE_BREAK_FIRST] * 3, 2) == [0.0, 0.0]


def test_default_scores_are_told_from_verdicts() -> None:
    """J13: only in a group that says so, what equals the defaults is none."""
    verdicts = [{"i": 0, "j": 1, "judge": 0, "score_1": s, "score_2": 3.0, "ranking": 3.5} for s in (3.0, 4.0)]
    assert list(said({"verdicts": verdicts, "failure_kind": "x"}, (3.0, 3.5))) == [None, Said(0, 1, 4.0, 3.0, 3.5)]
    assert None not in list(said({"verdicts": verdicts}, (3.0, 3.5)))
    assert None not in list(said({"verdicts": verdicts, "failure_kind": "x"}, (2.0, 3.5)))
