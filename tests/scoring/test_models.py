"""The aggregators of F2 beside the plain mean."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations
from statistics import correlation, fmean, pstdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupjudge.model import Verdict
from groupjudge.scoring import NotFinite, ScoringRules, planned_pairs, score_group
from groupjudge.scoring.aggregators import AGGREGATORS, plain_mean, simple_tiebreaker
from groupjudge.scoring.bradley_terry import bradley_terry
from groupjudge.scoring.least_squares import fit, least_squares
from groupjudge.scoring.limits import LARGEST
from groupjudge.scoring.win_rate import win_rate

from .slow_models import bradley_terry_loss, least_squares_twin, win_rate_twin
from .strategies import aggregators, groups
from .test_rewards import PLAIN

RULES = ScoringRules()
MODELS = sorted(set(AGGREGATORS) - {"simple_tiebreaker"})
quarters = st.integers(4, 20).map(lambda number: number / 4)


@st.composite
def judged(draw: st.DrawFn) -> tuple[int, list[Verdict]]:
    """Some verdicts on a group, in numbers as judges give them."""
    size = draw(st.integers(2, 6))
    seats = st.sampled_from([(i, j) for i in range(size) for j in range(size) if i != j])
    numbers = st.tuples(quarters, quarters, st.integers(2, 12).map(lambda number: number / 2))
    found = draw(st.lists(st.tuples(seats, numbers), min_size=1, max_size=12))
    return size, [Verdict(*pair, 0, *values) for pair, values in found]


@given(judged())
def test_least_squares_is_the_solution_of_the_whole_normal_equations(group: tuple[int, list[Verdict]]) -> None:
    """F2, F4: rewards and standard errors."""
    size, verdicts = group
    scores, errors = least_squares(size, verdicts, RULES)
    wanted, wanted_errors = least_squares_twin(size, verdicts)
    judged_slots = sorted({slot for v in verdicts for slot in (v.i, v.j)})
    assert [scores[slot] for slot in judged_slots] == pytest.approx([wanted[slot] for slot in judged_slots], abs=1e-8)
    assert [errors[slot] for slot in judged_slots] == pytest.approx(
        [wanted_errors[slot] for slot in judged_slots], abs=1e-8
    )


@settings(max_examples=25)
@given(judged(), st.randoms(use_true_random=False))
def test_bradley_terry_is_where_no_step_makes_the_loss_less(group: Any, chance: random.Random) -> None:
    """F2: of a convex loss that is the one minimum."""
    size, verdicts = group
    scores, _ = bradley_terry(size, verdicts, RULES)
    loss, worth = bradley_terry_loss(size, verdicts), _usual_lead(verdicts)
    judged_slots = {slot for v in verdicts for slot in (v.i, v.j)}
    if not worth:
        assert len({scores[slot] for slot in judged_slots}) == 1
        return
    mean = fmean(scores[slot] for slot in judged_slots)
    logits = [(score - mean) / worth if slot in judged_slots else 0.0 for slot, score in enumerate(scores)]
    # The rewards do not hold the common shift and the seat: bring both to their best first.
    shift, seat = min(
        _grid(), key=lambda p: loss([x + p[0] if s in judged_slots else 0.0 for s, x in enumerate(logits)] + [p[1]])
    )
    at = [x + shift if s in judged_slots else 0.0 for s, x in enumerate(logits)] + [seat]
    for _ in range(20):
        step = [chance.uniform(-1, 1) for _ in at]
        nearby = [a + 0.3 * b for a, b in zip(at, step, strict=True)]
        assert loss(nearby) > loss(at) - 0.01


def _grid() -> list[tuple[float, float]]:
    return [(shift / 10, seat / 20) for shift in range(-5, 6) for seat in range(-120, 121)]


def _usual_lead(verdicts: Sequence[Verdict]) -> float:
    from .slow_models import leads_of

    return math.sqrt(fmean(lead * lead for lead in leads_of(verdicts)))


@given(judged())
def test_win_rate_counts_wins_and_halves_of_ties(group: tuple[int, list[Verdict]]) -> None:
    """F2."""
    size, verdicts = group
    judged_slots = sorted({slot for v in verdicts for slot in (v.i, v.j)})
    scores, wanted = win_rate(size, verdicts, RULES).scores, win_rate_twin(size, verdicts)
    assert [scores[slot] for slot in judged_slots] == pytest.approx([wanted[slot] for slot in judged_slots], abs=1e-9)


@pytest.mark.parametrize("aggregator", MODELS)
@given(judged())
def test_rewards_have_the_mean_of_the_scores(aggregator: str, group: tuple[int, list[Verdict]]) -> None:
    """F2: so that an aggregator can be swapped in without retuning a trainer."""
    size, verdicts = group
    scores = AGGREGATORS[aggregator](size, verdicts, RULES).scores
    judged_slots = {slot for v in verdicts for slot in (v.i, v.j)}
    mean = fmean(score for v in verdicts for score in (v.score_1, v.score_2))
    assert fmean(scores[slot] for slot in judged_slots) == pytest.approx(mean)


@pytest.mark.parametrize("aggregator", MODELS)
def test_two_answers_that_met_once_differ_by_at_most_what_the_judge_said(aggregator: str) -> None:
    """F2: rewards are on the judge's scale, the better answer above."""
    verdicts = [Verdict(0, 1, 0, 5.0, 2.0, 1.0), Verdict(1, 0, 0, 2.0, 5.0, 6.0)]
    better, worse = AGGREGATORS[aggregator](2, verdicts, RULES).scores
    assert better + worse == pytest.approx(7.0)
    assert 1.5 < better - worse <= 3.0 + 1e-9


