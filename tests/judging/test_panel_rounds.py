"""What the panel does beyond one round of pairs: schedules, rounds, equal answers, how sure it is (F1, F4, F6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.judging import panel as panels
from groupjudge.judging.judge import JudgeCall
from groupjudge.judging.panel import Panel, PanelRules, first_of_equals
from groupjudge.model import AnswerTexts, Judgement, Pair, Reading, Verdict
from groupjudge.scoring import NotFinite, ScoringRules, planned_pairs, score_group

from ..support.http_judges import TOPIC, answers, judge_of
from ..support.judges import Counted, StubJudge, chat, http, verdict
from .test_panel import Numbers

EIGHT = answers(*"12345678")


class ByText(Numbers):
    """A judge whose verdict hangs on nothing but the two texts, which are numbers. `late`: pairs reply in another order
    than they were asked."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__()
        self.late = late

    async def compare(self, prepared: Sequence[AnswerTexts], pair: Pair) -> JudgeCall:
        self.asked.append(pair)
        for _ in range((7 * pair.i + 3 * pair.j) % 11 if self.late else 0):
            await asyncio.sleep(0)
        first, second = (float(prepared[slot].answer.split()[0]) for slot in (pair.i, pair.j))
        noise = (pair.i * 5 + pair.j * 3) % 4 / 4
        return JudgeCall(Reading(first / 2 + noise, second / 2, 3.5 - (first - second) / 4))


async def judged(judge: Any, texts: Sequence[AnswerTexts], counted: Counted | None = None, **rules: Any) -> Judgement:
    return await Panel(judge, PanelRules("p", **rules), counted).judge(TOPIC, texts)


@pytest.mark.parametrize(
    "rules",
    [
        {"strategy": "circulant", "calls_per_answer": 2},
        {"strategy": "circular", "both_orders": True, "judges_per_pair": 2},
    ],
)
async def test_other_schedules_are_asked_as_they_are_planned(rules: dict[str, Any]) -> None:
    """F1, J2, L24."""
    judge = ByText()
    judgement = await judged(judge, EIGHT, **rules)
    planned = planned_pairs(
        8, rules["strategy"], rules.pop("judges_per_pair", 1), **{k: v for k, v in rules.items() if k != "strategy"}
    )
    assert judge.asked == planned
    assert [Pair(*v[:3]) for v in judgement.verdicts] == planned


async def test_adaptive_asks_round_by_round_and_the_order_of_replies_changes_nothing() -> None:
    """F1, L24: a round begins when the one before has all its verdicts."""
    early, late = ByText(), ByText(late=True)
    rules: dict[str, Any] = {"strategy": "adaptive", "budget_calls": 20, "judges_per_pair": 2}
    judgement = await judged(early, EIGHT, **rules)
    assert judgement == await judged(late, EIGHT, **rules)
    assert len(set(early.asked)) == len(early.asked) == len(judgement.verdicts) == 20
    assert [v.judge for v in judgement.verdicts] == [0] * 10 + [1] * 10
    assert early.asked[:8] == planned_pairs(8, "circular", 1)


async def test_a_failure_in_a_later_round_ends_the_group_and_its_calls() -> None:
    """F1, J3: what was asked before is of no use alone."""
    replies = [verdict()] * 8 + [http(400, "no")]
    async with StubJudge(*replies) as stub, judge_of(stub) as judge:
        with pytest.raises(JudgeFailed, match="status 400"):
            await judged(judge, EIGHT, strategy="adaptive", budget_calls=16)
        await stub.until(lambda: stub.in_flight == 0)
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
        assert stub.other_tasks() == set()
    assert 9 <= len(stub.received) <= 16


