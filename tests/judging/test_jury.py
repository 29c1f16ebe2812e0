"""A panel of several models: all judge, or they take turns; who fails is left out and never a vote (F10, J13, J20)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.judge import JudgeCall, NoEvents
from groupjudge.judging.jury import AllJury, TurnsJury
from groupjudge.judging.panel import DEFAULTED, Panel, PanelRules
from groupjudge.judging.turns import turns
from groupjudge.model import AnswerTexts, Judgement, Pair, Reading, Topic

from ..support import judges
from ..support.http_judges import TOPIC, answers, judge_of
from ..support.judges import Counted, StubJudge, http, verdict

RULES = PanelRules("Be right.")
LENIENT = PanelRules("Be right.", on_unreadable="default_scores")
FOUR = answers("a", "b", "c", "d")
NAMES = ("x", "y", "z")
DEAD = JudgeFailed("it said: secret words", "transport (ServerDisconnectedError)")
UNREAD = JudgeCall(None, "no number in it")
Script = dict[tuple[int, int], JudgeCall | Exception]


class Juror:
    """A judge in this process, whose scores are its own: `bonus` more for each answer. `script` says what it replies to
    some pairs of slots instead; it waits for `free` before each reply."""

    def __init__(self, bonus: float = 0.0, script: Script | None = None) -> None:
        self.bonus = bonus
        self.script = script or {}
        self.asked: list[Pair] = []
        self.cancelled = 0
        self.free = asyncio.Event()
        self.free.set()

    def prepare(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Sequence[AnswerTexts]:
        return texts

    async def compare(self, prepared: Sequence[AnswerTexts], pair: Pair) -> JudgeCall:
        self.asked.append(pair)
        reply = self.script.get((pair.i, pair.j))
        try:
            await asyncio.sleep(0)
            if reply is None:
                await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(reply, Exception):
            raise reply
        return reply or JudgeCall(Reading(1 + pair.i / 4 + self.bonus, 1 + pair.j / 4 + self.bonus, 3.0))


def all_of(*jurors: Juror, rules: PanelRules = RULES, events: Any = None) -> AllJury:
    return AllJury(NAMES[: len(jurors)], jurors, [rules] * len(jurors), events or NoEvents())


def in_turn(*jurors: Juror, rules: PanelRules = RULES) -> TurnsJury:
    return TurnsJury(NAMES[: len(jurors)], jurors, rules, NoEvents())


async def judged(jury: AllJury | TurnsJury, texts: Sequence[AnswerTexts] = FOUR) -> Judgement:
    return await jury.judge(TOPIC, texts)


# -- all judge


async def test_every_juror_is_asked_for_every_pair_and_its_verdicts_are_told_apart() -> None:
    """F10, J2: by the judge index, in the order of the configuration; listed by judge index, then as planned."""
    jurors = Juror(0.0), Juror(1.0)
    twice = PanelRules("p", judges_per_pair=2)
    judgement = await judged(all_of(*jurors, rules=twice))
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert [(v.i, v.j, v.judge) for v in judgement.verdicts] == [(i, j, k) for k in range(4) for i, j in ring]
    assert [v.score_1 - v.i / 4 for v in judgement.verdicts] == [1.0] * 4 + [2.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert all(Counter(juror.asked) == Counter(Pair(i, j, k) for k in range(2) for i, j in ring) for juror in jurors)
    assert [juror[:3] for juror in judgement.jurors] == [("x", 8, None), ("y", 8, None)]


async def test_the_rewards_are_the_mean_over_all_jurors() -> None:
    """F10, J14."""
    judgement = await judged(all_of(Juror(0.0), Juror(2.0)))
    assert judgement.rewards == tuple(2 + slot / 4 for slot in range(4))


@pytest.mark.parametrize("failure", [DEAD, UNREAD, BudgetSpent("used up", "the budget is used up")])
@pytest.mark.parametrize("where", [(0, 1), (2, 3)])
async def test_a_juror_that_fails_on_one_pair_has_no_say_in_the_group(failure: Any, where: tuple[int, int]) -> None:
    """F10: bit for bit the rewards of the panel without it, whatever it had said of other pairs."""
    failing = Juror(0.7, {where: failure})
    jury = all_of(Juror(0.1), failing, Juror(0.3))
    judgement = await judged(jury)
    assert judgement.rewards == (await judged(all_of(Juror(0.1), Juror(0.3)))).rewards
    assert {verdict.judge % 3 for verdict in judgement.verdicts} == {0, 2}
    assert (judgement.failure_kind, judgement.failure_reason) == (None, None)
    assert [juror.verdicts for juror in judgement.jurors] == [4, 0, 4]
    why = judgement.jurors[1].left_out
    assert why
    assert "secret" not in why
    assert jury.tally.left_out == {"x": 0, "y": 1, "z": 0}


async def test_the_other_calls_of_a_juror_that_failed_are_cancelled_and_those_of_the_others_go_on() -> None:
    """F10, J3."""
    failing, good = Juror(script={(1, 2): DEAD}), Juror()
    failing.free.clear()
    judgement = await judged(all_of(failing, good))
    assert (failing.cancelled, good.cancelled) == (3, 0)
    assert len(judgement.verdicts) == 4


async def test_where_every_juror_fails_the_group_is_a_judge_failure() -> None:
    """F10, J13: though each pair has a verdict of one of them; the reason names each, the summary quotes nobody."""
    jury = all_of(Juror(script={(0, 1): DEAD}), Juror(script={(1, 2): UNREAD}))
    with pytest.raises(JudgeFailed) as failed:
        await judged(jury)
    assert "all 2 jurors failed: x: it said: secret words; y: answers 1 and 2: no number in it" in failed.value.reason
    assert "secret" not in failed.value.summary
    assert "transport" in failed.value.summary
    assert not isinstance(failed.value, BudgetSpent)


async def test_where_all_budgets_are_used_up_that_is_the_failure() -> None:
    """F12."""
    spent: Script = {(0, 1): BudgetSpent("used up", "the budget is used up")}
    with pytest.raises(BudgetSpent):
        await judged(all_of(Juror(script=spent), Juror(script=spent)))
    with pytest.raises(JudgeFailed) as failed:  # the next group may fare better
        await judged(all_of(Juror(script=spent), Juror(script={(0, 1): DEAD})))
    assert not isinstance(failed.value, BudgetSpent)


async def test_default_scores_stand_in_only_where_no_juror_has_all_its_verdicts() -> None:
    """F10, J13: a juror that could not be read is left out as long as another one could."""
    counted = Counted()
    unread = Juror(script={(0, 1): UNREAD})
    judgement = await judged(all_of(unread, Juror(0.5), rules=LENIENT, events=counted))
    assert judgement.failure_kind is None
    assert [juror.verdicts for juror in judgement.jurors] == [0, 4]
    assert counted.defaults == 0
    alone = await judged(all_of(unread, Juror(script={(0, 1): DEAD}), rules=LENIENT, events=counted))
    assert alone.failure_kind == DEFAULTED
    assert "1 of 4 verdicts" in str(alone.failure_reason)
    assert [juror.verdicts for juror in alone.jurors] == [4, 0]
    assert counted.defaults == 1


async def test_disagreement_is_told_of_the_group_and_of_each_juror() -> None:
    """F10: and summed up for the metrics."""
    odd: Script = {(i, (i + 1) % 4): JudgeCall(Reading(5.0 - i, 1.0 + i, 3.0)) for i in range(2)}
    jury = all_of(Juror(), Juror(), Juror(script=odd))
    judgement = await judged(jury)
    assert judgement.disagreement == 4 / 12
    assert [juror.disagreement for juror in judgement.jurors] == [2 / 8, 2 / 8, 4 / 8]
    assert (jury.tally.pairs, jury.tally.differing) == (12, 4)


async def test_a_defect_of_one_juror_is_no_failure_of_a_judge() -> None:
    """A programming error surfaces as what it is, and cancels the rest."""
    held = Juror()
    held.free.clear()
    with pytest.raises(KeyError, match="bug"):
        await judged(all_of(held, Juror(script={(0, 1): KeyError("bug")})))
    assert held.cancelled == 4


async def test_a_cancelled_group_leaves_no_call_of_any_juror() -> None:
    """L11, L16."""
    jurors = Juror(), Juror()
    for juror in jurors:
        juror.free.clear()
    judging = asyncio.create_task(judged(all_of(*jurors)))
    while len(jurors[1].asked) < 4:  # noqa: ASYNC110 -- nothing tells that it was asked
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert [juror.cancelled for juror in jurors] == [4, 4]


@pytest.mark.parametrize("jury", [all_of, in_turn])
async def test_a_group_of_one_asks_nobody(jury: Any) -> None:
    """L9."""
    jurors = Juror(), Juror()
    judgement = await judged(jury(*jurors), answers("only"))
    assert judgement.rewards == (3.0,)
    assert [juror.asked for juror in jurors] == [[], []]


# -- they take turns


def test_who_is_asked_hangs_on_the_pair_alone_and_is_spread_evenly() -> None:
    """F10: in a circle, and about evenly over all pairs of each answer; both orders of a pair are one juror's."""
    for jurors in (2, 3, 4):
        ring = Counter(turns(Pair(i, i + 1, 0), jurors)[0] for i in range(11))
        assert max(ring.values()) - min(ring[n] for n in range(jurors)) <= 1
        for answer in range(12):
            met = [Pair(*pair, 0) for pair in combinations(range(12), 2) if answer in pair]
            shares = Counter(turns(pair, jurors)[0] for pair in met)
            assert max(shares.values()) - min(shares[n] for n in range(jurors)) <= 3
    assert turns(Pair(3, 6, 0), 3) == turns(Pair(6, 3, 0), 3)
    assert sorted(turns(Pair(3, 6, 1), 4)) == [0, 1, 2, 3]
    assert {turns(Pair(2, 5, judge), 3)[0] for judge in range(3)} == {0, 1, 2}