@pytest.mark.parametrize("aggregator", sorted(AGGREGATORS))
@pytest.mark.parametrize(
    "verdict", [(3.0, 3.0, 3.5), (3.1, 3.1, 3.5), (4.0, 2.0, 2.0), (0.1, 0.7, 5.0), (0.0, 0.0, 3.5)]
)
def test_verdicts_that_are_all_the_same_make_equal_rewards(
    aggregator: str, verdict: tuple[float, float, float]
) -> None:
    """J20: everybody sat in either seat once and got the same: no rounding may tell them apart, or it would be blown up
    where a trainer divides by the deviation."""
    verdicts = [Verdict(*pair, *verdict) for pair in planned_pairs(7, "circular", 1)]
    assert len(set(AGGREGATORS[aggregator](7, verdicts, RULES).scores)) == 1


@pytest.mark.parametrize("aggregator", ["least_squares", "bradley_terry"])
def test_a_seat_that_is_worth_something_is_not_taken_for_quality(aggregator: str) -> None:
    """F2: in all pairs the lower slot sits first; a judge that likes the first seat would like low slots."""
    verdicts = [Verdict(*pair, 4.0, 3.0, 2.5) for pair in planned_pairs(6, "all_pairs", 1)]
    scores = AGGREGATORS[aggregator](6, verdicts, RULES).scores
    plain = simple_tiebreaker(6, verdicts, RULES)
    assert pstdev(scores) < pstdev(plain) / 2


def test_a_lenient_call_does_not_raise_both_its_answers_far() -> None:
    """F2: (0, 1) was judged in a generous moment, (2, 3) in a harsh one."""
    verdicts = [Verdict(0, 1, 0, 5.0, 5.0, 3.5), Verdict(2, 3, 0, 1.0, 1.0, 3.5), Verdict(1, 2, 0, 3.0, 4.0, 4.5)]
    verdicts += [Verdict(3, 0, 0, 3.0, 3.0, 3.5), Verdict(0, 2, 0, 3.0, 3.5, 4.0), Verdict(1, 3, 0, 3.0, 3.0, 3.5)]
    models = least_squares(4, verdicts, RULES).scores
    plain = simple_tiebreaker(4, verdicts, RULES)
    assert plain[0] - plain[2] > 0.5
    assert models[0] - models[2] < 0.5


