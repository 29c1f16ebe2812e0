"""Cancelled at every place where a call can wait: no task, no place and no connection is left (J22, L11, L16, L19)."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from groupjudge.judging.gate import Gate
from groupjudge.judging.panel import Panel, PanelRules

from ..support import judges
from ..support.http_judges import TOPIC, Judged, answers, judge_of
from ..support.judges import StubJudge, http, verdict

TEXTS = answers(*map(str, range(6)))


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def nothing_is_left(judge: Judged, stub: StubJudge) -> None:
    assert (judge.gate.in_flight, judge.gate.waiting) == (0, 0)
    assert stub.other_tasks() == set()
    gc.collect()  # an unclosed connection or a task that nobody awaited would warn here, and warnings are errors


async def test_while_the_judge_thinks_its_connection_is_closed() -> None:
    """J22."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        stub.hold()
        call = asyncio.create_task(judge.ask())
        await stub.until(lambda: stub.in_flight == 1)
        await cancelled(call)
        await stub.until(lambda: not stub.open_connections)
        nothing_is_left(judge, stub)
    assert judge.counted.calls == [("cancelled", 0)]


async def test_in_the_middle_of_a_reply_its_connection_is_closed() -> None:
    """J22."""
    half = judges.Reply(verdict().raw[:-5], "silence")
    async with StubJudge(half) as stub, judge_of(stub) as judge:
        call = asyncio.create_task(judge.ask())
        await stub.until(lambda: len(stub.received) == 1)
        await cancelled(call)
        await stub.until(lambda: not stub.open_connections)
        nothing_is_left(judge, stub)


async def test_on_a_used_connection_it_is_closed_and_not_used_again() -> None:
    """J22: a late reply cannot reach the next call."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        await judge.ask()
        stub.hold()
        call = asyncio.create_task(judge.ask())
        await stub.until(lambda: stub.in_flight == 1)
        await cancelled(call)
        stub.let_go()
        await judge.ask()
        assert [request.connection for request in stub.received] == [0, 0, 1]
        nothing_is_left(judge, stub)


async def test_while_it_waits_for_a_place_it_leaves_the_queue() -> None:
    """J3: those behind it move up."""
    gate = Gate(1)
    async with StubJudge() as stub, judge_of(stub, gate=gate) as judge:
        async with gate:
            first, second = (asyncio.create_task(judge.ask()) for _ in range(2))
            await asyncio.sleep(0)
            assert gate.waiting == 2
            await cancelled(first)
            assert gate.waiting == 1
        assert await second == (4, 2, 2)
        nothing_is_left(judge, stub)
    assert len(stub.received) == 1


async def test_while_it_pauses() -> None:
    """L11, L16."""
    paused = asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    async with StubJudge(http(500)) as stub, judge_of(stub, sleep=sleep) as judge:
        call = asyncio.create_task(judge.ask())
        await paused.wait()
        await cancelled(call)
        nothing_is_left(judge, stub)
    assert len(stub.received) == 1


async def test_while_it_connects() -> None:
    """A listener whose queue is full takes no connection."""
    async with full_listener() as url, Judged(url) as judge, StubJudge() as stub:
        call = asyncio.create_task(judge.ask())
        while not judge.gate.in_flight:  # noqa: ASYNC110 -- nothing tells that a connect has begun
            await asyncio.sleep(0)
        await cancelled(call)
        nothing_is_left(judge, stub)


async def test_before_it_starts() -> None:
    async with StubJudge() as stub, judge_of(stub) as judge:
        call = asyncio.create_task(judge.ask())
        await cancelled(call)
        nothing_is_left(judge, stub)
    assert stub.received == []


@pytest.mark.parametrize("places", [2, 100])
async def test_a_whole_group_with_calls_under_way_and_waiting(places: int) -> None:
    """L11, L16, L19."""
    async with StubJudge() as stub, judge_of(stub, max_concurrency=places) as judge:
        stub.hold()
        judging = asyncio.create_task(Panel(judge, PanelRules("p")).judge(TOPIC, TEXTS))
        await stub.until(lambda: stub.in_flight == min(places, len(TEXTS)))
        await cancelled(judging)
        nothing_is_left(judge, stub)
        await stub.until(lambda: not stub.open_connections)
    assert len(stub.received) == min(places, len(TEXTS))


async def test_a_group_that_is_cancelled_leaves_another_one_alone() -> None:
    """L11."""
    async with StubJudge() as stub, judge_of(stub) as judge:
        panel = Panel(judge, PanelRules("p"))
        stub.hold()
        doomed, other = (asyncio.create_task(panel.judge(TOPIC, TEXTS)) for _ in range(2))
        await stub.until(lambda: stub.in_flight == 12)
        await cancelled(doomed)
        stub.let_go()
        assert len((await other).verdicts) == 6
        nothing_is_left(judge, stub)


async def test_cancelled_at_any_step_nothing_is_left() -> None:
    """L16: a call is cut off after 0, 1, 2, ... turns of the loop, until it gets through."""
    for turns in range(10_000):
        async with StubJudge(http(500)) as stub, judge_of(stub, max_concurrency=1) as judge:
            call = asyncio.create_task(judge.ask())
            for _ in range(turns):
                await asyncio.sleep(0)
            done = call.done()
            if not done:
                await cancelled(call)
            nothing_is_left(judge, stub)
        if done:
            assert call.result() == (4, 2, 2)
            return
    pytest.fail("the call never got through")


@asynccontextmanager
async def full_listener() -> AsyncIterator[str]:
    """The address of a socket that listens and never accepts, with its queue filled up."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            for filler in fillers:
                filler.close()
