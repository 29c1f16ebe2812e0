import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.model import AnswerTexts, Verdict
from groupjudge.scoring import NotFinite, ScoringRules, planned_pairs, score_group
from groupjudge.scoring.limits import LARGEST

from .strategies import aggregators, any_rules, groups, numbers, rules
from .twin import exact_scores

CASES = json.loads((Path(__file__).parents[1] / "cases" / "scoring.json").read_text("utf-8"))
PLAIN = AnswerTexts("yes", "")


@pytest.mark.parametrize("case", CASES)
def test_the_shared_cases_come_out_as_they_should(case: dict[str, Any]) -> None:
    """J1, J2, J14-J18."""
    texts = [AnswerTexts(*pair) for pair in zip(case["answers"], case["reasoning"], strict=True)]
    verdicts = [Verdict(*v["pair"], v["judge"], v["score_1"], v["score_2"], v["ranking"]) for v in case["verdicts"]]
    assert [v[:3] for v in verdicts] == planned_pairs(len(texts), case["strategy"], case["judges_per_pair"])
    scored = score_group(texts, verdicts, ScoringRules(**case["scoring"]))
    assert scored.base_scores == pytest.approx(case["base_scores"], abs=1e-9)
    assert scored.rewards == pytest.approx(case["rewards"], abs=1e-9)
    assert scored.metrics is not None
    assert scored.metrics._asdict() == pytest.approx(case["metrics"], abs=1e-9)


@given(groups(), rules)
def test_scores_equal_those_of_a_slow_exact_twin(group: tuple[list[AnswerTexts], list[Verdict]], rules: Any) -> None:
    """J14-J18."""
    texts, verdicts = group
    # A bonus hangs on a comparison, which rounding may turn: keep the numbers to what both add up exactly.
    verdicts = [Verdict(*v[:3], *(round(number * 4) / 4 for number in v[3:])) for v in verdicts]
    scored, exact = score_group(texts, verdicts, rules), exact_scores(texts, verdicts, rules)
    assert scored.base_scores == pytest.approx([float(score) for score in exact.base], rel=1e-12, abs=1e-9)
    assert scored.rewards == pytest.approx([float(reward) for reward in exact.rewards], rel=1e-12, abs=1e-9)
    if exact.metrics is None:
        assert scored.metrics is None
    else:
        mean, variance, rate = exact.metrics
        assert scored.metrics == pytest.approx((mean, math.sqrt(variance), rate), rel=1e-9, abs=1e-9)


@given(groups(min_size=2), any_rules, st.randoms(use_true_random=False))
def test_the_order_of_the_verdicts_changes_no_bit(group: Any, rules: ScoringRules, chance: random.Random) -> None:
    """J20."""
    texts, verdicts = group
    shuffled = chance.sample(verdicts, len(verdicts))
    assert score_group(texts, shuffled, rules)[:3] == score_group(texts, verdicts, rules)[:3]


@given(groups(min_size=2), any_rules, st.randoms(use_true_random=False))
def test_the_order_of_the_members_changes_no_bit(group: Any, rules: ScoringRules, chance: random.Random) -> None:
    """J20. Where two texts are equally short, the lower slot has the bonus (J15): there the order does count."""
    texts, verdicts = group
    new = chance.sample(range(len(texts)), len(texts))
    moved = [texts[new.index(slot)] for slot in range(len(texts))]
    relabelled = [Verdict(new[v.i], new[v.j], *v[2:]) for v in verdicts]
    before, after = score_group(texts, verdicts, rules), score_group(moved, relabelled, rules)
    assert [after.base_scores[slot] for slot in new] == list(before.base_scores)
    assert after.metrics == before.metrics
    if not _shortest_is_shared(texts):
        assert [after.rewards[slot] for slot in new] == list(before.rewards)


def _shortest_is_shared(texts: list[AnswerTexts]) -> bool:
    for column in zip(*texts, strict=True):
        lengths = sorted(len(text.strip()) for text in column if text.strip())
        if lengths[:1] == lengths[1:2]:
            return True
    return False


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1), aggregators, st.randoms(use_true_random=False))
def test_members_with_equal_verdicts_get_equal_rewards(scores: Any, aggregator: str, chance: random.Random) -> None:
    """J20: members 0 and 1 get the same verdicts against member 2, each in an order of its own."""
    verdicts = [Verdict(slot, 2, 0, *score) for slot in (0, 1) for score in chance.sample(scores, len(scores))]
    rules = ScoringRules(aggregator, reasoning_length_penalty=0.3, answer_length_penalty=0.7, style_penalty=1.5)
    scored = score_group([PLAIN, PLAIN, AnswerTexts("**longer**", "hm")], verdicts, rules)
    assert scored.base_scores[0] == scored.base_scores[1]
    assert scored.rewards[0] == scored.rewards[1]