def test_the_ranking_alone_tells_where_all_scores_tie() -> None:
    """F2, J14: as much as in the tie-break."""
    verdicts = [Verdict(0, 1, 0, 3.0, 3.0, 1.0), Verdict(1, 0, 0, 3.0, 3.0, 6.0)]
    for aggregator in MODELS:
        better, worse = AGGREGATORS[aggregator](2, verdicts, RULES).scores
        assert better > 4.0 > 2.0 > worse, aggregator


def test_missing_rankings_take_nothing_from_the_scores() -> None:
    """F2: where every ranking is the middle one, it is no evidence that all are equal."""
    verdicts = [Verdict(0, 1, 0, 5.0, 2.0, 3.5), Verdict(1, 0, 0, 2.0, 5.0, 3.5)]
    better, worse = least_squares(2, verdicts, RULES).scores
    assert 2.0 < better - worse < 3.0


def test_levels_alone_tell_where_every_verdict_is_a_tie() -> None:
    """F2: as they tell the plain mean."""
    verdicts = [Verdict(0, 1, 0, 5.0, 5.0, 3.5), Verdict(1, 2, 0, 3.0, 3.0, 3.5), Verdict(2, 0, 0, 3.0, 3.0, 3.5)]
    scores = least_squares(3, verdicts, RULES).scores
    assert scores[0] == scores[1] > scores[2] + 0.5


@pytest.mark.parametrize("aggregator", MODELS)
def test_a_member_without_a_verdict_has_the_default_score_and_no_error(aggregator: str) -> None:
    """J14."""
    scores, errors = AGGREGATORS[aggregator](3, [Verdict(0, 2, 0, 4.0, 2.0, 1.0)], ScoringRules(default_score=1.25))
    assert scores[1] == 1.25
    assert errors[1] is None
    assert AGGREGATORS[aggregator](2, [], RULES).scores == [3.0, 3.0]


wild = st.one_of(st.floats(-LARGEST, LARGEST), st.sampled_from([LARGEST, -LARGEST, 5e-324, -5e-324, 0.0, 1e-300]))


@given(
    st.lists(st.tuples(st.sampled_from([(0, 1), (1, 2), (2, 0)]), wild, wild, wild), min_size=1, max_size=6),
    aggregators,
)
def test_any_finite_numbers_give_finite_rewards_or_a_named_failure(found: Any, aggregator: str) -> None:
    """J19: no overflow inside a model comes out as another error."""
    verdicts = [Verdict(*pair, 0, *numbers) for pair, *numbers in found]
    try:
        scored = score_group([PLAIN] * 3, verdicts, ScoringRules(aggregator))
    except NotFinite:
        return
    assert all(map(math.isfinite, scored.rewards))
    assert all(error is None or math.isfinite(error) for error in scored.errors)


@pytest.mark.parametrize("aggregator", ["simple_tiebreaker", "least_squares", "bradley_terry"])
def test_a_power_of_two_on_the_scale_changes_no_bit_but_the_exponent(aggregator: str) -> None:
    """F2: no constant of a model is in points of one scale."""
    verdicts = _verdicts(random.Random(3), 8, 24)
    wide = [v._replace(score_1=64 * v.score_1, score_2=64 * v.score_2) for v in verdicts if v.score_1 != v.score_2]
    narrow = [v for v in verdicts if v.score_1 != v.score_2]
    scores = AGGREGATORS[aggregator](8, narrow, RULES).scores
    assert AGGREGATORS[aggregator](8, wide, RULES).scores == [64 * score for score in scores]


def _verdicts(chance: random.Random, size: int, count: int) -> list[Verdict]:
    pairs = chance.sample(list(combinations(range(size), 2)), count)
    return [Verdict(*pair, 0, *(float(chance.randint(1, 5)) for _ in range(3))) for pair in pairs]


