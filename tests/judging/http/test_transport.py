"""Connections to a judge: reuse, idle ones that turn out to be closed, proxies (J22)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.model import Pair

from ...support import judges
from ...support.http_judges import TOPIC, Judged, answers, judge_of
from ...support.judges import Received, Reply, StubJudge, cut, verdict

CLOSED = {"closed": judges.DISCONNECT, "reset": judges.RESET}


def once_per_connection(lost: Reply) -> Callable[[Received], Reply]:
    """A judge that closes a connection just as its second request comes."""
    seen: Counter[int] = Counter()

    def script(request: Received) -> Reply:
        seen[request.connection] += 1
        return verdict() if seen[request.connection] == 1 else lost

    return script


@pytest.mark.parametrize("lost", CLOSED.values(), ids=CLOSED.keys())
async def test_an_idle_connection_that_the_judge_closed_is_not_a_failed_try(lost: Reply) -> None:
    """J22: the second call's request is lost with its connection, and goes out again without a try or a pause."""
    async with StubJudge(by=once_per_connection(lost)) as stub, judge_of(stub, retries=0) as judge:
        assert await judge.ask() == (4, 2, 2)
        assert await judge.ask() == (4, 2, 2)
    assert judge.counted.tries == [("ok", 200)] * 2
    assert judge.clock.pauses == []
    assert [request.connection for request in stub.received] == [0, 0, 1]
    assert len({request.body for request in stub.received}) == 1


async def test_a_closed_connection_that_was_noticed_in_time_is_not_used() -> None:
    """J22."""
    async with StubJudge() as stub, judge_of(stub, retries=0) as judge:
        await judge.ask()
        await stub.close_idle()
        await judge.ask()
    assert [request.connection for request in stub.received] == [0, 1]
    assert judge.clock.pauses == []


async def test_a_whole_pool_of_closed_connections_costs_no_try() -> None:
    """J22: a judge that was restarted closed all of them."""
    texts = answers(*map(str, range(50)))
    async with StubJudge(by=once_per_connection(judges.DISCONNECT)) as stub, judge_of(stub, retries=0) as judge:
        prepared = judge.prepare(TOPIC, texts)
        for _ in range(2):
            stub.hold()
            calls = [asyncio.create_task(judge.compare(prepared, Pair(n, 0, 0))) for n in range(50)]
            await stub.until(lambda: stub.in_flight == 50)
            stub.let_go()
            await asyncio.gather(*calls)
    assert judge.counted.tries == [("ok", 200)] * 100
    assert judge.clock.pauses == []


async def test_a_lost_request_does_not_try_its_luck_with_another_idle_connection() -> None:
    """J22: of three in the pool all were closed; the request goes out on a new one."""
    texts = answers("a", "b", "c")
    script = once_per_connection(judges.DISCONNECT)
    async with StubJudge(by=script) as stub, judge_of(stub, retries=0) as judge:
        prepared = judge.prepare(TOPIC, texts)
        stub.hold()
        calls = [asyncio.create_task(judge.compare(prepared, Pair(n, 0, 0))) for n in range(3)]
        await stub.until(lambda: stub.in_flight == 3)
        stub.let_go()
        await asyncio.gather(*calls)
        assert await judge.ask() == (4, 2, 2)
    assert len(stub.received) == 3 + 2
    assert stub.received[-1].connection == 3


async def test_a_request_is_sent_at_most_twice_in_one_try() -> None:
    """J22: a judge that dies over every request is not asked for ever."""
    first = [verdict()]

    def dying(_: Received) -> Reply:
        return first.pop() if first else judges.DISCONNECT

    async with StubJudge(by=dying) as stub, judge_of(stub, retries=0) as judge:
        await judge.ask()
        with pytest.raises(JudgeFailed, match="after 1 try"):
            await judge.ask()
    assert len(stub.received) == 1 + 2