async def test_a_group_that_is_cancelled_between_rounds_asks_no_more() -> None:
    """F1, L11."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        judging = asyncio.create_task(judged(judge, EIGHT, strategy="adaptive", budget_calls=16))
        await stub.until(lambda: len(stub.received) == 8)
        stub.hold()
        await stub.until(lambda: len(stub.received) > 8)
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging
        await stub.until(lambda: stub.in_flight == 0)
        assert stub.other_tasks() == set()
    assert len(stub.received) < 16


async def test_numbers_that_no_model_can_use_are_named_in_the_middle_of_rounds_too() -> None:
    """J19."""
    judge = Numbers({Pair(0, 1, 0): JudgeCall(Reading(1.7e308, 1.0, 3.5))})
    with pytest.raises(NotFinite):
        await judged(judge, EIGHT, strategy="adaptive")


# -- equal answers (F6) ------------------------------------------------------------------------------------------------

TWINS = answers("3", "5", "3", "1", "5", "3")


async def test_equal_answers_are_judged_once_and_get_equal_scores() -> None:
    """F6: slots 0, 1 and 3 stand for all six; the calls saved are counted."""
    judge, counted = ByText(), Counted()
    judgement = await judged(judge, TWINS, counted, equal_answers="once")
    assert judge.asked == [(0, 1, 0), (1, 3, 0), (3, 0, 0)]
    alone = await judged(ByText(), [TWINS[slot] for slot in (0, 1, 3)])
    assert [judgement.rewards[slot] for slot in (0, 1, 3)] != []
    assert judgement.rewards[0] == judgement.rewards[2] == judgement.rewards[5]
    assert judgement.rewards[1] == judgement.rewards[4]
    assert judgement.errors[1] == judgement.errors[4]
    assert len(set(judgement.rewards)) == 3 == len(set(alone.rewards))
    assert judgement.measures is not None
    assert judgement.measures.calls_saved == counted.saved == 3


@pytest.mark.parametrize("aggregator", ["simple_tiebreaker", "least_squares", "bradley_terry", "win_rate"])
@pytest.mark.parametrize("strategy", ["circular", "all_pairs", "circulant", "adaptive"])
async def test_a_group_of_distinct_answers_is_judged_as_ever(strategy: str, aggregator: str) -> None:
    """F6, L24: once and each make no difference there."""
    rules = {"strategy": strategy, "scoring": ScoringRules(aggregator)}
    each, once = ByText(), ByText()
    assert await judged(each, EIGHT, **rules) == await judged(once, EIGHT, **rules, equal_answers="once")
    assert each.asked == once.asked


async def test_by_default_equal_answers_are_judged_like_others() -> None:
    """F6, J1: everything is optional."""
    judge = ByText()
    judgement = await judged(judge, TWINS)
    assert judge.asked == planned_pairs(6, "circular", 1)
    assert judgement.measures is not None
    assert judgement.measures.calls_saved == 0


async def test_answers_that_are_all_equal_need_no_judge_and_are_flagged() -> None:
    """F6, F4: there is nothing to compare; everybody has the default score, and the group teaches nothing."""
    judge, counted = ByText(), Counted()
    judgement = await judged(judge, answers("4", "4", "4"), counted, equal_answers="once")
    assert judge.topics == judge.asked == []
    assert judgement.rewards == (3.0, 3.0, 3.0)
    assert judgement.metrics is None
    assert judgement.measures is not None
    assert (judgement.measures.is_flat, judgement.measures.calls_saved) == (True, 3)
    assert (counted.flat, counted.saved) == (1, 3)


def test_only_the_whole_text_makes_answers_equal_and_reasoning_makes_none_different() -> None:
    """F6: the judge sees the answer as it stands, and nothing of the reasoning."""
    texts = [AnswerTexts("a", "x"), AnswerTexts("a ", "x"), AnswerTexts("a", "longer"), AnswerTexts("A", "")]
    assert first_of_equals(texts) == [0, 1, 0, 3]


def test_a_bonus_for_an_answer_goes_to_all_who_gave_it_and_lengths_of_reasoning_still_count() -> None:
    """F6, J15, J16: equal answers are equally short; their reasoning may not be."""
    texts = [AnswerTexts("aa", "rr"), AnswerTexts("bbbb", "rrr"), AnswerTexts("aa", "rr"), AnswerTexts("aa", "rrrrr")]
    same = first_of_equals(texts)
    verdicts = [Verdict(0, 1, 0, 4.0, 2.0, 2.0), Verdict(1, 0, 0, 2.0, 4.0, 5.0)]
    answer = score_group(texts, verdicts, ScoringRules(answer_bonus=0.5), same)
    assert answer.rewards == (4.5, 2.0, 4.5, 4.5)
    reasoning = score_group(texts, verdicts, ScoringRules(reasoning_bonus=0.5), same)
    assert reasoning.rewards == (4.5, 2.0, 4.5, 4.0)
    penalties = score_group(texts, verdicts, ScoringRules(reasoning_length_penalty=1.0), same)
    assert penalties.rewards[0] == penalties.rewards[2] > penalties.rewards[3]
    assert penalties.base_scores == (4.0, 2.0, 4.0, 4.0)


# -- how sure (F4) -----------------------------------------------------------------------------------------------------


async def test_a_judgement_says_how_sure_it_is() -> None:
    """F4: errors in slot order, and the group's measures."""
    judgement = await judged(ByText(), EIGHT, strategy="all_pairs", both_orders=True)
    assert len(judgement.errors) == 8
    assert all(error is not None and error > 0 for error in judgement.errors)
    measures = judgement.measures
    assert measures is not None
    assert measures.swap_flip_rate is not None
    assert 0 < measures.triples < 8 * 7 * 6 / 6  # pairs that a swap turned are drawn
    assert not measures.is_flat


async def test_ambiguous_replies_and_default_scores_are_counted_for_their_group() -> None:
    """F4, J11, J13."""
    both = 'first {"score_1": 1, "score_2": 2, "ranking": 5} then {"score_1": 2, "score_2": 1, "ranking": 2}'
    async with StubJudge(chat(both), chat("none")) as stub, judge_of(stub, retries=0) as judge:
        judgement = await judged(judge, answers("a", "b", "c"), on_unreadable="default_scores")
        again = await judged(judge, answers("a", "b", "c"))
    assert judgement.measures is not None
    assert again.measures is not None
    assert judgement.measures[5:7] == (1, 1)
    assert again.measures[5:7] == (0, 0)


async def test_many_verdicts_are_scored_away_from_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """H11: what takes long must not hold up other callers; the result is the same."""
    where: list[bool] = []

    def seen(*arguments: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return score_group(*arguments)

    monkeypatch.setattr(panels, "score_group", seen)
    rules = {"scoring": ScoringRules("least_squares")}
    await judged(ByText(), EIGHT, strategy="all_pairs", **rules)
    await judged(ByText(), EIGHT, strategy="all_pairs", judges_per_pair=3, **rules)
    assert where == [True, False]
