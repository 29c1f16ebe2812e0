"""The client against real servers: outcomes, errors, tries over a killed server, loops, threads, forks (A4)."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
import uvloop

from groupjudge import (
    AsyncClient,
    Client,
    DeadlinePassed,
    GroupFailed,
    InvalidRequest,
    JudgeFailure,
    Outcome,
    Refusal,
    Rewarded,
    Unauthorized,
)
from groupjudge.errors import AnswerConflict, BodyTooLarge

from .calling import BOUND_S, cancelled_after
from .conftest import Serve
from .groups import HUGE, REJECTED, TOKEN, Group, TextJudge, question
from .serving import SRC, Server, environment

Caller = Callable[[Group, int], Coroutine[Any, Any, Outcome]]


def where(group: Group, slot: int) -> dict[str, Any]:
    """How a call names a member of the group."""
    return {"group_id": group.name, "attempt": group.attempt, "size": group.size, "slot": slot}


def by_async(address: str, **settings: Any) -> Caller:
    """Calls of the asynchronous client."""
    client = AsyncClient(address, **settings)
    return lambda group, slot: client.verify(question(group.name), group.text(slot), **where(group, slot))


def by_thread(address: str, **settings: Any) -> Caller:
    """Calls of one blocking client, each in a thread."""
    client = Client(address, **settings)

    def call(group: Group, slot: int) -> Coroutine[Any, Any, Outcome]:
        return asyncio.to_thread(client.verify, question(group.name), group.text(slot), **where(group, slot))

    return call


def by_loop(address: str, **settings: Any) -> Caller:
    """Calls of one asynchronous client, each on an event loop of its own."""
    client = AsyncClient(address, **settings)

    def call(group: Group, slot: int) -> Coroutine[Any, Any, Outcome]:
        call = client.verify(question(group.name), group.text(slot), **where(group, slot))
        return asyncio.to_thread(asyncio.run, call)

    return call


def by_uvloop(address: str, **settings: Any) -> Caller:
    """The same on the event loop that many hosts put in the place of asyncio's."""
    client = AsyncClient(address, **settings)

    def call(group: Group, slot: int) -> Coroutine[Any, Any, Outcome]:
        call = client.verify(question(group.name), group.text(slot), **where(group, slot))
        return asyncio.to_thread(uvloop.run, call)

    return call


ALL = pytest.mark.parametrize("by", [by_async, by_thread, by_loop, by_uvloop])


async def outcomes(call: Caller, group: Group) -> list[Outcome]:
    """Those of a whole group."""
    async with cancelled_after([asyncio.ensure_future(call(group, slot)) for slot in range(group.size)]) as calls:
        return await asyncio.wait_for(asyncio.gather(*calls), BOUND_S)


@ALL
async def test_each_member_of_a_group_gets_its_reward(
    server: Server, judge: TextJudge, group: Group, by: Callable[..., Caller]
) -> None:
    """A4: a reward is a value with the member's slot; asked again, it is the same one, also on another event loop."""
    call = by(server.address)
    expected = [Rewarded(reward, slot) for slot, reward in enumerate(group.rewards())]
    assert await outcomes(call, group) == expected
    assert await outcomes(call, group) == expected
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


@ALL
async def test_a_judge_failure_is_a_value_without_a_reward(
    server: Server, group: Group, by: Callable[..., Caller]
) -> None:
    """A4, A5: no reward is not a reward of 0."""
    told = await outcomes(by(server.address), replace(group, note=REJECTED))
    assert [type(outcome) for outcome in told] == [JudgeFailure] * 4
    assert [outcome.reward for outcome in told] == [None] * 4
    assert [outcome.slot for outcome in told] == [0, 1, 2, 3]


