"""One judge at several addresses, and limits that all calls share, over real sockets (F10, F11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.judging.endpoint import Try
from groupjudge.judging.panel import Panel, PanelRules
from groupjudge.model import Pair

from ..support import judges
from ..support.http_judges import TOPIC, Judged, answers, judge_of
from ..support.judges import DISCONNECT, HTML, RESET, StubJudge, chat, http, verdict

RULES = PanelRules("p")


def asked(stub: StubJudge) -> list[bytes]:
    return [request.body for request in stub.received]


async def pass_time(judge: Judged) -> None:
    """So that what rests or is left out comes back."""
    while True:
        judge.clock.advance(0.5)
        await asyncio.sleep(0.005)


async def work(stub: StubJudge) -> None:
    """Each of its replies takes a while, so that requests are under way together."""
    while True:
        await asyncio.sleep(0.002)
        stub.let_go_of(lambda _: True)


async def closed_address() -> str:
    """Where nobody listens."""
    async with StubJudge() as gone:
        return gone.base_url


@pytest.mark.parametrize(
    "fault",
    [
        http(500),
        http(502, "x"),
        http(503),
        http(401),
        http(403),
        http(404),
        http(308),
        HTML,
        DISCONNECT,
        RESET,
        http(body=b""),
    ],
)
async def test_a_try_goes_on_at_another_address_where_the_first_one_is_at_fault(fault: judges.Reply) -> None:
    """F10, J12: without a pause, without using up a try, and with the same request."""
    async with StubJudge(otherwise=fault) as bad, StubJudge() as good, judge_of(bad, good, retries=0) as judge:
        assert await judge.ask() == (4, 2, 2)
    assert judge.clock.pauses == []
    assert asked(good) == [asked(bad)[0]]
    assert judge.counted.calls == [("verdict", 1)]


async def test_a_dead_address_uses_up_no_try_of_any_call() -> None:
    """F10, J12: nobody listens there; hundreds of calls without a single retry all get their verdicts."""
    dead = await closed_address()
    async with StubJudge() as good, Judged(dead, good.base_url, retries=0, max_concurrency=20) as judge:
        panel = Panel(judge, RULES)
        texts = answers(*map(str, range(8)))
        judged = await asyncio.gather(*(panel.judge(TOPIC, texts) for _ in range(100)))
    assert len(judged) == 100
    assert len(good.received) == 800
    assert judge.clock.pauses == []


async def test_an_address_that_hangs_costs_its_calls_the_deadline_and_not_their_verdict() -> None:
    """F10, J12: the deadline is one of that address."""
    async with StubJudge() as hung, StubJudge() as good, judge_of(hung, good, request_timeout_s=0.1) as judge:
        hung.hold()
        assert await asyncio.gather(*(judge.ask() for _ in range(6))) == [(4, 2, 2)] * 6
    assert {result for result, _ in judge.counted.tries} == {"deadline", "ok"}


async def test_it_is_tried_again_after_a_while_by_one_call() -> None:
    """F10."""
    async with StubJudge(http(503)) as flaky, StubJudge() as good, judge_of(flaky, good) as judge:
        for _ in range(4):
            await judge.ask()
        assert (len(flaky.received), len(good.received)) == (1, 4)
        judge.clock.advance(1.0)
        await judge.ask()
        await judge.ask()
    assert len(flaky.received) == 2


@pytest.mark.parametrize("reply", [http(400, "too long"), http(422, "no"), http(413, "large")])
async def test_a_request_that_is_refused_for_itself_is_not_taken_elsewhere(reply: judges.Reply) -> None:
    """J12: another address of the same judge would say the same."""
    async with StubJudge(reply) as first, StubJudge() as second, judge_of(first, second) as judge:
        with pytest.raises(JudgeFailed, match="after 1 try"):
            await judge.ask()
        assert second.received == []
        assert await judge.ask() == (4, 2, 2)
        assert await judge.ask() == (4, 2, 2)
    assert (len(first.received), len(second.received)) == (2, 1)


async def test_where_all_addresses_are_at_fault_a_call_has_its_tries_and_fails() -> None:
    """F10, J12, J13: each of its tries asks every address that is not left out, and the pauses are the usual ones."""
    async with (
        StubJudge(otherwise=http(503, "a")) as a,
        StubJudge(otherwise=http(503, "b")) as b,
        judge_of(a, b, retries=2) as judge,
    ):
        with pytest.raises(JudgeFailed, match=r"after 3 tries: .*status 503"):
            await judge.ask()
    assert judge.clock.pauses == pytest.approx([0.2, 0.4])
    assert len(a.received) + len(b.received) == 4


async def test_an_unreadable_reply_uses_up_a_try() -> None:
    """J12: a judge that stammers does so at all its addresses."""
    async with (
        StubJudge(otherwise=chat("hm")) as a,
        StubJudge(otherwise=chat("hm")) as b,
        judge_of(a, b, retries=1) as judge,
    ):
        assert "after 2 tries" in str(await judge.ask())
    assert (len(a.received), len(b.received)) == (1, 1)


async def test_a_cancelled_call_holds_no_place_at_any_address() -> None:
    """L11, J3."""
    async with StubJudge() as a, StubJudge() as b, judge_of(a, b, max_concurrency=2) as judge:
        a.hold(), b.hold()
        judging = asyncio.create_task(Panel(judge, RULES).judge(TOPIC, answers(*map(str, range(8)))))
        await a.until(lambda: a.in_flight == 2)
        await b.until(lambda: b.in_flight == 2)
        assert judge.gate.waiting == 4
        judging.cancel()
        await asyncio.gather(judging, return_exceptions=True)
        await a.until(lambda: not a.open_connections)
        await b.until(lambda: not b.open_connections)
        assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)


async def test_hundreds_of_groups_get_their_own_verdicts_from_addresses_that_come_and_go() -> None:
    """F10, L24, J20: one fails every third request, one limits; each reply hangs on its request, and the rewards are
    those of a single judge."""

    def by_answers(request: judges.Received) -> judges.Reply:
        first, second = (float(message["content"]) for message in request.json["messages"][-2:])
        return verdict(1 + first % 4, 1 + second % 4, 1 + (first + second) % 5)

    count = {"flaky": 0, "limited": 0}

    def flaky(request: judges.Received) -> judges.Reply:
        count["flaky"] += 1
        return (http(500), RESET, DISCONNECT)[count["flaky"] % 3] if count["flaky"] % 3 == 0 else by_answers(request)

    def limited(request: judges.Received) -> judges.Reply:
        count["limited"] += 1
        return http(429, "", {"Retry-After": "1"}) if count["limited"] % 5 == 0 else by_answers(request)

    groups = [answers(*(str(n * 7 + k) for k in range(4))) for n in range(200)]

    async def judged(stubs: Sequence[StubJudge]) -> list[tuple[float, ...]]:
        async with judge_of(*stubs, max_concurrency=16, retries=12) as judge:
            passing = asyncio.create_task(pass_time(judge))
            panel = Panel(judge, RULES)
            rewards = [j.rewards for j in await asyncio.gather(*(panel.judge(TOPIC, group) for group in groups))]
            assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
            passing.cancel()
        return rewards

    async with AsyncExitStack() as stack:
        one, a, b, c = [
            await stack.enter_async_context(StubJudge(by=by)) for by in (by_answers, by_answers, flaky, limited)
        ]
        assert await judged([a, b, c]) == await judged([one])
        assert all(len(stub.received) > 10 for stub in (a, b, c))


async def test_a_limited_address_rests_and_its_calls_go_to_another() -> None:
    """F10, F11: at once, and no try is used up."""
    busy = http(429, "", {"Retry-After": "30"})
    async with StubJudge(busy) as limited, StubJudge() as free, judge_of(limited, free, retries=0) as judge:
        for _ in range(5):
            assert await judge.ask() == (4, 2, 2)
        assert (len(limited.received), len(free.received)) == (1, 5)
        judge.clock.advance(30)
        await judge.ask()
        await judge.ask()
    assert len(limited.received) == 2


async def test_one_that_is_limited_slows_all_calls_to_that_judge() -> None:
    """F11: no other call is sent before the time that the judge named, and then all are."""
    resume = asyncio.Event()

    async def sleep(_: float) -> None:
        await resume.wait()

    async with StubJudge(http(429, "", {"Retry-After": "20"})) as stub, judge_of(stub, sleep=sleep) as judge:
        first = asyncio.create_task(judge.ask())
        await stub.until(lambda: len(stub.received) == 1 and not stub.in_flight)
        while judge.gate.in_flight:  # noqa: ASYNC110 -- nothing tells that the reply was read
            await asyncio.sleep(0)
        others = [asyncio.create_task(judge.ask()) for _ in range(5)]
        await asyncio.sleep(0)
        judge.clock.advance(19.9)
        await asyncio.sleep(0.05)  # what is under test is that nothing comes of it
        assert (judge.gate.waiting, len(stub.received)) == (5, 1)
        judge.clock.advance(0.2)
        assert await asyncio.gather(*others) == [(4, 2, 2)] * 5
        resume.set()
        assert await first == (4, 2, 2)


async def test_requests_a_minute_are_kept_over_all_groups() -> None:
    """F11."""
    async with StubJudge() as stub, judge_of(stub, requests_per_minute=600) as judge:
        calls = [asyncio.create_task(judge.ask()) for _ in range(40)]
        await stub.until(lambda: len(stub.received) == 10)
        for _ in range(29):
            judge.clock.advance(60 / 591)
        await stub.until(lambda: len(stub.received) == 39)
        judge.clock.advance(1)
        await asyncio.gather(*calls)
    assert judge.clock.now == pytest.approx(29 * 60 / 591 + 1)


def counted_tokens(tokens: int) -> judges.Reply:
    return chat(judges.verdict_text(), usage={"prompt_tokens": tokens - 1, "completion_tokens": 1})


async def test_tokens_a_minute_follow_what_the_judge_counted() -> None:
    """F11: the first call is thought to take the worst, the next ones what it took."""
    params = {"max_tokens": 6000}
    async with (
        StubJudge(otherwise=counted_tokens(600)) as stub,
        judge_of(stub, tokens_per_minute=600, params=params) as judge,
    ):
        first, second = asyncio.create_task(judge.ask()), asyncio.create_task(judge.ask())
        await first
        assert judge.gate.waiting == 1
        due = judge.clock.next_timer
        assert due is not None
        assert due == pytest.approx(600 * 60 / 591, rel=0.2)
        judge.clock.advance(due)
        await second
        third = asyncio.create_task(judge.ask())
        await asyncio.sleep(0)
        assert judge.gate.waiting == 1
        judge.clock.advance(2 * due)
        await third


async def test_a_refusal_costs_no_tokens() -> None:
    """F11: nothing was generated."""
    async with (
        StubJudge(http(503)) as stub,
        judge_of(stub, tokens_per_minute=60, params={"max_tokens": 100}) as judge,
    ):
        assert await judge.ask() == (4, 2, 2)
    assert judge.clock.now == pytest.approx(0.2)


async def test_concurrency_adapts_to_what_the_judge_bears() -> None:
    """F11: it bears 8 at once and says 429 beyond. All calls get their verdicts, and few of them are refused."""
    stub = StubJudge(by=lambda _: http(429) if stub.in_flight > 8 else verdict())
    async with stub, judge_of(stub, min_concurrency=2, max_concurrency=64, retries=30) as judge:
        stub.hold()
        working = asyncio.create_task(work(stub))
        adaptive = judge.gate.desks[0].concurrency
        assert adaptive.limit == 2
        assert await asyncio.gather(*(judge.ask() for _ in range(400))) == [(4, 2, 2)] * 400
        working.cancel()
    refused = [status for _, status in judge.counted.tries if status == 429]
    assert adaptive.cuts > 0
    assert 0 < len(refused) < 100
    assert 2 <= adaptive.limit < 32


async def test_a_judge_at_several_addresses_is_reachable_where_one_is() -> None:
    """H8."""
    dead = await closed_address()
    async with StubJudge(otherwise=http(404)) as good, Judged(dead, good.base_url) as judge:
        assert await judge.reachable() is None
    async with Judged(dead, dead + "/b") as judge:
        assert str(await judge.reachable()).count("cannot connect") == 2


@pytest.mark.parametrize(
    ("ended", "too_many", "fault"),
    [
        (Try("ok", status=200), False, False),
        (Try("unreadable", status=200), False, False),
        (Try("unfinished", status=200), False, False),
        (Try("deadline"), True, True),
        (Try("transport"), True, True),
        (Try("transport", status=200), False, True),
        (Try("transport", status=408), True, False),
        (Try("transport", status=429), True, False),
        (Try("transport", status=500), False, True),
        (Try("transport", status=503), True, True),
        (Try("transport", status=504), True, True),
        (Try("rejected", status=400), False, False),
        (Try("rejected", status=401), False, True),
        (Try("rejected", status=404), False, True),
        (Try("rejected", status=307), False, True),
    ],
)
def test_what_an_ending_says_of_the_address(ended: Try, too_many: bool, fault: bool) -> None:
    """F10, F11."""
    assert (ended.is_too_many, ended.is_its_fault) == (too_many, fault)


async def test_the_size_of_a_request_is_known_before_it_is_made() -> None:
    """F11."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        prepared = judge.prepare(TOPIC, answers("short", "a much longer answer é"))
        await judge.compare(prepared, Pair(1, 0, 0))
        assert len(stub.received[0].body) == prepared.requests.size(Pair(1, 0, 0))
        assert json.loads(stub.received[0].body)
