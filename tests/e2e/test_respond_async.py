"""Members that are left with the server and whose outcomes are fetched (A2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from .calling import Client, Connection, Reply, cancelled_after, request, until
from .conftest import Serve
from .groups import HUGE, REJECTED, Group, TextJudge
from .serving import Server
from .test_refusals import check


def where(group: Group, slot: int) -> str:
    return f"/v1/groups/{quote(group.name, safe='')}/{group.attempt}/{slot}"


async def leave(client: Client, body: bytes, **headers: str) -> Reply:
    """Leave a member with the server."""
    return await client.post("/verify", body, {"Prefer": "respond-async", **headers})


def identity(group: Group, slot: int, **more: Any) -> dict[str, Any]:
    return {"_ng_group_id": group.name, "_ng_group_attempt": group.attempt, "_ng_rollout_index": slot, **more}


def rewarded(group: Group, slot: int) -> dict[str, Any]:
    """The whole reply to whoever fetches a member's reward."""
    reward = {"reward": group.rewards()[slot], "mask_sample": False, "failure_kind": None, "failure_reason": None}
    return {**reward, **identity(group, slot)}


async def test_a_member_is_left_and_its_outcome_fetched(client: Client, judge: TextJudge, free: None) -> None:
    """A2: 202 with the place where to ask, percent-encoded; pending there too, until there is a reward without echo."""
    group = Group("run/7 ü?&%2F#é")
    judge.hold()
    for slot in range(3):
        reply = await leave(client, group.body(slot))
        assert reply.status == 202
        assert reply.headers["location"] == where(group, slot)
        assert reply.headers["preference-applied"] == "respond-async"
        assert reply.json == {"status": "pending", **identity(group, slot)}
    check(await client.get(where(group, 3)), 404, "not_found")
    await leave(client, group.body(3))
    reply = await client.get(where(group, 2))
    assert reply.status == 202
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.headers["location"] == where(group, 2)
    row = await client.group(group.name)
    assert (row["members"], row["callers"]) == ([0, 1, 2, 3], 0)
    judge.let_go()
    replies = [await client.get(where(group, slot) + "?wait=60") for slot in (0, 1, 2, 3, 2)]
    assert [reply.status for reply in replies] == [200] * 5
    assert [reply.json for reply in replies] == [rewarded(group, slot) for slot in (0, 1, 2, 3, 2)]
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_whoever_waits_is_told_as_soon_as_there_is_an_outcome(
    client: Client, judge: TextJudge, group: Group, free: None
) -> None:
    """A2: `wait` is how long at most; a wait that ends without an outcome leaves nobody behind."""
    judge.hold()
    await asyncio.gather(*(leave(client, group.body(slot)) for slot in range(4)))
    assert (await client.get(where(group, 1) + "?wait=0.05")).status == 202
    await client.until_members(group.name, 4, callers=0)
    waiting = asyncio.ensure_future(client.get(where(group, 1) + "?wait=50"))
    async with cancelled_after([waiting]):
        await client.until_members(group.name, 4, callers=1)
        judge.let_go()
        assert (await waiting).json == rewarded(group, 1)


async def test_a_known_outcome_is_answered_at_once_with_the_echo(client: Client, group: Group) -> None:
    """A2, H2, H3, L9: also that of a group of one, which is retained nowhere."""
    await asyncio.gather(*map(client.verify, group.bodies()))
    reply = await leave(client, group.body(2))
    assert (reply.status, reply.json) == (200, (await client.verify(group.body(2))).json)
    assert reply.json["response"] == group.fields(2)["response"]
    alone = replace(group, name=f"{group.name} alone", size=1)
    assert (await leave(client, alone.body(0))).json["reward"] == 3.0
    reply = await leave(client, group.body(2), Prefer="respond-async, return=minimal")
    assert reply.json == rewarded(group, 2)