async def test_what_the_server_refuses_is_raised_by_its_class(server: Server, group: Group) -> None:
    """A4: the state does not admit it, so it is not tried again; told apart from a group that failed."""
    client = AsyncClient(server.address)
    async with cancelled_after([asyncio.ensure_future(client.verify("q", "A", **where(group, 0)))]):
        await server.client.until_members(group.name, 1)
        with pytest.raises(AnswerConflict, match="already holds another answer") as raised:
            await client.verify("q", "B", **where(group, 0))
    assert isinstance(raised.value, Refusal)
    failing = replace(group, name=f"{group.name} fails", note=HUGE)
    answers = [failing.text(slot) for slot in range(4)]
    for _ in range(2):
        with pytest.raises(GroupFailed, match="higher _ng_group_attempt"):
            await client.judge(question(failing.name), answers, group_id=failing.name)
    server.may_log.add("no_finite_reward")
    with pytest.raises(InvalidRequest, match="_ng_rollout_index"):
        await client.verify("q", "A", **where(group, 4))


@pytest.mark.parametrize("by", [by_async, by_thread])
async def test_a_body_that_is_too_large_is_told_so_before_it_is_sent(
    server: Server, group: Group, by: Callable[..., Caller]
) -> None:
    """A4, H5: the server answers and hangs up while the body is still coming."""
    with pytest.raises(BodyTooLarge, match="max_body_bytes"):
        await by(server.address, deadline_s=20)(replace(group, note="x" * 20_000_000), 0)


async def test_a_token_is_sent_and_a_missing_one_is_told(serve: Serve, group: Group) -> None:
    """A4: at once."""
    async with serve({"server.auth_token": TOKEN, "group.size": 4}) as server:
        assert await outcomes(by_async(server.address, token=TOKEN), group)
        with pytest.raises(Unauthorized, match="bearer token"):
            await by_async(server.address)(group, 0)


@pytest.mark.parametrize("by", [by_async, by_thread])
async def test_nobody_there_until_the_deadline(group: Group, by: Callable[..., Caller]) -> None:
    """A4: the error names what it met; it is a TimeoutError too."""
    with pytest.raises(DeadlinePassed, match="ConnectionRefusedError") as raised:
        await by("http://127.0.0.1:9", deadline_s=3.0)(group, 0)
    assert isinstance(raised.value, TimeoutError)


async def test_an_outcome_that_does_not_come_until_the_deadline(server: Server, group: Group) -> None:
    """A4: the member stays, and the same call again is safe."""
    call = by_async(server.address, deadline_s=0.3)
    with pytest.raises(DeadlinePassed):
        await call(group, 0)
    told = await outcomes(by_async(server.address), group)
    assert [outcome.reward for outcome in told] == group.rewards()


@pytest.mark.parametrize("by", [by_async, by_thread])
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
async def test_callers_outlive_a_server_that_is_killed_and_started_again(
    serve: Serve, group: Group, number: int, by: Callable[..., Caller]
) -> None:
    """A4: by a crash, and by a stop that tells them; nobody is left out and nobody gets another's reward."""
    async with serve({"group.size": 4}) as server:
        call, port = by(server.address), server.port
        calls = [asyncio.ensure_future(call(group, slot)) for slot in range(3)]
        await server.client.until_members(group.name, 3)
        await server.stop(number)
    async with cancelled_after(calls), serve({"group.size": 4, "server.port": port}) as server:
        await server.client.until_members(group.name, 3)
        calls.append(asyncio.ensure_future(call(group, 3)))
        told = await asyncio.wait_for(asyncio.gather(*calls), BOUND_S)
    assert told == [Rewarded(reward, slot) for slot, reward in enumerate(group.rewards())]


