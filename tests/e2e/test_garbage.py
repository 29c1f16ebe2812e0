"""What requests leave behind: nothing that only the garbage collector would find. A run lasts weeks, and a look at
everything that is alive stops the loop, so it is rare (`calm_collector`); until then such garbage would pile up."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import CoroutineType, FunctionType, MethodType
from typing import Any

import pytest
import pytest_asyncio
from tests.support.judges import DISCONNECT, RESET, SILENCE, Received, Reply, cut, http, verdict

from groupjudge.configuration import load
from groupjudge.service.run import running

from .calling import Client, Connection, request, until
from .groups import GARBLED, HUGE, REJECTED, Group, TextJudge, question
from .serving import arguments

TIMES = 5
OURS = ("groupjudge", "uvicorn", "starlette", "httptools", "uvloop", "h11", "aiohttp")
SPOOLED = "x" * 9_000
SETS = {
    "group.size": 2,
    "limits.spool_threshold_bytes": 4_000,
    "limits.max_body_bytes": 100_000,
    "server.port": 0,
    "retention.max_results": 2,
    "retention.max_attempt_records": 2,
    "checkpoint.auth_token": "t",
}
JUDGE = {
    "judge.format": "responses",
    "judge.retries": 1,
    "judge.retry_sleep_s": 0.0001,
    "judge.request_timeout_s": 0.2,
}
CONFIGURATIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "checkpoints": {"checkpoint.enabled": True},
    "judged early": {"comparison.start": "eager"},
    "default scores": {"judge.on_unreadable": "default_scores"},
    "two jurors": {"comparison.jurors": "all"},
    "two jurors in turn": {"comparison.jurors": "in_turn"},
    "lists": {"judge.format": "listwise", "judge.list_size": 4, "scoring.score_range": [0, 100]},
}
TROUBLES = {
    "the judge says nothing": SILENCE,
    "the judge hangs up": DISCONNECT,
    "the judge breaks the connection": RESET,
    "the judge is busy": http(503),
    "the judge breaks off": cut(verdict()),
    "the judge stutters": http(200, b"{"),
}
Kind = Callable[[Client, str], Awaitable[object]]


class TroubledJudge(TextJudge):
    """Some texts bring it into trouble."""

    def _say(self, request: Received) -> Reply:
        text = request.body.decode()
        if (reply := next((reply for trouble, reply in TROUBLES.items() if trouble in text), None)) is not None:
            return reply
        return super()._say(request) if "input" in request.json else verdict()


async def _verify(client: Client, name: str, **extra: Any) -> None:
    group = Group(name, size=2, extra=extra)
    minimal = extra.pop("minimal", False)
    replies = await asyncio.gather(*(client.verify(body, minimal=minimal) for body in group.bodies()))
    assert {reply.status for reply in replies} == {200}


async def _with_answers_of(client: Client, name: str, note: str) -> None:
    group = Group(name, size=2, note=note)
    await asyncio.gather(*(client.verify(body) for body in group.bodies()))


async def _packed(client: Client, name: str) -> None:
    packed = [gzip.compress(body) for body in Group(name, size=2, extra={"pad": SPOOLED}).bodies()]
    await asyncio.gather(*(client.post("/verify", body, {"Content-Encoding": "gzip"}) for body in packed))
    assert (await client.post("/verify", packed[0][:-9], {"Content-Encoding": "gzip"})).status == 422
    assert (await client.verify(Group(name, size=2, extra={"pad": SPOOLED * 20}).body(0))).status == 413


async def _own_connections(client: Client, name: str) -> None:
    async def once(body: bytes) -> None:
        async with Connection(client.port) as connection:
            assert (await connection.ask(request("POST", "/verify", body))).status == 200

    await asyncio.gather(*(once(body) for body in Group(name, size=2).bodies()))


async def _leaves_and_comes_again(client: Client, name: str) -> None:
    first, second = Group(name, size=2).bodies()
    async with Connection(client.port) as connection:
        await connection.send(request("POST", "/verify", first))
        await client.until_members(name, 1, callers=1)
    await client.until_members(name, 1, callers=0)
    await asyncio.gather(client.verify(first), client.verify(second))


async def _stops_midway(client: Client, name: str) -> None:
    for body in (Group(name, size=2).body(0), Group(name, size=2, extra={"pad": SPOOLED}).body(0)):
        async with Connection(client.port) as connection:
            await connection.send(request("POST", "/verify", body)[:-5])
            await client.get("/livez")


async def _retries(client: Client, name: str) -> None:
    bodies = Group(name, size=2).bodies()
    await asyncio.gather(*(client.verify(body) for body in bodies))
    await asyncio.gather(*(client.verify(body) for body in bodies))
    await client.verify(Group(name, size=2, note="other").body(0))


async def _refused(client: Client, name: str) -> None:
    for body in (b"{", b"[]", Group(name, size=2).body(7), b'{"response": {"output": 1}}', b"\xff"):
        assert (await client.verify(body)).status == 422
    assert (await client.post("/verify", b"{}", {"Content-Type": "text/html"})).status == 415
    assert (await client.get("/verify")).status == 405
    assert (await client.get("/nowhere")).status == 404


async def _async(client: Client, name: str) -> None:
    for body in Group(name, size=2).bodies():
        await client.post("/verify", body, {"Prefer": "respond-async"})
    for slot in range(2):
        assert (await client.get(f"/v1/groups/{name}/0/{slot}?wait=50")).status == 200


async def _judge(client: Client, name: str) -> None:
    group = Group(name, size=2)
    fields = {"question": question(name), "answers": [group.text(0), group.text(1)]}
    for given in (fields, {**fields, "id": name}, {**fields, "answers": [REJECTED, "b"]}, {**fields, "answers": 3}):
        await client.post("/v1/judge", json.dumps(given).encode())


async def _leaves_while_judging(client: Client, name: str) -> None:
    fields = {"question": question(name), "answers": [f"the judge says nothing {name}", "b"]}
    async with Connection(client.port) as connection:
        await connection.send(request("POST", "/v1/judge", json.dumps(fields).encode()))
        await until(partial(_is_asking, client, wanted=True))
    await until(partial(_is_asking, client, wanted=False))
    waiting = client.caller(Group(name, size=2, note="the judge says nothing").body(0))
    other = client.caller(Group(name, size=2, note="the judge says nothing").body(1))
    await until(partial(_is_asking, client, wanted=True))
    await asyncio.gather(*(client.verify(body) for body in Group(name, size=2, attempt=1).bodies()), waiting, other)


async def _is_asking(client: Client, *, wanted: bool) -> bool:
    return (await client.metric("groupjudge_judge_calls_in_flight") > 0) == wanted


async def _compare(client: Client, name: str) -> None:
    group = Group(name, size=2)
    outputs = [group.fields(slot)["response"] for slot in range(2)]
    fields = {"conversation_history": [{"role": "user", "content": name}], "response_objs": outputs}
    assert (await client.post("/compare", json.dumps(fields).encode())).status == 200
    assert (await client.post("/compare", b"{}")).status == 422


async def _looks(client: Client, name: str) -> None:
    for path in (
        "/v1/status",
        "/metrics",
        "/v1/groups",
        f"/v1/groups/{name}/0",
        "/healthz",
        "/readyz",
        "/",
        "/openapi.json",
    ):
        await client.get(path)


async def _session(client: Client, name: str) -> None:
    reply = await client.post(f"/ng-rollout/{name}-0/seed_session", b"{}")
    cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
    first, second = Group(name, size=2).bodies()
    await asyncio.gather(client.post(f"/ng-rollout/{name}-0/verify", first, cookie), client.verify(second))
    await client.post(f"/ng-rollout/{name}-0/close", b"{}", cookie)


async def _control(client: Client, name: str) -> None:
    fields = {"checkpoint_id": name, "checkpoint_dir": "/nowhere", "deadline_ts": time.time() + 50, "episode_ids": None}
    token = {"Authorization": "Bearer t"}
    for call in ("restore", "resume"):
        body = {
            key: value for key, value in fields.items() if call == "restore" or key in ("checkpoint_id", "deadline_ts")
        }
        await client.post(f"/ng-control/v1/checkpoint/{call}", json.dumps(body).encode(), token)


async def _superseded(client: Client, name: str) -> None:
    waiting = client.caller(Group(name, size=2).body(0))
    await client.until_members(name, 1, callers=1)
    await asyncio.gather(*(client.verify(body) for body in Group(name, size=2, attempt=1).bodies()))
    assert (await waiting).status == 503


async def _given_up(client: Client, name: str) -> None:
    """What was begun early of it fails, and is never told."""
    group, again = Group(name, size=3, note=REJECTED), Group(name, size=3, attempt=1)
    waiting = [client.caller(group.body(slot)) for slot in range(2)]
    await client.until_members(name, 2, callers=2)
    await until(partial(_is_asking, client, wanted=False))
    await asyncio.gather(*(client.verify(body) for body in again.bodies()))
    assert {(await each).status for each in waiting} == {503}


KINDS: dict[str, Kind] = {
    "small answers": _verify,
    "small answers, nothing of them wanted back": lambda client, name: _verify(client, name, minimal=True),
    "large answers": lambda client, name: _verify(client, name, pad=SPOOLED),
    "large answers, nothing of them wanted back": lambda client, name: _verify(client, name, pad=SPOOLED, minimal=True),
    "packed answers": _packed,
    "a connection for each": _own_connections,
    "a caller that leaves and comes again": _leaves_and_comes_again,
    "a caller that stops midway": _stops_midway,
    "retries, and another answer": _retries,
    "a judge that rejects": lambda client, name: _with_answers_of(client, name, REJECTED),
    "a judge that stammers": lambda client, name: _with_answers_of(client, name, GARBLED),
    "a judge that overdoes it": lambda client, name: _with_answers_of(client, name, HUGE),
    **{trouble: partial(_with_answers_of, note=trouble) for trouble in TROUBLES},
    "a judge that is left alone": _leaves_while_judging,
    "refusals": _refused,
    "outcomes that are fetched": _async,
    "whole groups": _judge,
    "comparisons": _compare,
    "who looks": _looks,
    "sessions": _session,
    "a restore that fails": _control,
    "another attempt": _superseded,
    "a group that is given up": _given_up,
}


JUDGING = [
    *TROUBLES,
    "a group that is given up",
    "small answers",
    "a judge that rejects",
    "a judge that stammers",
    "a judge that is left alone",
]
SESSIONS = [
    "a restore that fails",
    "small answers",
    "sessions",
    "outcomes that are fetched",
    "retries, and another answer",
    "another attempt",
]
TRIED = [
    (configuration, kind)
    for configuration in CONFIGURATIONS
    for kind in (KINDS if configuration == "plain" else SESSIONS if configuration == "checkpoints" else JUDGING)
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Of a server in this process, whose garbage can be looked at."""
    async with TroubledJudge() as judge:
        own = {"judge.base_url": judge.base_url, **JUDGE, **CONFIGURATIONS[request.param]}
        if "comparison.jurors" in own:
            one = {key.removeprefix("judge."): own.pop(key) for key in list(own) if key.startswith("judge.")}
            own["judges"] = [{**one, "model": model} for model in ("a", "b")]
        settings = load(None, {}, arguments({**SETS, **own})[1::2])
        async with running(settings) as address, Client(int(address.rpartition(":")[2])) as client:
            yield client


