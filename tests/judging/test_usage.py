"""What judges cost, by group too, and budgets that end judging (F12)."""

from __future__ import annotations

import asyncio

import pytest

from groupjudge.errors import BudgetSpent, JudgeFailed
from groupjudge.judging.client import HttpJudge, HttpJudgeOptions
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.judging.usage import Budget, Meter, Prices, group_accounts, usages_of
from groupjudge.model import JudgeUsage

from ..support import judges
from ..support.http_judges import RULES as RULES_OF_READING
from ..support.http_judges import TOPIC, answers, judge_of
from ..support.judges import StubJudge, chat, http

RULES = PanelRules("p")
FEW = {"max_concurrency": 4}


def priced(prompt: int, completion: int) -> judges.Reply:
    return chat(judges.verdict_text(), usage={"prompt_tokens": prompt, "completion_tokens": completion})


def test_money_is_made_of_tokens_and_prices_of_a_million() -> None:
    """F12: and there is none without a price."""
    meter = Meter("m", Prices(2.0, 10.0))
    meter.sent()
    meter.used(500_000, 30_000)
    assert meter.usage(meter.total) == JudgeUsage("m", 1, 500_000, 30_000, 1.3)
    free = Meter("f")
    free.used(5, 5)
    assert free.usage(free.total).money is None


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(calls=3), "the budget of m is used up (3 of 3 calls): raise judges.1.budget.calls and start anew"),
        (Budget(tokens=33), "(33 of 33 tokens): raise judges.1.budget.tokens"),
        (Budget(money=33.0), "(33.00 of 33.00): raise judges.1.budget.money"),
    ],
)
def test_a_budget_is_used_up_when_it_is_reached(budget: Budget, says: str) -> None:
    """F12: not before, and it says what to do."""
    meter = Meter("m", Prices(1e6, 1e6), budget, "judges.1")
    for _ in range(3):
        assert meter.why_spent() is None
        meter.sent()
        meter.used(10, 1)
    assert says in str(meter.why_spent())
    assert Meter("m", Prices(1e6, 1e6)).why_spent() is None


async def test_each_group_has_an_account_of_its_own() -> None:
    """F12: groups that are judged at once do not pay for each other; failed tries count."""
    replies = [http(500), *[priced(10, 2)] * 20]
    async with StubJudge(*replies) as stub, judge_of(stub) as judge:
        panel = Panel(judge, RULES)

        async def judged(size: int) -> tuple[JudgeUsage, ...]:
            with group_accounts() as accounts:
                await panel.judge(TOPIC, answers(*map(str, range(size))))
            return usages_of(accounts)

        usages = await asyncio.gather(*(judged(size) for size in (2, 3, 5)))
        total = judge.meters[0].usage(judge.meters[0].total)
    assert [usage.prompt_tokens for (usage,) in usages] == [20, 30, 50]
    assert sorted(usage.calls for (usage,) in usages) in ([2, 3, 6], [2, 4, 5], [3, 3, 5])
    assert total == JudgeUsage("judge", 11, 100, 20, None)


async def test_a_budget_of_calls_is_kept_to_the_call_with_thousands_under_way() -> None:
    """F12: what comes after it is a judge failure, never a score."""
    async with StubJudge() as stub, judge_of(stub, budget=Budget(calls=100), max_concurrency=64) as judge:
        panel = Panel(judge, RULES)
        texts = answers(*map(str, range(10)))
        ended = await asyncio.gather(*(panel.judge(TOPIC, texts) for _ in range(200)), return_exceptions=True)
        failed = [end for end in ended if isinstance(end, BaseException)]
        assert len(stub.received) <= 100
        assert judge.meters[0].total.calls == 100
        assert len(failed) >= 190
        assert all(isinstance(end, BudgetSpent) for end in failed)
        assert {str(end) for end in failed} == {
            "the budget of judge is used up (100 of 100 calls): raise judge.budget.calls and start anew"
        }
        assert {end.summary for end in failed if isinstance(end, JudgeFailed)} == {"the budget is used up"}
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)


async def test_a_budget_of_tokens_is_exceeded_by_what_was_under_way_and_no_more() -> None:
    """F12."""
    async with StubJudge(otherwise=priced(9, 1)) as stub, judge_of(stub, budget=Budget(tokens=100), **FEW) as judge:
        calls = await asyncio.gather(*(judge.ask() for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(call, BudgetSpent) for call in calls) == 50 - len(stub.received)
    assert 10 <= len(stub.received) <= 10 + 3


async def test_tries_count_towards_a_budget_and_none_is_made_beyond_it() -> None:
    """F12, J12: a call may end in its middle."""
    async with StubJudge(otherwise=http(503)) as stub, judge_of(stub, budget=Budget(calls=2), retries=5) as judge:
        with pytest.raises(BudgetSpent):
            await judge.ask()
    assert len(stub.received) == 2


async def test_of_replicas_the_one_with_budget_left_goes_on() -> None:
    """F10, F12."""
    async with StubJudge() as a, StubJudge() as b, judge_of(a, b, budget=Budget(calls=4)) as judge:
        assert await asyncio.gather(*(judge.ask() for _ in range(8))) == [(4, 2, 2)] * 8
        with pytest.raises(BudgetSpent):
            await judge.ask()
        assert await judge.reachable() is not None
    assert len([r for r in (*a.received, *b.received) if r.method == "POST"]) == 8


async def test_a_replica_whose_budget_is_used_up_is_asked_no_more_however_idle_it_is() -> None:
    """F10, F12: no call fails as long as another replica has budget."""
    async with StubJudge() as small, StubJudge() as large:
        options = [
            HttpJudgeOptions(stub.base_url, format="genrm", max_concurrency=4, budget=Budget(calls=calls))
            for stub, calls in ((small, 3), (large, 1000))
        ]
        async with HttpJudge(options[0], RULES_OF_READING, others=options[1:]) as judge:
            judgements = await asyncio.gather(
                *(Panel(judge, RULES).judge(TOPIC, answers(*map(str, range(5)))) for _ in range(30))
            )
    assert len(judgements) == 30
    assert (len(small.received), len(large.received)) == (3, 147)


async def test_a_judge_whose_budget_is_used_up_is_not_ready() -> None:
    """F12, H8."""
    async with StubJudge() as stub, judge_of(stub, budget=Budget(calls=1)) as judge:
        assert await judge.reachable() is None
        await judge.ask()
        assert "budget" in str(await judge.reachable())