async def test_a_submitted_member_outlives_a_server_that_is_killed(serve: Serve, group: Group) -> None:
    """A2, A4: whoever asks for an outcome that the new server does not know sends the member again; a submission may
    have been pickled meanwhile."""
    asked = question(group.name)
    async with serve({"group.size": 4}) as server:
        client, port = AsyncClient(server.address), server.port
        left = [await client.submit(asked, group.text(slot), **where(group, slot)) for slot in range(3)]
        assert [each.slot for each in left] == [0, 1, 2]
        await server.stop(SIGKILL)
    async with serve({"group.size": 4, "server.port": port}):
        calls = [asyncio.ensure_future(client.result(pickle.loads(pickle.dumps(each)))) for each in left]
        async with cancelled_after(calls):
            last = await client.submit(asked, group.text(3), **where(group, 3))
            told = await asyncio.wait_for(asyncio.gather(*calls, client.result(last)), BOUND_S)
    assert [outcome.reward for outcome in told] == group.rewards()


async def test_the_three_ways_are_one(server: Server, judge: TextJudge, group: Group) -> None:
    """A1, A2, A4: a group that was judged whole is that of its members, sent by `verify` or by `submit`."""
    client, blocking = AsyncClient(server.address), Client(server.address)
    asked = question(group.name)
    texts = [[{"role": "assistant", "content": group.text(slot)}] for slot in range(4)]
    judged = await client.judge(asked, texts, group_id=group.name)
    assert judged.rewards == group.rewards()
    assert judged.verdicts is not None
    assert len(judged.verdicts) == 4
    assert await asyncio.to_thread(blocking.judge, asked, texts, group_id=group.name) == judged
    assert await outcomes(by_async(server.address), group) == list(judged.outcomes)
    left = await asyncio.to_thread(blocking.submit, asked, texts[2], **where(group, 2))
    assert left.outcome == judged.outcomes[2]
    assert await asyncio.to_thread(blocking.result, left) == judged.outcomes[2]
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)
    unnamed = await client.judge(asked, [group.text(slot) for slot in range(4)])
    assert unnamed.rewards == group.rewards()


async def test_members_known_by_an_id_of_their_own(server: Server, group: Group) -> None:
    """A3, A4: the outcome says the slot that each was given; the same answer twice is two members."""
    client = AsyncClient(server.address)
    names = {"group_id": group.name, "size": 3}
    left = [await client.submit("q", "A", member_id=f"m{n}", **names) for n in range(3)]
    told = [await client.result(each) for each in left]
    assert [outcome.slot for outcome in told] == [0, 1, 2]
    assert await client.verify("q", "A", member_id="m1", **names) == told[1]


