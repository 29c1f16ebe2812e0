"""Callers that leave, at every moment (L8, H10a): nobody else is harmed, and an exact retry gets the outcome."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace

import pytest

from .calling import Client, Connection, cancelled_after, request, until
from .groups import REJECTED, Group, TextJudge
from .serving import Server


async def nothing_is_left(client: Client) -> bool:
    """Whether no body is on its way in and no caller waits."""
    names = ("groupjudge_incoming_bodies", "groupjudge_waiting_callers")
    return [await client.metric(name) for name in names] == [0.0, 0.0]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_body_cut_short_leaves_no_trace(server: Server, group: Group, how: str, chunked: bool) -> None:
    """H10a, L8: cut after the head, at its beginning, in its middle, before its last byte."""
    body = group.body(0, padding="x" * 150_000)
    raw = request("POST", "/verify", chunks=[body]) if chunked else request("POST", "/verify", body)
    head = raw.index(b"\r\n\r\n") + 4
    for kept in (20, head - 1, head, head + 1, len(raw) // 2, len(raw) - 1):
        async with Connection(server.port) as connection:
            await connection.send(raw[:kept])
            getattr(connection, how)()
    await until(lambda: nothing_is_left(server.client))
    assert await server.client.group(group.name) is None
    replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
    assert [reply.json["reward"] for reply in replies] == group.rewards()


@pytest.mark.parametrize("target", ["/seed_session", "/close_session", "/compare"])
async def test_a_body_cut_short_is_no_error_anywhere(server: Server, target: str) -> None:
    """H10a: the log, which the fixture checks, has no word of it."""
    async with Connection(server.port) as connection:
        await connection.send(request("POST", target, b"{}" * 20_000)[:-1])
        connection.close()
    await until(lambda: nothing_is_left(server.client))


@pytest.mark.parametrize("padding", [0, 300_000])
async def test_a_body_that_came_whole_counts_though_its_caller_is_gone(
    server: Server, group: Group, padding: int
) -> None:
    """L8: even where the caller hangs up in the same instant, many times over; the group goes on and is retained."""
    many = replace(group, size=24)
    for slot in range(23):
        async with Connection(server.port) as connection:
            await connection.send(request("POST", "/verify", many.body(slot, padding="x" * padding)))
            connection.close()
    await server.client.until_members(group.name, 23)
    last = await server.client.verify(many.body(23))
    assert last.json["reward"] == many.rewards()[23]
    retries = await asyncio.gather(
        *(server.client.verify(many.body(slot, padding=slot), minimal=True) for slot in range(23))
    )
    assert [reply.json["reward"] for reply in retries] == many.rewards()[:23]


async def test_a_whole_body_counts_beside_others_that_stopped_midway(server: Server, group: Group) -> None:
    """L8, P6: a compressed one too, whose caller is gone before it is expanded."""
    pair = replace(group, size=2)
    ahead = [await Connection(server.port).__aenter__() for _ in range(8)]
    try:
        for connection in ahead:
            await connection.send(request("POST", "/verify", chunks=[b"{"])[:-5])
        async with Connection(server.port) as connection:
            await connection.send(request("POST", "/verify", gzip.compress(pair.body(0)), {"Content-Encoding": "gzip"}))
            connection.close()
        await server.client.until_members(group.name, 1)
    finally:
        for connection in ahead:
            await connection.__aexit__()
    assert (await server.client.verify(pair.body(1))).json["reward"] == pair.rewards()[1]


async def test_a_caller_that_leaves_while_it_waits_detaches_only_itself(
    server: Server, judge: TextJudge, group: Group
) -> None:
    """L8, L3: its member stays; another caller of the same member is not concerned."""
    client = server.client
    async with cancelled_after([client.caller(group.body(0)), client.caller(group.body(1))]) as callers:
        async with Connection(server.port) as first, Connection(server.port) as second:
            await first.send(request("POST", "/verify", group.body(0)))
            await second.send(request("POST", "/verify", group.body(2)))
            await client.until_members(group.name, 3, callers=4)
            first.close()
            second.abort()
        await client.until_members(group.name, 3, callers=2)
        callers.append(client.caller(group.body(2)))
        await client.until_members(group.name, 3, callers=3)
        callers.append(client.caller(group.body(3)))
        assert [(await caller).json["reward"] for caller in callers] == group.rewards()
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


@pytest.mark.parametrize("note", ["", REJECTED])
async def test_a_group_whose_callers_have_all_gone_finishes(
    server: Server, judge: TextJudge, group: Group, free: None, note: str
) -> None:
    """L8, L4: while it is judged; it is judged once, and every retry gets its outcome."""
    client, group = server.client, replace(group, note=note)
    judge.hold()
    connections = [await Connection(server.port).__aenter__() for _ in range(4)]
    for slot, connection in enumerate(connections):
        await connection.send(request("POST", "/verify", group.body(slot)))
    await judge.until(lambda: judge.is_asked_of(group))
    for connection in connections:
        await connection.__aexit__()
    await client.until_members(group.name, 4, callers=0)
    assert await client.metric("groupjudge_waiting_callers") == 0
    attached = client.caller(group.body(1))
    async with cancelled_after([attached]):
        await client.until_members(group.name, 4, callers=1)
        judge.let_go()
        reply = (await attached).json
    replies = [(await client.verify(body)).json for body in group.bodies()]
    assert replies[1] == reply
    if note:
        assert {reply["failure_kind"] for reply in replies} == {"judge_failed"}
    else:
        assert [reply["reward"] for reply in replies] == group.rewards()
        assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_a_caller_that_leaves_while_its_reply_is_written(server: Server, judge: TextJudge, group: Group) -> None:
    """L8: it reads nothing, then a little, then goes; the others have their replies, and so does its retry."""
    client, padding = server.client, "x" * 390_000
    members = replace(group, size=6)
    stuck = [await Connection(server.port, read_limit=1024).__aenter__() for _ in range(3)]
    try:
        for slot, connection in enumerate(stuck):
            connection.reads_no_more()
            await connection.send(
                request("POST", "/verify", members.body(slot, _ng_note=0).replace(b'"_ng_note": 0', b'"x":0'))
            )
        others = await asyncio.gather(*(client.verify(members.body(slot, padding=padding)) for slot in (3, 4, 5)))
        assert [reply.json["reward"] for reply in others] == members.rewards()[3:]
        stuck[1].reads_again()
        assert (await stuck[1].head())[0] == 200
    finally:
        for connection in stuck:
            await connection.__aexit__()
    retries = [await client.verify(members.body(slot)) for slot in range(3)]
    assert [reply.json["reward"] for reply in retries] == members.rewards()[:3]
    assert judge.asked_of(members) == dict.fromkeys(members.pairs(), 1)
    await until(lambda: nothing_is_left(client))


async def test_a_caller_that_does_not_read_keeps_nobody_waiting(server: Server, group: Group) -> None:
    """The reply is larger than what the wire holds: question and answer of 380 KB, for many callers at once."""
    client, text = server.client, "x" * 380_000
    both = replace(group, size=2)
    fields = both.fields(0)["response"] | {"padding": text}
    body = both.body(0, response=fields)
    stuck = [await Connection(server.port, read_limit=1024).__aenter__() for _ in range(8)]
    try:
        for connection in stuck:
            connection.reads_no_more()
            await connection.send(request("POST", "/verify", body))
        await client.until_members(group.name, 1, callers=8)
        assert (await client.verify(both.body(1))).json["reward"] == both.rewards()[1]
        assert (await client.verify(body)).json["response"]["padding"] == text
        stuck[0].reads_again()
        assert (await stuck[0].reply()).json["response"]["padding"] == text
    finally:
        for connection in stuck:
            await connection.__aexit__()
    await until(lambda: nothing_is_left(client))


async def test_a_connection_that_dies_in_the_middle_of_many_requests(server: Server, group: Group) -> None:
    """L8: what was pipelined behind a waiting request goes with its connection; the waiting one's member stays, and
    holds no caller."""
    async with Connection(server.port) as connection:
        await connection.send(b"".join(request("POST", "/verify", body) for body in group.bodies()))
        await server.client.until_members(group.name, 1, callers=1)
        connection.abort()
        await server.client.until_members(group.name, 1, callers=0)
    replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
    assert [reply.json["reward"] for reply in replies] == group.rewards()


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("behind", [1, 5])
@pytest.mark.parametrize("size", [0, 100_000])
async def test_a_caller_is_missed_though_it_sent_more_while_it_waited(
    server: Server, group: Group, size: int, behind: int, how: str
) -> None:
    """L8: small body or large, and whatever is pipelined behind it meanwhile."""
    async with Connection(server.port) as connection:
        await connection.send(request("POST", "/verify", group.body(0, pad="x" * size)))
        await server.client.until_members(group.name, 1, callers=1)
        await connection.send(behind * request("POST", "/verify", group.body(1)))
        getattr(connection, how)()
        await server.client.until_members(group.name, 1, callers=0)


async def test_a_caller_that_asks_for_a_member_is_missed_though_it_sent_more(server: Server, group: Group) -> None:
    """L8, H8."""
    client = server.client
    left = await client.post("/verify", group.body(0), {"Prefer": "respond-async"})
    async with Connection(server.port) as connection:
        await connection.send(request("GET", left.headers["location"] + "?wait=60", None))
        await client.until_members(group.name, 1, callers=1)
        await connection.send(request("GET", "/healthz", None))
        connection.close()
        await client.until_members(group.name, 1, callers=0)
