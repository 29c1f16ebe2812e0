"""Groups that are judged as their members come, over real sockets (F7)."""

from __future__ import annotations

import asyncio

from .calling import Client, until
from .conftest import Serve
from .groups import REJECTED, Group, TextJudge, question, rewards_of
from .test_refusals import check

EAGER = {"comparison.start": "eager"}
WASTED = "groupjudge_judge_calls_wasted_total"


async def asked(judge: TextJudge, group: Group, calls: int) -> None:
    """Wait until the judge was asked so often for the group."""

    async def came() -> bool:
        return sum(judge.asked_of(group).values()) == calls

    await until(came)


async def wasted(client: Client, calls: int) -> None:
    """Wait until so many calls are counted as made in vain."""

    async def counted() -> bool:
        return await client.metric(WASTED) == calls

    await until(counted)


async def test_a_straggler_finds_most_of_its_group_judged(serve: Serve, judge: TextJudge) -> None:
    """F7, L24: pairs of those that are there are judged before the last one comes, and each pair once; the rewards are
    those of groups that were waited for."""
    group = Group("straggler", 6)
    async with serve(EAGER) as server:
        client = server.client
        first = [client.caller(group.body(slot)) for slot in range(5)]
        await asked(judge, group, 4)
        assert not any(caller.done() for caller in first)
        last = await client.verify(group.body(5))
        replies = [*await asyncio.gather(*first), last]
        assert [reply.json["reward"] for reply in replies] == group.rewards()
        assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)
        details = (await client.get("/v1/groups/straggler/0")).json
        assert sum(each["calls"] for each in details["usage"]) == 6
        assert await client.metric(WASTED) == 0
        again = [await client.verify(body) for body in group.bodies()]
    assert [reply.json["reward"] for reply in again] == group.rewards()
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_a_failure_is_told_when_the_group_is_complete(serve: Serve, judge: TextJudge) -> None:
    """F7, L2, L24, H4: a pair that failed early fails nobody until the last member is there, and then all alike."""
    group = Group("fails early", 4, note=REJECTED)
    async with serve(EAGER) as server:
        client = server.client
        first = [client.caller(group.body(slot)) for slot in range(3)]
        await asked(judge, group, 2)
        row = await client.group(group.name)
        assert (row["phase"], row["outcome"]) == ("collecting", None)
        assert not any(caller.done() for caller in first)
        replies = [await client.verify(group.body(3)), *await asyncio.gather(*first)]
    assert [reply.json["mask_sample"] for reply in replies] == [True] * 4
    assert len({reply.json["failure_reason"] for reply in replies}) == 1


async def test_groups_that_never_become_complete_cancel_what_was_begun(serve: Serve, judge: TextJudge) -> None:
    """F7, L11, L15, L19: superseded, timed out or shut down; what was asked for them is counted."""
    async with serve({**EAGER, "group.collection_timeout_s": 3}) as server:
        client = server.client
        old, new = Group("superseded", 3), Group("superseded", 3, attempt=1)
        waiting = [client.caller(old.body(slot)) for slot in range(2)]
        await asked(judge, old, 1)
        judge.hold()
        newer = [client.caller(new.body(slot)) for slot in range(2)]
        for reply in await asyncio.gather(*waiting):
            check(reply, 503, "group_failed")
        await wasted(client, 1)
        for reply in await asyncio.gather(*newer):  # the collection deadline
            check(reply, 503, "group_failed")
        await wasted(client, 2)
        late = Group("shut down", 3)
        callers = [client.caller(late.body(slot)) for slot in range(2)]
        await asked(judge, late, 1)
        assert await server.stop() == 0
        for reply in await asyncio.gather(*callers):
            check(reply, 503, "shutting_down")
    judge.let_go()


async def test_those_that_came_were_mostly_judged_before_the_deadline(serve: Serve, judge: TextJudge) -> None:
    """F7, F8: what is planned for those that came is taken from what was begun; only what is missing is asked."""
    group = Group("in part", 4)
    sets = {**EAGER, "group.on_collection_timeout": "judge_present", "group.collection_timeout_s": 3}
    async with serve(sets) as server:
        replies = await asyncio.gather(*(server.client.verify(group.body(slot)) for slot in (0, 1, 2)))
    texts = [group.text(slot) for slot in (0, 1, 2)]
    assert [reply.json["reward"] for reply in replies] == rewards_of(question(group.name), texts)
    assert [reply.json["group_size_judged"] for reply in replies] == [3] * 3
    counted = {pair: count for pair, count in judge.pairs.items() if set(pair) & set(texts)}
    assert counted == dict.fromkeys(zip(texts, [*texts[1:], texts[0]], strict=True), 1)