@pytest.mark.parametrize(("name", "place"), [(".", "%2E"), ("..", "%2E%2E"), ("...", "...")])
async def test_an_id_of_dots_is_no_folder_in_its_place(client: Client, name: str, place: str) -> None:
    """A2: who follows a place would take `.` and `..` for folders, and ask for another group."""
    group = Group(name, 2)
    reply = await leave(client, group.body(0))
    assert reply.headers["location"] == f"/v1/groups/{place}/0/0"
    await leave(client, group.body(1))
    told = await client.get(f"/v1/groups/{place}/0/0?wait=60")
    assert told.json == rewarded(group, 0)


async def test_a_member_id_has_its_slot_in_the_place(client: Client, group: Group) -> None:
    """A2, A3: the place names the slot that the server gave."""
    ids = [f"m{n}" for n in range(4)]
    bodies = [group.body(n, _ng_rollout_index=None, _ng_member_id=name) for n, name in enumerate(ids)]
    for slot, body in enumerate(bodies[:3]):
        reply = await leave(client, body)
        assert reply.headers["location"] == where(group, slot)
        assert reply.json == {"status": "pending", **identity(group, slot, _ng_member_id=ids[slot])}
    assert (await leave(client, bodies[1])).headers["location"] == where(group, 1)
    await leave(client, bodies[3])
    told = (await client.get(where(group, 1) + "?wait=60")).json
    assert told == {**rewarded(group, 1), "_ng_member_id": "m1"}


async def test_a_judge_failure_is_fetched_masked_and_without_an_echo(client: Client, group: Group) -> None:
    """A2, H4."""
    failing = replace(group, note=REJECTED)
    for slot in range(4):
        await leave(client, failing.body(slot, instance_config={"private": 1}))
    told = (await client.get(where(failing, 3) + "?wait=60")).json
    reason = told["failure_reason"]
    assert "400" in reason
    assert told == {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "judge_failed",
        "failure_reason": reason,
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": reason,
        **identity(failing, 3),
    }


async def test_a_failed_group_tells_everybody_so(server: Server, group: Group) -> None:
    """A2, L4: those that wait and those that ask later read the same."""
    failing = replace(group, note=HUGE)
    for slot in range(4):
        await leave(server.client, failing.body(slot))
    replies = [await server.client.get(where(failing, slot) + "?wait=60") for slot in (0, 3)]
    assert check(replies[0], 503, "group_failed") == check(replies[1], 503, "group_failed")
    server.may_log.add("no_finite_reward")


async def test_what_is_not_known_is_told_apart(serve: Serve, group: Group) -> None:
    """A2, L10, L12: an id, an attempt, a slot that nobody knows is 404; an older attempt and a result that is gone are
    what they are to `/verify`."""
    newer = replace(group, attempt=2)
    async with serve({"retention.max_results": 1, "group.size": 4}) as server:
        client = server.client
        check(await client.get(where(group, 0)), 404, "not_found")
        await leave(client, newer.body(1))
        check(await client.get(where(replace(group, attempt=3), 1)), 404, "not_found")
        check(await client.get(where(newer, 0)), 404, "not_found")
        check(await client.get(where(newer, 4)), 404, "not_found")
        check(await client.get(where(replace(group, attempt=1), 1)), 409, "superseded")
        await asyncio.gather(*(client.verify(newer.body(slot)) for slot in (0, 1, 2, 3)))
        assert (await client.get(where(newer, 1))).status == 200
        other = replace(group, name="other")
        await asyncio.gather(*map(client.verify, other.bodies()))
        assert "higher" in check(await client.get(where(newer, 1)), 409, "result_gone")


async def test_a_waiting_one_is_told_that_its_attempt_was_superseded(client: Client, group: Group) -> None:
    """A2, L11."""
    await leave(client, group.body(0))
    waiting = asyncio.ensure_future(client.get(where(group, 0) + "?wait=50"))
    async with cancelled_after([waiting]):
        await client.until_members(group.name, 1, callers=1)
        await leave(client, replace(group, attempt=1).body(0))
        assert "superseded by attempt 1" in check(await waiting, 503, "group_failed")