async def test_a_cancelled_call_hangs_up_and_the_member_stays(server: Server, group: Group) -> None:
    """A4, L8."""
    call = by_async(server.address)
    task = asyncio.ensure_future(call(group, 0))
    await server.client.until_members(group.name, 1, callers=1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.client.until_members(group.name, 1, callers=0)
    assert [outcome.reward for outcome in await outcomes(call, group)] == group.rewards()


async def python(code: str, *arguments: str) -> Any:
    """What a program of its own prints, as JSON. Its warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment(PYTHONPATH=str(SRC)), capture_output=True, timeout=BOUND_S
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return json.loads(done.stdout)


FORKED = """
import asyncio, json, os, sys
from groupjudge import AsyncClient, Client
address, name, asked, *texts = sys.argv[1:]
client, other = Client(address), AsyncClient(address)

def call(slot):
    return client.verify(asked, texts[slot], group_id=name, size=4, slot=slot).reward

async def call_async(slot):
    return (await other.verify(asked, texts[slot], group_id=name, size=4, slot=slot)).reward

alone = client.judge(asked, texts).rewards
assert alone == asyncio.run(other.judge(asked, texts)).rewards
pipes = []
for work in (lambda: call(0), lambda: call(1), lambda: asyncio.run(call_async(2))):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    pipes.append((read, write))
mine = asyncio.run(call_async(3))
told = []
for read, write in pipes:
    os.close(write)
    told.append(json.loads(os.read(read, 1000)))
    os.close(read)
    assert os.wait()[1] == 0
print(json.dumps([*told, mine]))
"""


async def test_a_client_may_be_inherited_by_forks(server: Server, group: Group) -> None:
    """A4: three children and their parent share both clients, used before and after the fork."""
    texts = [group.text(slot) for slot in range(4)]
    assert await python(FORKED, server.address, group.name, question(group.name), *texts) == group.rewards()


LOOPS = """
import asyncio, gc, json, sys
from groupjudge import AsyncClient
address, name, asked, *texts = sys.argv[1:]
client = AsyncClient(address)

async def some(slots):
    calls = [client.verify(asked, texts[slot], group_id=name, size=4, slot=slot) for slot in slots]
    return [outcome.reward for outcome in await asyncio.gather(*calls)]

async def leaves():
    task = asyncio.ensure_future(some([0]))
    await asyncio.sleep(0.1)
    task.cancel()

asyncio.run(leaves())
for _ in range(3):
    told = asyncio.run(some(range(4)))
loop = asyncio.new_event_loop()
assert loop.run_until_complete(some(range(4))) == told
loop.close()
gc.collect()
print(json.dumps(told))
"""


async def test_one_loop_after_another_leaves_nothing_behind(server: Server, group: Group) -> None:
    """A4: also one that is closed without a proper end, and one that ends in the middle of a call: no warning."""
    texts = [group.text(slot) for slot in range(4)]
    assert await python(LOOPS, server.address, group.name, question(group.name), *texts) == group.rewards()


async def test_importing_the_client_imports_nothing_of_the_server() -> None:
    """A4: a trainer pays for what it uses; `import groupjudge` alone is next to nothing."""
    loaded = "import sys; print(__import__('json').dumps(sorted(m.partition('.')[0] for m in sys.modules)))"
    bare = set(await python("import groupjudge;" + loaded))
    full = set(await python("from groupjudge import Client, AsyncClient, Refusal; Client();" + loaded))
    heavy = {"uvicorn", "uvloop", "starlette", "pydantic", "aiohttp", "msgspec", "structlog", "rich", "click"}
    assert full.isdisjoint(heavy)
    assert bare.isdisjoint({*heavy, "h11", "asyncio", "ssl"})
    assert "h11" in full


async def test_the_lines_that_the_documentation_begins_with_can_be_pasted(server: Server) -> None:
    """A4: as they stand, but for the address."""
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
    lines = page.partition("```python\n")[2].partition("```")[0]
    assert len(lines.splitlines()) == 5
    told = await python(lines.replace("http://127.0.0.1:8600", server.address))
    assert [type(reward) for reward in told] == [float] * 3


def test_a_client_can_be_pickled() -> None:
    """A4: to worker processes."""
    for client in (Client("https://judge:1/x", token="t"), AsyncClient()):
        again = pickle.loads(pickle.dumps(client))
        fresh = {"_troubles": None}  # what was logged of failed tries begins anew
        assert vars(again) | fresh == vars(client) | fresh


@pytest.mark.parametrize("settings", [{"base_url": "judge:8600"}, {"deadline_s": 0}, {"deadline_s": float("nan")}])
def test_settings_that_make_no_sense_are_errors(settings: dict[str, Any]) -> None:
    """A4: where the client is made, not at its first call."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        Client(**settings)


async def test_a_deadline_may_be_never_and_no_nonsense(server: Server, group: Group) -> None:
    """A4: of a call as of the client."""
    answers = [group.text(slot) for slot in range(4)]
    for client in (AsyncClient(server.address), AsyncClient(server.address, deadline_s=float("inf"))):
        judged = await client.judge(question(group.name), answers, deadline_s=float("inf"))
        assert judged.rewards == group.rewards()
        with pytest.raises(ValueError, match="deadline_s"):
            await client.judge("q", answers, deadline_s=0)
    blocking = Client(server.address, deadline_s=float("inf"))
    assert (await asyncio.to_thread(blocking.judge, question(group.name), answers)).rewards == group.rewards()
