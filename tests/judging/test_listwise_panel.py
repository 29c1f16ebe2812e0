"""Whole groups before a judge of lists (F9): their lists, and what becomes of scores that no reply gave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.judging.judge import ListCall
from groupjudge.judging.listwise_panel import ListPanel
from groupjudge.judging.panel import DEFAULTED, PanelRules
from groupjudge.model import AnswerTexts, Judgement, Listing, Message, Topic
from groupjudge.scoring import ListRules, ScoringRules

from ..support.http_judges import TOPIC, answers
from ..support.judges import Counted, StubJudge, http
from .test_listwise import judge_of

TEN = answers(*map(str, range(10)))


class Grades:
    """A judge of lists whose score is half of the number that an answer is. `odd` calls end otherwise; `late`:
    calls end in another order than they were asked."""

    def __init__(self, odd: dict[int, ListCall] | None = None, *, late: bool = False) -> None:
        self.odd, self.late = odd or {}, late
        self.asked: list[Listing] = []
        self.topics: list[Topic] = []

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Sequence[AnswerTexts]:
        self.topics.append(topic)
        return texts

    async def grade(self, prepared: Sequence[AnswerTexts], listing: Listing) -> ListCall:
        self.asked.append(listing)
        for _ in range(7 - 3 * listing.judge % 8 if self.late else 0):
            await asyncio.sleep(0)
        scores = tuple(float(prepared[slot].answer.split()[0]) / 2 for slot in listing.slots)
        return self.odd.get(listing.judge, ListCall(scores))


async def judged(
    judge: Any, texts: Sequence[AnswerTexts] = TEN, lists: ListRules | None = None, **rules: Any
) -> Judgement:
    counted = rules.pop("counted", None)
    return await ListPanel(judge, PanelRules("p", **rules), lists or ListRules(4, 2), counted).judge(TOPIC, texts)


async def test_every_two_answers_of_a_list_become_a_verdict_of_their_scores() -> None:
    """F9, J2: listed by call, then as shown; the ranking is the default one; each answer has its score as reward."""
    judge = Grades()
    judgement = await judged(judge)
    assert len(judge.asked) == 5
    expected = [
        (i, j, listing.judge, i / 2, j / 2, 3.5) for listing in judge.asked for i, j in combinations(listing.slots, 2)
    ]
    assert [tuple(verdict) for verdict in judgement.verdicts] == expected
    assert judgement.rewards == tuple(slot / 2 for slot in range(10))
    assert judgement.errors == (None,) * 10


@pytest.mark.parametrize("aggregator", ["simple_tiebreaker", "least_squares", "bradley_terry", "win_rate"])
async def test_every_aggregator_joins_lists(aggregator: str) -> None:
    """F2, F9: whatever the order of replies, the same bits; a judge that never contradicts itself is followed (shares
    of wins hang on whom one met)."""
    rules = {"scoring": ScoringRules(aggregator)}
    early, late = await judged(Grades(), **rules), await judged(Grades(late=True), **rules)
    assert early == late
    assert aggregator == "win_rate" or list(early.rewards) == sorted(early.rewards)
    assert early.measures is not None
    assert (early.measures.cycles, early.measures.ties, early.measures.is_flat) == (0, 0, False)


async def test_each_repetition_shows_another_order_and_the_same_group_the_same() -> None:
    """F9, J22: orders hang on the question, the answers and the seed alone."""
    once, again, seeded = Grades(), Grades(), Grades()
    lists = ListRules(10, 2, 3)
    await judged(once, lists=lists)
    await judged(again, lists=lists)
    await judged(seeded, lists=lists, seed=1)
    assert once.asked == again.asked
    assert len({listing.slots for listing in (*once.asked, *seeded.asked)}) == 6
    other = Grades()
    changed = [*TEN[:9], AnswerTexts("9 indeed", "")]
    await judged(other, changed, lists)
    assert {each.slots for each in other.asked}.isdisjoint({each.slots for each in once.asked})
    question = Grades()
    await ListPanel(question, PanelRules("p"), lists).judge(Topic((Message("user", "?"),)), TEN)  # type: ignore[arg-type]
    assert {each.slots for each in question.asked}.isdisjoint({each.slots for each in once.asked})


async def test_a_list_that_cannot_be_read_fails_the_group() -> None:
    """J13: with the answers named; no score is made up."""
    judge = Grades({0: ListCall(None, "no good")})
    with pytest.raises(JudgeFailed, match="answers 0, 1, 2: no good"):
        await judged(judge, TEN[:3])


async def test_default_scores_stand_in_where_they_may_and_are_counted() -> None:
    """J13: for each verdict of the list, and the group says so."""
    counted = Counted()
    odd = {1: ListCall(None, "no good"), 2: ListCall((4.0,) * 4, "", ambiguous=True)}
    judgement = await judged(Grades(odd), on_unreadable="default_scores", counted=counted)
    assert judgement.failure_kind == DEFAULTED
    assert judgement.failure_reason is not None
    assert "for 6 of 30 verdicts" in judgement.failure_reason
    assert judgement.measures is not None
    assert (judgement.measures.default_scores, judgement.measures.ambiguous_replies) == (6, 6)
    assert counted.defaults == 6
    assert [tuple(v)[3:] for v in judgement.verdicts if v.judge == 1] == [(3.0, 3.0, 3.5)] * 6


async def test_equal_answers_are_shown_once() -> None:
    """F6, F9: the calls saved are counted."""
    counted, judge = Counted(), Grades()
    texts = answers(*"0123012301")
    judgement = await judged(judge, texts, equal_answers="once", counted=counted)
    assert [sorted(each.slots) for each in judge.asked] == [[0, 1, 2, 3]]
    assert judgement.rewards == tuple(int(text.answer) / 2 for text in texts)
    assert judgement.measures is not None
    assert judgement.measures.calls_saved == counted.saved == 5 - 1


async def test_members_that_came_are_named_by_their_slots() -> None:
    """F8, F9: in verdicts and in reasons."""
    panel = ListPanel(Grades(), PanelRules("p"), ListRules(4, 2))  # type: ignore[arg-type]
    judgement = await panel.judge(TOPIC, TEN[:3], [1, 4, 9])
    assert {slot for verdict in judgement.verdicts for slot in verdict[:2]} == {1, 4, 9}
    worth = {1: 0.0, 4: 0.5, 9: 1.0}
    assert all((v.score_1, v.score_2) == (worth[v.i], worth[v.j]) for v in judgement.verdicts)
    failing = ListPanel(Grades({0: ListCall(None, "hm")}), PanelRules("p"), ListRules())  # type: ignore[arg-type]
    with pytest.raises(JudgeFailed, match="answers 1, 4, 9: hm"):
        await failing.judge(TOPIC, TEN[:3], [1, 4, 9])


@pytest.mark.parametrize("size", [0, 1])
async def test_one_answer_costs_no_call(size: int) -> None:
    """F9: there is nobody to compare it with."""
    judge = Grades()
    assert (await judged(judge, TEN[:size])).rewards == (3.0,) * size
    assert judge.asked == judge.topics == []


async def test_the_principle_is_sent_where_principles_are_on() -> None:
    """J10."""
    on, off = Grades(), Grades()
    await judged(on, use_principle=True)
    await judged(off)
    assert [each.topics[0].principle for each in (on, off)] == ["p", None]


async def test_once_one_list_has_failed_the_others_are_cancelled() -> None:
    """J3: no call and no task is left behind."""

    def say(request: Any) -> Any:
        return http(400, "no") if len(stub.received) == 1 else http(503)

    async with StubJudge(by=say) as stub, judge_of(stub, retries=3, max_concurrency=2) as judge:
        with pytest.raises(JudgeFailed, match="status 400"):
            await judged(judge)
        await stub.until(lambda: stub.in_flight == 0)
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
        assert stub.other_tasks() == set()


async def test_a_cancelled_group_leaves_nothing_behind() -> None:
    """L11, J22: cancelled calls close their connections."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        stub.hold()
        judging = asyncio.create_task(judged(judge))
        await stub.until(lambda: stub.in_flight == 5)
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging
        await stub.until(lambda: not stub.open_connections)
        assert stub.other_tasks() == set()


async def test_every_answer_is_shown_at_every_place() -> None:
    """F9: over many groups no slot is shown first more often than chance has it."""
    first: Counter[int] = Counter()
    for number in range(200):
        judge = Grades()
        await judged(judge, [*TEN[:3], AnswerTexts(f"3 {number}", "")])
        first[judge.asked[0].slots[0]] += 1
    assert set(first) == {0, 1, 2, 3}
    assert max(first.values()) < 80
