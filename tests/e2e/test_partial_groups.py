"""Groups of which not all members came, over real sockets (F8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .calling import Client, Reply
from .conftest import Serve
from .groups import REJECTED, Group, TextJudge, question, rewards_of
from .test_refusals import check

CAME = (0, 2, 3)
SETS = {"group.on_collection_timeout": "judge_present", "group.min_members": 3, "group.collection_timeout_s": 3}


async def sent(client: Client, group: Group, slots: tuple[int, ...] = CAME, *, minimal: bool = False) -> list[Reply]:
    """The replies to these members, which come together."""
    return await asyncio.gather(*(client.verify(group.body(slot), minimal=minimal) for slot in slots))


def rewards(group: Group) -> list[float]:
    """What those that came get when they are judged among themselves."""
    return rewards_of(question(group.name), [group.text(slot) for slot in CAME])


async def test_those_that_came_are_judged_and_told_so(serve: Serve, judge: TextJudge) -> None:
    """F8, L3-L6, L24: the first reply, an exact retry, a minimal one and the member's path say how many were judged."""
    group = Group("three of four")
    async with serve(SETS) as server:
        client = server.client
        first = await sent(client, group)
        again = await sent(client, group)
        minimal = await sent(client, group, minimal=True)
        fetched = [await client.get(f"/v1/groups/three%20of%20four/0/{slot}") for slot in CAME]
        check(await client.verify(group.body(1)), 409, "group_closed")
        check(await client.verify(group.body(0, _ng_group_size=3)), 409, "size_mismatch")
        check(await client.get("/v1/groups/three%20of%20four/0/1"), 404, "not_found")
        details = (await client.get("/v1/groups/three%20of%20four/0")).json
        partial = await client.metric("groupjudge_partial_groups_total")
    for replies in (first, again, minimal, fetched):
        assert [reply.json["reward"] for reply in replies] == rewards(group)
        assert [reply.json["group_size_judged"] for reply in replies] == [3] * 3
        assert [reply.json["_ng_rollout_index"] for reply in replies] == list(CAME)
    texts = [group.text(slot) for slot in CAME]
    asked = {pair: count for pair, count in judge.pairs.items() if set(pair) & set(texts)}
    assert asked == dict.fromkeys(zip(texts, [*texts[1:], texts[0]], strict=True), 1)
    told: list[float | None] = list(rewards(group))
    told.insert(1, None)
    assert details["rewards"] == details["outcome"]["rewards"] == told
    assert (details["size"], details["group_size_judged"], details["missing"]) == (4, 3, [1])
    assert [(row["response_i"], row["response_j"]) for row in details["verdicts"]] == [(0, 2), (2, 3), (3, 0)]
    assert partial == 1


async def test_a_judge_failure_of_those_that_came_says_it_too(serve: Serve, judge: TextJudge) -> None:
    """F8, H4: the masked reply, an exact retry's, a minimal one's and the member's own path; nobody is told a number
    that a caller sent."""
    group = Group("rejected", note=REJECTED, extra={"group_size_judged": 77})
    async with serve(SETS) as server:
        client = server.client
        replies = [*await sent(client, group), *await sent(client, group), *await sent(client, group, minimal=True)]
        replies += [await client.get(f"/v1/groups/rejected/0/{slot}") for slot in CAME]
        whole = Group("whole", 2, note=REJECTED, extra={"group_size_judged": 77})
        others = await sent(client, whole, (0, 1))
    assert [reply.json["mask_sample"] for reply in replies] == [True] * 12
    assert [reply.json["group_size_judged"] for reply in replies] == [3] * 12
    assert [reply.json["mask_sample"] for reply in others] == [True] * 2
    assert not any("group_size_judged" in reply.json for reply in others)


@pytest.mark.parametrize(
    ("sets", "changes"),
    [({}, {}), ({**SETS, "group.min_members": 4}, {}), (SETS, {"_ng_group_id": None, "_ng_task_index": 7})],
    ids=["by default", "with fewer than enough", "without an id"],
)
async def test_other_groups_fail_at_the_deadline(
    serve: Serve, judge: TextJudge, sets: dict[str, Any], changes: dict[str, Any]
) -> None:
    """F8, L15, L20: and no judge is asked."""
    group = Group("failing", 5)
    async with serve({"group.collection_timeout_s": 2, **sets}) as server:
        bodies = [group.body(slot, **changes) for slot in CAME]
        for reply in await asyncio.gather(*map(server.client.verify, bodies)):
            check(reply, 503, "group_failed")
            assert "3 of 5 members" in reply.json["detail"]
    assert judge.asked_of(group) == {}