@pytest.mark.parametrize("lost", CLOSED.values(), ids=CLOSED.keys())
async def test_a_new_connection_that_is_lost_is_a_failed_try(lost: Reply) -> None:
    """J12: a connection error, tried again after a pause."""
    async with StubJudge(lost) as stub, judge_of(stub, retries=1) as judge:
        assert await judge.ask() == (4, 2, 2)
    assert [result for result, _ in judge.counted.tries] == ["transport", "ok"]
    assert len(judge.clock.pauses) == 1


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_reply_that_is_cut_on_a_used_connection_is_a_failed_try(how: judges.Then) -> None:
    """J12: some of the reply came, so the connection was not closed while idle."""
    half = replace(cut(verdict()), then=how)
    async with StubJudge(verdict(), half) as stub, judge_of(stub, retries=1) as judge:
        await judge.ask()
        assert await judge.ask() == (4, 2, 2)
    assert [result for result, _ in judge.counted.tries] == ["ok", "transport", "ok"]


async def test_a_connection_made_for_a_lost_request_is_not_kept() -> None:
    """J22: one pool."""
    async with StubJudge(by=once_per_connection(judges.DISCONNECT)) as stub, judge_of(stub) as judge:
        await judge.ask()
        await judge.ask()
        await stub.until(lambda: not stub.open_connections)


async def test_cookies_of_the_judge_are_not_sent_back() -> None:
    """J22: every try sends the same request."""
    script = judges.http(500, "", {"Set-Cookie": "a=1"})
    async with StubJudge(script) as stub, judge_of(stub) as judge:
        await judge.ask()
    assert all("cookie" not in request.headers for request in stub.received)
    assert "user-agent" not in stub.received[0].headers


@pytest.fixture
def no_proxy_settings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


async def test_proxies_of_the_environment_are_ignored(no_proxy_settings: pytest.MonkeyPatch) -> None:
    """J22."""
    async with StubJudge() as proxy, StubJudge() as stub:
        no_proxy_settings.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        async with judge_of(stub) as judge:
            await judge.ask()
    assert (len(proxy.received), len(stub.received)) == (0, 1)


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
async def test_with_trust_env_the_proxy_is_used_and_its_password_never_shown(
    no_proxy_settings: pytest.MonkeyPatch, name: str
) -> None:
    """J22, J12."""
    async with StubJudge(judges.http(407, "not anna:hunter22")) as proxy:
        no_proxy_settings.setenv(name, f"http://anna:hunter22@127.0.0.1:{proxy.port}")
        async with Judged("http://judge.invalid/v1", trust_env=True, api_key="k-1") as judge:
            with pytest.raises(JudgeFailed) as failed:
                await judge.ask()
    (request,) = proxy.received
    assert request.target == "http://judge.invalid/v1/chat/completions"
    assert request.headers["proxy-authorization"] == "Basic YW5uYTpodW50ZXIyMg=="
    assert request.headers["authorization"] == "Bearer k-1"
    assert "407" in failed.value.reason
    assert "hunter22" not in failed.value.reason


async def test_a_proxy_on_the_way_to_https_gets_its_password_with_the_tunnel_only(
    no_proxy_settings: pytest.MonkeyPatch,
) -> None:
    """J22: and the judge's key never."""
    async with StubJudge(otherwise=judges.http(407, "no")) as proxy:
        no_proxy_settings.setenv("https_proxy", f"http://anna:hunter22@127.0.0.1:{proxy.port}")
        async with Judged("https://judge.invalid/v1", trust_env=True, api_key="k-1", retries=0) as judge:
            with pytest.raises(JudgeFailed) as failed:
                await judge.ask()
            assert "Proxy-Authorization" not in judge._endpoints[0]._transport._way.how_to_ask["headers"]
    (request,) = proxy.received
    assert (request.method, request.target) == ("CONNECT", "judge.invalid:443")
    assert request.headers["proxy-authorization"] == "Basic YW5uYTpodW50ZXIyMg=="
    assert "authorization" not in request.headers
    assert "hunter22" not in failed.value.reason


async def test_a_host_that_needs_no_proxy_gets_none(no_proxy_settings: pytest.MonkeyPatch) -> None:
    """J22: `no_proxy` counts where `trust_env` is on."""
    async with StubJudge() as proxy, StubJudge() as stub:
        no_proxy_settings.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        no_proxy_settings.setenv("no_proxy", "127.0.0.1")
        async with judge_of(stub, trust_env=True) as judge:
            await judge.ask()
    assert (len(proxy.received), len(stub.received)) == (0, 1)
