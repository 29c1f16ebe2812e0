from groupjudge.model import Verdict
from groupjudge.scoring import ScoringRules
from groupjudge.scoring.aggregators import AGGREGATORS, simple_tiebreaker


def test_a_member_has_the_mean_of_what_it_scored_in_either_seat() -> None:
    """J14."""
    verdicts = [Verdict(0, 1, 0, 4.0, 2.0, 1.0), Verdict(1, 0, 0, 3.0, 5.0, 6.0)]
    assert simple_tiebreaker(2, verdicts, ScoringRules()) == [4.5, 2.5]


def test_the_ranking_decides_between_equal_scores_and_only_there() -> None:
    """J14: 3 and 3 with ranking 1 are 5.5 and 0.5; 4 and 3 with ranking 6 stay as they are."""
    assert simple_tiebreaker(2, [Verdict(0, 1, 0, 3.0, 3.0, 1.0)], ScoringRules()) == [5.5, 0.5]
    assert simple_tiebreaker(2, [Verdict(0, 1, 0, 3.0, 3.0, 6.0)], ScoringRules()) == [0.5, 5.5]
    assert simple_tiebreaker(2, [Verdict(0, 1, 0, 4.0, 3.0, 6.0)], ScoringRules()) == [4.0, 3.0]


def test_a_member_without_a_verdict_has_the_default_score() -> None:
    """J14."""
    verdicts = [Verdict(0, 2, 0, 4.0, 2.0, 1.0)]
    assert simple_tiebreaker(3, verdicts, ScoringRules(default_score=1.25)) == [4.0, 1.25, 2.0]


def test_the_default_aggregator_is_registered() -> None:
    assert ScoringRules().aggregator in AGGREGATORS
