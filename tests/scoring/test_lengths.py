import pytest

from groupjudge.model import AnswerTexts
from groupjudge.scoring import ScoringRules
from groupjudge.scoring.lengths import add_length_bonuses, length_penalties


def reasonings(*lengths: int) -> list[AnswerTexts]:
    return [AnswerTexts("same", "r" * length) for length in lengths]


def answers(*lengths: int) -> list[AnswerTexts]:
    return [AnswerTexts("a" * length, "") for length in lengths]


REASONING = ScoringRules(reasoning_bonus=0.5)
ANSWER = ScoringRules(answer_bonus=0.25)


def test_the_shortest_reasoning_gets_its_bonus_if_its_score_is_at_the_top() -> None:
    """J15."""
    assert add_length_bonuses([4.0, 2.0], reasonings(3, 9), REASONING) == [4.5, 2.0]
    assert add_length_bonuses([2.0, 4.0], reasonings(3, 9), REASONING) == [2.0, 4.0]


def test_an_empty_text_is_not_the_shortest() -> None:
    """J15: it is about those who wrote something, white space aside."""
    texts = [AnswerTexts("x", " \n"), AnswerTexts("x", ""), AnswerTexts("x", " rr ")]
    assert add_length_bonuses([4.0, 4.0, 4.0], texts, REASONING) == [4.0, 4.0, 4.5]


def test_without_any_reasoning_there_is_no_bonus() -> None:
    """J15."""
    assert add_length_bonuses([4.0, 4.0], answers(1, 2), REASONING) == [4.0, 4.0]


def test_of_equally_short_ones_the_lowest_slot_gets_the_bonus() -> None:
    """J15."""
    assert add_length_bonuses([4.0, 4.0, 4.0], answers(5, 2, 2), ANSWER) == [4.0, 4.25, 4.0]


def test_lengths_are_of_the_stripped_text() -> None:
    """J15: padding neither wins nor loses."""
    texts = [AnswerTexts("aaa", ""), AnswerTexts("    aa    ", "")]
    assert add_length_bonuses([4.0, 4.0], texts, ANSWER) == [4.0, 4.25]


@pytest.mark.parametrize(
    ("percentile", "score", "reached"),
    [
        (0.0, 4.0, False),  # int(0) - 1 is below 0: the highest score is the threshold
        (0.4, 4.0, False),  # int(2) - 1 = 1 is too, with two at 5
        (0.6, 4.0, True),  # int(3) - 1 = 2: the threshold is 4 itself
        (0.6, 3.5, False),
        (0.79, 3.5, False),  # int(3.95) is 3
        (1.0, 1.0, True),
    ],
)
def test_the_threshold_is_the_score_at_the_percentile(percentile: float, score: float, reached: bool) -> None:
    """J15, with the base scores 5, 5, 4, 3 and the one in question."""
    base = [5.0, score, 5.0, 4.0, 1.0] if score != 4.0 else [5.0, 4.0, 5.0, 3.0, 1.0]
    rules = ScoringRules(answer_bonus=0.25, top_percentile=percentile)
    assert (add_length_bonuses(base, answers(9, 1, 9, 9, 9), rules)[1] > score) is reached


def test_both_bonuses_may_go_to_one_member_or_to_two() -> None:
    """J15. The threshold stays that of the base scores: the first bonus raises nobody else's."""
    rules = ScoringRules(reasoning_bonus=0.5, answer_bonus=0.25)
    assert add_length_bonuses([4.0, 4.0], [AnswerTexts("a", "r"), AnswerTexts("aaa", "rrr")], rules) == [4.75, 4.0]
    assert add_length_bonuses([4.0, 4.0], [AnswerTexts("aaa", "r"), AnswerTexts("a", "rrr")], rules) == [4.5, 4.25]


def test_the_base_scores_are_not_changed_in_place() -> None:
    base = [4.0, 2.0]
    add_length_bonuses(base, answers(1, 2), ANSWER)
    assert base == [4.0, 2.0]


def test_each_penalty_has_its_own_lengths_and_weight() -> None:
    """J16: an empty text counts as length 0."""
    texts = [AnswerTexts("aaaa", ""), AnswerTexts("  ", " rr ")]
    assert length_penalties(texts, ScoringRules(reasoning_length_penalty=2)) == [1.0, -1.0]
    assert length_penalties(texts, ScoringRules(answer_length_penalty=1)) == [-0.5, 0.5]
    both = ScoringRules(reasoning_length_penalty=2, answer_length_penalty=1)
    assert length_penalties(texts, both) == [0.5, -0.5]
