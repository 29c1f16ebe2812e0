"""A whole group before the judge: pairs, principle, endings (J1-J3, J10, J13)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import JudgeCall, NoEvents
from groupjudge.judging.panel import DEFAULTED, Panel, PanelRules
from groupjudge.model import AnswerTexts, Message, Pair, Reading, Topic, Verdict
from groupjudge.scoring import NotFinite, ScoringRules

from ..support import judges
from ..support.http_judges import TOPIC, answers, judge_of
from ..support.judges import Counted, Received, StubJudge, chat, http, verdict

RULES = PanelRules(default_principle="Be right.")
THREE = answers("a", "b", "c")


class Numbers:
    """A judge in this process: what it replies for each pair, and what it was asked."""

    def __init__(self, readings: dict[Pair, JudgeCall | Exception] | None = None) -> None:
        self.readings = readings or {}
        self.asked: list[Pair] = []
        self.topics: list[Topic] = []

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Sequence[AnswerTexts]:
        self.topics.append(topic)
        return texts

    async def compare(self, prepared: Sequence[AnswerTexts], pair: Pair) -> JudgeCall:
        self.asked.append(pair)
        await asyncio.sleep(0)
        reply = self.readings.get(pair, JudgeCall(Reading(4.0, 2.0, 2.0)))
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def reachable(self) -> str | None:
        return None

    async def close(self) -> None: ...


async def test_every_planned_pair_is_asked_once_and_listed_as_planned() -> None:
    """J1, J2, L24: whatever order the verdicts come in."""
    judge = Numbers()
    judgement = await Panel(judge, PanelRules("p", judges_per_pair=2)).judge(TOPIC, THREE)
    planned = [(0, 1, 0), (1, 2, 0), (2, 0, 0), (0, 1, 1), (1, 2, 1), (2, 0, 1)]
    assert judge.asked == planned
    assert [(v.i, v.j, v.judge) for v in judgement.verdicts] == planned
    assert (judgement.failure_kind, judgement.failure_reason) == (None, None)
    assert judgement.metrics is not None


async def test_each_verdict_lands_on_the_pair_that_it_was_given_for() -> None:
    """L24: over sockets; the judge replies by what it was shown in which seat."""

    def by_answers(request: Received) -> judges.Reply:
        first, second = (float(message["content"]) for message in request.json["messages"][-2:])
        return verdict(first, second, 1 + first)

    async with StubJudge(by=by_answers) as stub, judge_of(stub) as judge:
        judgement = await Panel(judge, PanelRules("p", strategy="all_pairs")).judge(TOPIC, answers("1", "2", "4"))
    assert judgement.verdicts == (Verdict(0, 1, 0, 1, 2, 2), Verdict(0, 2, 0, 1, 4, 2), Verdict(1, 2, 0, 2, 4, 3))
    assert judgement.rewards == (1.0, 2.0, 4.0)


@pytest.mark.parametrize("texts", [(), ("only",)])
async def test_a_group_of_none_or_one_asks_nothing(texts: Sequence[str]) -> None:
    """L9, H6."""
    judge = Numbers()
    judgement = await Panel(judge, RULES).judge(TOPIC, answers(*texts))
    assert judge.topics == []
    assert judgement.rewards == (3.0,) * len(texts)
    assert judgement.verdicts == ()
    assert judgement.metrics is None


@pytest.mark.parametrize(
    ("use", "asked", "sent"),
    [
        (False, "mine", None),
        (False, None, None),
        (True, "mine", "mine"),
        (True, None, "Be right."),
    ],
)
async def test_the_principle_is_the_requests_else_the_configured_one(
    use: bool, asked: str | None, sent: str | None
) -> None:
    """J10."""
    judge = Numbers()
    rules = PanelRules("Be right.", use_principle=use)
    await Panel(judge, rules).judge(Topic((Message("user", "q"),), asked), THREE)
    assert judge.topics == [Topic((Message("user", "q"),), sent)]


async def test_a_pair_that_failed_for_good_cancels_the_groups_other_calls() -> None:
    """J3: the calls that the judge holds and those that wait for a place; their connections close."""

    def first_fails(request: Received) -> judges.Reply:
        return http(400, "no") if request.json["messages"][-2]["content"] == "0" else verdict()

    texts = answers(*map(str, range(8)))
    async with StubJudge(by=first_fails) as stub, judge_of(stub, max_concurrency=4) as judge:
        stub.hold()
        judging = asyncio.create_task(Panel(judge, RULES).judge(TOPIC, texts))
        await stub.until(lambda: stub.in_flight == 4)
        stub.let_go_of(lambda request: request.json["messages"][-2]["content"] == "0")
        with pytest.raises(JudgeFailed, match="status 400"):
            await judging
        await stub.until(lambda: stub.in_flight == 0)
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
        assert stub.other_tasks() == set()
    assert len(stub.received) <= 5
    assert sorted(judge.counted.calls)[0][0] == "cancelled"
    assert [result for result, _ in judge.counted.calls].count("failed") == 1


async def test_an_unreadable_pair_fails_the_group_by_default() -> None:
    """J13: a score that nobody gave is an invented reward."""
    async with StubJudge(otherwise=chat("both are fine")) as stub, judge_of(stub, retries=0) as judge:
        with pytest.raises(JudgeFailed, match="both are fine") as failed:
            await Panel(judge, RULES).judge(TOPIC, THREE)
    assert "both" not in failed.value.summary
    assert failed.value.summary


async def test_with_default_scores_they_stand_in_and_every_member_is_told() -> None:
    """J13."""
    judge = Numbers({Pair(1, 2, 0): JudgeCall(None, "no number in it")})
    scoring = ScoringRules(default_score=2.5, default_ranking=3.0)
    counted = Counted()
    rules = PanelRules("p", on_unreadable="default_scores", scoring=scoring)
    judgement = await Panel(judge, rules, counted).judge(TOPIC, THREE)
    assert judgement.verdicts[1] == Verdict(1, 2, 0, 2.5, 2.5, 3.0)
    assert judgement.failure_kind == DEFAULTED == "groupjudge:default_scores"
    assert "1 of 3" in str(judgement.failure_reason)
    assert "answers 1 and 2: no number in it" in str(judgement.failure_reason)
    assert counted.defaults == 1


async def test_the_note_on_default_scores_is_bounded() -> None:
    """H4: at most 2,000 characters."""
    judge = Numbers({Pair(1, 2, 0): JudgeCall(None, "x" * 5000)})
    judgement = await Panel(judge, PanelRules("p", on_unreadable="default_scores")).judge(TOPIC, THREE)
    assert len(str(judgement.failure_reason)) == 2000


async def test_with_default_scores_a_judge_failure_still_fails_the_group() -> None:
    """J13: only what was replied and could not be read has a default."""
    async with StubJudge(otherwise=http(503)) as stub, judge_of(stub, retries=0) as judge:
        with pytest.raises(JudgeFailed):
            await Panel(judge, PanelRules("p", on_unreadable="default_scores")).judge(TOPIC, THREE)


async def test_a_defect_is_not_reported_as_the_judges_fault() -> None:
    """A programming error that comes with a judge failure surfaces as what it is."""
    judge = Numbers({Pair(0, 1, 0): JudgeFailed("r", "s"), Pair(1, 2, 0): KeyError("bug")})
    with pytest.raises(KeyError, match="bug"):
        await Panel(judge, RULES).judge(TOPIC, THREE)


async def test_the_failure_of_several_that_came_first_is_reported() -> None:
    judge = Numbers({Pair(0, 1, 0): JudgeFailed("first", "s"), Pair(1, 2, 0): JudgeFailed("second", "s")})
    with pytest.raises(JudgeFailed, match="first"):
        await Panel(judge, RULES).judge(TOPIC, THREE)


async def test_a_sum_that_is_not_finite_fails_the_group() -> None:
    """J19."""
    judge = Numbers(
        {
            Pair(0, 1, 0): JudgeCall(Reading(1.7e308, 1.7e308, -1e308)),
            Pair(1, 2, 0): JudgeCall(Reading(1.7e308, 1.7e308, 1e308)),
        }
    )
    with pytest.raises(NotFinite):
        await Panel(judge, RULES).judge(TOPIC, THREE)


async def test_groups_that_are_judged_at_once_share_the_judges_places() -> None:
    """J3: over the whole server."""
    async with StubJudge() as stub, judge_of(stub, max_concurrency=5) as judge:
        panel = Panel(judge, RULES, NoEvents())
        texts = answers(*map(str, range(16)))
        judgements = await asyncio.gather(*(panel.judge(TOPIC, texts) for _ in range(8)))
    assert len(stub.received) == 8 * 16
    assert stub.peak <= 5
    assert len({judgement.rewards for judgement in judgements}) == 1