async def test_it_needs_a_group_id(client: Client, group: Group) -> None:
    """A2: the refusal says which field, and nothing is left of the request."""
    reply = await leave(client, group.body(0, _ng_group_id=None, _ng_task_index=4711))
    check(reply, 422, "invalid_request")
    assert [problem["loc"] for problem in reply.json["detail"]] == [["body", "_ng_group_id"]]
    assert "respond-async" in reply.json["detail"][0]["msg"]
    assert not [row for row in await client.groups() if row["key"] == {"kind": "task", "label": 4711}]


@pytest.mark.parametrize("said", ["", "x", "-1", "1e3", "NaN", "86401", "100000"])
async def test_a_wait_that_is_no_time_is_refused(client: Client, group: Group, said: str) -> None:
    """H5."""
    reply = await client.get(where(group, 0) + f"?wait={said}")
    check(reply, 422, "invalid_request")
    assert reply.json["detail"][0]["loc"] == ["query", "wait"]


@pytest.mark.parametrize("place", ["g/0/x", "g/x/0", "g/0/-1", "g/0/", "g/0/1/2", "g/0/1.0", "g/0/" + "9" * 30])
async def test_a_path_that_names_no_member_is_refused(client: Client, place: str) -> None:
    """H5: with the form that is expected."""
    reply = await client.get(f"/v1/groups/{place}")
    check(reply, 422, "invalid_request")
    assert "{id}/{attempt}/{slot}" in reply.json["detail"][0]["msg"]


async def test_who_leaves_while_it_waits_is_forgotten(server: Server, group: Group) -> None:
    """L8: the member stays."""
    await leave(server.client, group.body(0))
    async with Connection(server.port) as connection:
        await connection.send(request("GET", where(group, 0) + "?wait=50"))
        await server.client.until_members(group.name, 1, callers=1)
        connection.close()
        await server.client.until_members(group.name, 1, callers=0)


async def test_a_stopping_server_tells_those_that_wait(serve: Serve, group: Group) -> None:
    """A2, L19."""
    async with serve({"group.size": 4}) as server:
        await leave(server.client, group.body(0))
        waiting = asyncio.ensure_future(server.client.get(where(group, 0) + "?wait=50"))
        async with cancelled_after([waiting]):
            await server.client.until_members(group.name, 1, callers=1)
            assert await server.stop() == 0
            check(await waiting, 503, "shutting_down")


async def test_few_workers_bring_a_group_that_is_larger(client: Client, group: Group) -> None:
    """A2: no worker holds a place while siblings are still to come."""
    many = replace(group, size=24)
    workers = asyncio.Semaphore(2)

    async def work(slot: int) -> None:
        async with workers:
            assert (await leave(client, many.body(slot))).status in (200, 202)

    await asyncio.gather(*(work(slot) for slot in range(24)))
    replies = [await client.get(where(many, slot) + "?wait=60") for slot in range(24)]
    assert [reply.json["reward"] for reply in replies] == many.rewards()


async def test_large_members_cost_nothing_once_they_are_left(server: Server, group: Group) -> None:
    """A2, L17: no body is kept for an echo that will not be sent."""
    for slot in range(3):
        reply = await leave(server.client, group.body(slot, padding="x" * 200_000))
        assert reply.status == 202
    names = ("groupjudge_incoming_bodies", "groupjudge_waiting_callers")

    async def nobody_waits() -> bool:
        return [await server.client.metric(name) for name in names] == [0.0, 0.0]

    await until(nobody_waits)
    assert (await leave(server.client, group.body(3))).status == 202
    assert (await server.client.get(where(group, 0) + "?wait=60")).json == rewarded(group, 0)