async def test_each_pair_is_asked_of_one_juror() -> None:
    """F10: and its verdict says of which."""
    jurors = Juror(0.0), Juror(1.0)
    judgement = await judged(in_turn(*jurors))
    assert sorted(pair[:2] for juror in jurors for pair in juror.asked) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    for said in judgement.verdicts:
        assert said.score_1 == 1 + said.i / 4 + (said.judge % 2)
        assert Pair(said.i, said.j, 0) in jurors[said.judge % 2].asked
    assert [said.judge for said in judgement.verdicts] == sorted(said.judge for said in judgement.verdicts)
    assert [juror.verdicts for juror in judgement.jurors] == [2, 2]


@pytest.mark.parametrize("failure", [DEAD, UNREAD])
async def test_where_the_one_in_turn_fails_the_next_one_is_asked(failure: Any) -> None:
    """F10: its failure is counted, and no vote."""
    ring: Script = {(i, (i + 1) % 4): failure for i in range(4)}
    broken, good = Juror(script=ring), Juror(0.25)
    jury = in_turn(broken, good)
    judgement = await judged(jury)
    assert judgement.rewards == (await judged(in_turn(Juror(0.25), Juror(0.25)))).rewards
    assert [said.judge for said in judgement.verdicts] == [1, 1, 1, 1]
    assert jury.tally.left_out == {"x": 2, "y": 0}


