import pytest

from groupjudge.scoring.centering import centred_weights


def test_less_weighs_more_and_all_weights_add_up_to_nothing() -> None:
    """J16: of 0, 5 and 10 the raw weights are 1, 0.5 and 0, their mean 0.5."""
    assert centred_weights([0, 5, 10]) == [0.5, 0.0, -0.5]
    assert centred_weights([10, 0, 0, 0]) == [-0.75, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("amount", [0, 7, 0.125])
def test_equal_amounts_weigh_nothing(amount: float) -> None:
    """J16: the span is 0."""
    assert centred_weights([amount] * 3) == [0.0, 0.0, 0.0]


def test_the_mean_of_the_weights_is_exact() -> None:
    """J20: added up one by one, the raw weights of these make two different sums."""
    assert sorted(centred_weights([7, 9, 0, 3])) == sorted(centred_weights([0, 3, 7, 9]))
