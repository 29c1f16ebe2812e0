"""A full disk and no more files: a clear reply for whom it concerns, and nobody else is harmed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from groupjudge.answers.slots import slots_per_file
from groupjudge.service.run import bodies_to_spool

from .calling import Connection, Reply, cancelled_after, request
from .conftest import Serve
from .groups import Group
from .test_refusals import check


async def test_a_full_disk(serve: Serve, group: Group) -> None:
    """A body that cannot be spooled is refused and leaves no trace, whether it is to be echoed or not; smaller ones and
    waiting ones are served, and later the same member is accepted."""
    big = "x" * 200_000
    async with serve({"limits.spool_threshold_bytes": 1000}, limits={"RLIMIT_FSIZE": 100_000}) as server:
        client = server.client
        async with cancelled_after([client.caller(group.body(0, padding="x" * 50_000))]) as callers:
            await client.until_members(group.name, 1)
            for number in range(3):
                reply = await client.verify(group.body(1, padding=big), minimal=number == 1)
                assert "keep this body" in check(reply, 429, "overloaded")
                assert int(reply.headers["retry-after"]) >= 1
            assert (await client.group(group.name))["members"] == [0]
            callers.append(client.caller(group.body(1)))
            callers.append(client.caller(group.body(2, padding="x" * 90_000), minimal=True))
            callers.append(client.caller(group.body(3)))
            assert [(await caller).json["reward"] for caller in callers] == group.rewards()


async def test_no_more_files(serve: Serve, group: Group) -> None:
    """P8: bodies that wait on disk share files, and each has a connection: what would leave none for others is refused;
    those that wait get their reward, and once they have it there is room again."""
    limits = {"RLIMIT_NOFILE": 140}
    room = bodies_to_spool(140, 4, slots_per_file())
    async with serve({"limits.spool_threshold_bytes": 10, "judge.max_concurrency": 4}, limits=limits) as server:
        connections = [await Connection(server.port).__aenter__() for _ in range(60)]
        try:
            pairs = [replace(group, name=f"{group.name} {number}", size=2) for number in range(60)]
            replies = []
            for connection, pair in zip(connections, pairs, strict=True):
                await connection.send(request("POST", "/verify", pair.body(0, padding="x" * 100)))
                replies.append(asyncio.create_task(connection.reply()))
            refused: set[asyncio.Task[Reply]] = set()
            while len(refused) < 60 - room:
                waiting = set(replies) - refused
                refused |= (await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))[0]
            for pair, reply in zip(pairs, replies, strict=True):
                if reply in refused:
                    assert "ulimit" in check(reply.result(), 429, "overloaded")
                    continue
                second = await server.client.verify(pair.body(1), minimal=True)
                assert (second.json["reward"], (await reply).json["reward"]) == tuple(reversed(pair.rewards()))
        finally:
            for connection in connections:
                await connection.__aexit__()
        assert (await server.client.verify(pairs[0].body(0, _ng_group_size=1, _ng_group_id="alone"))).status == 200


@pytest.mark.parametrize("minimal", [False, True])
async def test_a_large_body_is_the_same_to_its_caller(serve: Serve, group: Group, minimal: bool) -> None:
    """H11: bodies so large that another process reads them; the malformed among them get the usual refusal."""
    async with serve() as server:
        client, pair = server.client, replace(group, size=2)
        large = pair.fields(0)["response"] | {"padding": ["x" * 100] * 70_000}
        bodies = [pair.body(0, response=large), pair.body(1)]
        replies = await asyncio.gather(*(client.verify(body, minimal=minimal) for body in bodies))
        assert [reply.json["reward"] for reply in replies] == pair.rewards()
        if not minimal:
            assert replies[0].json["response"] == large
        check(await client.verify(bodies[0][:-1]), 422, "invalid_request")
        check(await client.verify(pair.body(0, response=large, _ng_rollout_index=7)), 422, "invalid_request")
        assert (await client.verify(bodies[0], minimal=True)).json["reward"] == pair.rewards()[0]