def _name(thing: object) -> str:
    """What it is, by module."""
    if isinstance(thing, FunctionType | MethodType):
        return f"{thing.__module__}.{thing.__qualname__}"
    if isinstance(thing, CoroutineType):
        return f"groupjudge? {thing.cr_code.co_filename} {thing.__qualname__}"
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


async def _garbage(work: Callable[[], Awaitable[object]]) -> Counter[str]:
    """What of ours only the collector finds, after some work was done in this process."""
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await work()
        for _ in range(50):
            await asyncio.sleep(0)  # whatever ends a request behind its reply
        gc.collect()
        found = Counter(_name(each) for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    return Counter({name: count for name, count in found.items() if name.startswith(OURS)})


@pytest.mark.parametrize(("client", "kind"), TRIED, indirect=["client"])
async def test_a_request_leaves_no_garbage_in_cycles(client: Client, kind: str) -> None:
    """P6, H11: whatever became of it."""

    async def times(count: int, begin: int = 0) -> None:
        for number in range(begin, begin + count):
            await KINDS[kind](client, f"{kind.replace(' ', '-').replace(',', '')}-{number}")

    await times(2, 1000)  # what is made once
    for attempt in range(3):  # what is left each time; once, it may be of something before that ended meanwhile
        found = await _garbage(lambda begin=attempt * TIMES: times(TIMES, begin))
        if not (left := {name: count for name, count in found.items() if count >= TIMES}):
            break
    assert left == {}