async def test_where_nobody_could_read_a_pair_j13_holds() -> None:
    """J13: unreadable where one replied, else a judge failure."""
    unread, dead = {(0, 1): UNREAD}, {(0, 1): DEAD}
    with pytest.raises(JudgeFailed, match="no number in it"):
        await judged(in_turn(Juror(script={**unread}), Juror(script={**dead})))
    judgement = await judged(in_turn(Juror(script={**dead}), Juror(script={**unread}), rules=LENIENT))
    assert judgement.failure_kind == DEFAULTED
    with pytest.raises(JudgeFailed, match="secret words"):
        await judged(in_turn(Juror(script={**dead}), Juror(script={**dead}), rules=LENIENT))
    spent: Script = {(0, 1): BudgetSpent("used up", "s")}
    with pytest.raises(JudgeFailed, match="secret words"):
        await judged(in_turn(Juror(script=spent), Juror(script={**dead})))
    with pytest.raises(BudgetSpent):
        await judged(in_turn(Juror(script=spent), Juror(script=spent)))


# -- over sockets


async def test_hundreds_of_groups_before_jurors_that_fail_limit_and_lie() -> None:
    """F10, F11, L24: one juror is honest, one replies out of range to some groups, one dies over some; every group gets
    the mean over exactly those jurors that judged all of it."""

    def scores(request: judges.Received) -> tuple[float, float]:
        first, second = (float(message["content"]) for message in request.json["messages"][-2:])
        return first, second

    def honest(request: judges.Received) -> judges.Reply:
        first, second = scores(request)
        return verdict(1 + first % 4, 1 + second % 4, 3)

    def lying(request: judges.Received) -> judges.Reply:
        first, second = scores(request)
        return verdict(99, 1, 1) if int(first) // 100 % 3 == 0 else verdict(1 + second % 3, 1 + first % 3, 3)

    def dying(request: judges.Received) -> judges.Reply:
        first, _ = scores(request)
        return http(500) if int(first) // 100 % 5 == 0 else verdict(5, 5, 3.5)

    groups = [answers(*(str(100 * n + k) for k in range(4))) for n in range(120)]
    async with StubJudge(by=honest) as a, StubJudge(by=lying) as b, StubJudge(by=dying) as c:
        options = {"retries": 0, "max_concurrency": 8}
        async with judge_of(a, **options) as x, judge_of(b, **options) as y, judge_of(c, **options) as z:
            jury = AllJury(NAMES, (x, y, z), [RULES] * 3, NoEvents())
            told = await asyncio.gather(*(jury.judge(TOPIC, group) for group in groups))
            for n, (group, judgement) in enumerate(zip(groups, told, strict=True)):
                chosen = tuple(j for j in (x, y if n % 3 else None, z if n % 5 else None) if j is not None)
                alone = AllJury(NAMES[: len(chosen)], chosen, [RULES] * len(chosen), NoEvents())
                assert judgement.rewards == (await alone.judge(TOPIC, group)).rewards, n
            assert jury.tally.left_out == {"x": 0, "y": 40, "z": 24}
            assert {(j.gate.in_flight, j.gate.waiting) for j in (x, y, z)} == {(0, 0)}


async def test_a_panel_of_one_gives_what_a_single_judge_gives() -> None:
    """J20."""
    alone = await Panel(Juror(0.3), RULES).judge(TOPIC, FOUR)
    panel = await judged(all_of(Juror(0.3)))
    assert (panel.rewards, panel.verdicts) == (alone.rewards, alone.verdicts)
