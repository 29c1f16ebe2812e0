import pytest

from groupjudge.model import Verdict
from groupjudge.scoring.metrics import verdict_metrics


def test_metrics_are_of_the_scores_before_any_tiebreak() -> None:
    """J18: mean and population deviation of 1, 1, 3, 5; one verdict of two was a tie."""
    metrics = verdict_metrics([Verdict(0, 1, 0, 1.0, 1.0, 1.0), Verdict(1, 0, 0, 3.0, 5.0, 6.0)])
    assert metrics is not None
    assert metrics == pytest.approx((2.5, 2.75**0.5, 0.5))


def test_equal_scores_deviate_by_nothing() -> None:
    """J18."""
    assert verdict_metrics([Verdict(0, 1, 0, 3.0, 3.0, 2.0)]) == (3.0, 0.0, 1.0)


def test_no_verdicts_have_no_metrics() -> None:
    """H6."""
    assert verdict_metrics([]) is None