@pytest.mark.parametrize("aggregator", ["simple_tiebreaker", "least_squares"])
@pytest.mark.parametrize("noise", [0.4, 1.0])
def test_standard_errors_are_as_large_as_rewards_miss(aggregator: str, noise: float) -> None:
    """F4: over many groups the squared misses and the squared errors have about the same mean."""
    chance = random.Random(11)
    missed, claimed = [], []
    for _ in range(60):
        truth = [chance.gauss(0, 1) for _ in range(8)]
        verdicts = []
        for i, j, judge in planned_pairs(8, "circulant", 1, calls_per_answer=3):
            ahead = truth[i] - truth[j]
            first, second = (3 + truth[slot] + chance.gauss(0, noise) for slot in (i, j))
            verdicts.append(Verdict(i, j, judge, first, second, 3.5 - ahead + chance.gauss(0, noise)))
        scores, errors = AGGREGATORS[aggregator](8, verdicts, RULES)
        centre, middle = fmean(scores), fmean(truth)
        missed += [(score - centre - quality + middle) ** 2 for score, quality in zip(scores, truth, strict=True)]
        claimed += [error**2 for error in errors if error is not None]
    assert 0.5 < fmean(claimed) / fmean(missed) < 2.0


def test_the_plain_mean_has_no_error_where_nobody_was_judged_twice() -> None:
    """F4: one score a member shows no noise."""
    assert plain_mean(2, [Verdict(0, 1, 0, 4.0, 2.0, 1.0)], RULES).errors == [None, None]


def test_a_large_group_gets_its_errors_without_a_whole_matrix() -> None:
    """F4: above 64 answers what a member's own verdicts say stands in, which is never more than the whole."""
    chance = random.Random(5)
    verdicts = [
        Verdict(*pair, float(chance.randint(1, 5)), float(chance.randint(1, 5)), 3.0)
        for pair in planned_pairs(65, "circular", 1)
    ]
    form = fit(65, verdicts).form
    assert form.uncertainties() == [1 / value for value in form.diagonal()[:65]]


@given(groups(min_size=2))
def test_every_aggregator_gives_one_score_and_one_error_a_member(group: Any) -> None:
    """F2, F4."""
    texts, verdicts = group
    for aggregator in AGGREGATORS.values():
        scores, errors = aggregator(len(texts), verdicts, RULES)
        assert len(scores) == len(errors) == len(texts)


def test_a_ranking_that_goes_with_nothing_is_soon_not_listened_to() -> None:
    """F3: with one call an answer and rankings drawn by lot, rewards are no farther from the truth than the plain
    mean's; with rankings that go with the scores they are much nearer."""
    rng, ahead = random.Random(7), {"by lot": 0.0, "true": 0.0}
    for _ in range(150):
        truth = [rng.gauss(0, 1) for _ in range(16)]
        for kind in ahead:
            verdicts = [_said(rng, truth, i, (i + 1) % 16, kind) for i in range(16)]
            model, mean = (each(16, verdicts, RULES).scores for each in (least_squares, plain_mean))
            ahead[kind] += (correlation(model, truth) - correlation(mean, truth)) / 150
    assert ahead["by lot"] > 0
    assert ahead["true"] > 0.04


def _said(rng: random.Random, truth: Sequence[float], i: int, j: int, kind: str) -> Verdict:
    lead, mood = truth[i] - truth[j], rng.gauss(0, 0.5)
    first = round(3 + mood + 0.9 * truth[i] + 0.35 * lead + rng.gauss(0, 0.8))
    second = round(3 + mood + 0.9 * truth[j] - 0.35 * lead + rng.gauss(0, 0.8))
    ranking = rng.randint(1, 6) if kind == "by lot" else round(3.5 - lead - rng.gauss(0, 0.8))
    return Verdict(i, j, 0, float(first), float(second), float(ranking))