def test_a_sum_of_tenths_does_not_depend_on_its_order() -> None:
    """J20: plain addition gives other bits for 0.1 + 0.2 + 0.3 than for 0.3 + 0.2 + 0.1."""
    sums = {
        score_group([PLAIN, PLAIN], [Verdict(0, 1, 0, score, 9.0, 3.0) for score in order], ScoringRules()).base_scores
        for order in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1])
    }
    assert len(sums) == 1


def test_a_single_answer_has_the_default_score_and_no_bonus_or_penalty() -> None:
    """H6, L9."""
    rules = ScoringRules(default_score=2.5, reasoning_bonus=1, answer_bonus=1, answer_length_penalty=1)
    assert score_group([AnswerTexts("yes", "hm")], [], rules)[:3] == ((2.5,), (2.5,), None)


def test_no_answers_have_no_rewards() -> None:
    """H6."""
    assert score_group([], [], ScoringRules(answer_bonus=1))[:3] == ((), (), None)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, LARGEST * 10, -LARGEST * 10])
@pytest.mark.parametrize("place", [3, 4, 5])
def test_a_number_that_is_not_finite_fails_the_group(number: float, place: int) -> None:
    """J19."""
    fields: list[Any] = [0, 1, 0, 3.0, 4.0, 2.0]
    fields[place] = number
    with pytest.raises(NotFinite, match="the verdict on 0 and 1"):
        score_group([PLAIN, PLAIN], [Verdict(*fields)], ScoringRules())


def test_the_largest_numbers_are_summed_in_any_order() -> None:
    """J19, J20: no sum on the way overflows."""
    big = [Verdict(0, 1, judge, LARGEST * sign, -LARGEST, 3.0) for judge in range(50) for sign in (1, -1)]
    scored = score_group([PLAIN, PLAIN], big, ScoringRules())
    assert scored.rewards == (0.0, -LARGEST)
    assert scored.metrics is not None
    assert all(map(math.isfinite, scored.metrics))


@pytest.mark.parametrize("rules", [ScoringRules(default_score=math.inf), ScoringRules(default_score=math.nan)])
@pytest.mark.parametrize("size", [1, 2])
def test_a_reward_that_is_not_finite_is_never_given(rules: ScoringRules, size: int) -> None:
    """J19."""
    with pytest.raises(NotFinite, match="the reward of slot 0"):
        score_group([PLAIN] * size, [], rules)


def test_a_bonus_that_leaves_the_range_of_numbers_fails_the_group() -> None:
    """J19."""
    rules = ScoringRules(default_score=1e308, answer_bonus=1.7e308)
    with pytest.raises(NotFinite, match="the reward of slot 1"):
        score_group([AnswerTexts("long", ""), PLAIN], [], rules)


@pytest.mark.parametrize(("i", "j"), [(0, 2), (2, 0), (-1, 0), (0, -1), (1, 1)])
def test_a_verdict_on_anything_but_two_members_is_an_error(i: int, j: int) -> None:
    with pytest.raises(ValueError, match="is not on two members of a group of 2"):
        score_group([PLAIN, PLAIN], [Verdict(i, j, 0, 3.0, 4.0, 2.0)], ScoringRules())


def test_an_unknown_aggregator_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="no aggregator 'median'; there are: bradley_terry, least_squares, simple_tiebreaker"
    ):
        score_group([PLAIN], [], ScoringRules(aggregator="median"))


def test_the_inputs_are_left_as_they_were() -> None:
    """Base scores are reported beside the rewards: adding a bonus must not change them."""
    rules = ScoringRules(answer_bonus=1, style_penalty=1)
    scored = score_group([PLAIN, AnswerTexts("**bold**", "")], [Verdict(0, 1, 0, 4.0, 2.0, 1.0)], rules)
    assert scored.base_scores == (4.0, 2.0)
    assert scored.rewards == (5.5, 1.5)
