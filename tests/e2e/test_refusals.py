"""Every refusal: its status, its code, its shape, and that it changed nothing (H5, L5-L14, L20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from .calling import Client, Reply, cancelled_after, request
from .conftest import Serve
from .groups import ANSWER_WORD, REJECTED, Group, TextJudge, question
from .serving import Server

MISSING: Any = None


def check(reply: Reply, status: int, code: str) -> str:
    """The shape that all refusals share; returns the detail as text."""
    assert reply.said == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json) == {"detail", "code"}
    assert len(reply.body) <= 4096
    assert ANSWER_WORD.encode() not in reply.body
    detail = reply.json["detail"]
    if code == "invalid_request":
        assert isinstance(detail, list)
        assert detail
        for problem in detail:
            assert set(problem) == {"loc", "msg", "type"}
            assert problem["msg"]
    else:
        assert isinstance(detail, str)
    return json.dumps(detail)


INVALID: dict[str, tuple[dict[str, Any], list[object]]] = {
    "no response": ({"response": MISSING}, ["response"]),
    "response is a list": ({"response": []}, ["response"]),
    "no output": ({"response": {}}, ["response", "output"]),
    "output is null": ({"response": {"output": None}}, ["response", "output"]),
    "output is an object": ({"response": {"output": {}}}, ["response", "output"]),
    "no params": ({"responses_create_params": MISSING}, ["responses_create_params"]),
    "params are a string": ({"responses_create_params": "x"}, ["responses_create_params"]),
    "no input": ({"responses_create_params": {}}, ["responses_create_params", "input"]),
    "input is null": ({"responses_create_params": {"input": None}}, ["responses_create_params", "input"]),
    "input is a number": ({"responses_create_params": {"input": 5}}, ["responses_create_params", "input"]),
    "an item is a string": ({"responses_create_params": {"input": [{}, "x"]}}, ["responses_create_params", "input", 1]),
    "instance_config is a list": ({"instance_config": []}, ["instance_config"]),
    "principle is a number": ({"principle": 5}, ["principle"]),
    "id is a number": ({"_ng_group_id": 5}, ["_ng_group_id"]),
    "id is empty": ({"_ng_group_id": ""}, ["_ng_group_id"]),
    "id is long": ({"_ng_group_id": "x" * 513}, ["_ng_group_id"]),
    "id holds a lone surrogate": ({"_ng_group_id": "a\ud800"}, ["_ng_group_id"]),
    "attempt is true": ({"_ng_group_attempt": True}, ["_ng_group_attempt"]),
    "attempt is negative": ({"_ng_group_attempt": -1}, ["_ng_group_attempt"]),
    "attempt is 2^63": ({"_ng_group_attempt": 2**63}, ["_ng_group_attempt"]),
    "attempt is huge": ({"_ng_group_attempt": 10**400}, ["_ng_group_attempt"]),
    "slot is missing": ({"_ng_rollout_index": MISSING}, ["_ng_rollout_index"]),
    "slot is true": ({"_ng_rollout_index": True}, ["_ng_rollout_index"]),
    "slot is a string": ({"_ng_rollout_index": "1"}, ["_ng_rollout_index"]),
    "slot is a float": ({"_ng_rollout_index": 1.0}, ["_ng_rollout_index"]),
    "slot is NaN": ({"_ng_rollout_index": float("nan")}, ["_ng_rollout_index"]),
    "slot is N": ({"_ng_rollout_index": 4}, ["_ng_rollout_index"]),
    "slot is negative": ({"_ng_rollout_index": -1}, ["_ng_rollout_index"]),
    "size is 0": ({"_ng_group_size": 0}, ["_ng_group_size"]),
    "size is beyond the limit": ({"_ng_group_size": 1025}, ["_ng_group_size"]),
    "size is a float": ({"_ng_group_size": 4.0}, ["_ng_group_size"]),
    "task index is a string": ({"_ng_task_index": "1"}, ["_ng_task_index"]),
    "prompt id is a number": ({"prompt_id": 1}, ["prompt_id"]),
}


@pytest.mark.parametrize("what", INVALID)
async def test_a_malformed_request_is_told_where(client: Client, group: Group, what: str) -> None:
    """H1, H5: `detail` lists the fault with its place; no group comes of it (L7)."""
    changes, loc = INVALID[what]
    reply = await client.verify(group.body(0, **changes))
    check(reply, 422, "invalid_request")
    assert [problem["loc"] for problem in reply.json["detail"]] == [["body", *loc]]
    assert await client.group(group.name) is None


async def test_every_fault_is_told(client: Client, group: Group) -> None:
    """H5, H10a: however many there are, the reply stays small."""
    reply = await client.verify(
        group.body(0, response=[], instance_config=5, _ng_group_size=0, responses_create_params={"input": [1] * 5000})
    )
    check(reply, 422, "invalid_request")
    named = {problem["loc"][1] for problem in reply.json["detail"]}
    assert named >= {"response", "responses_create_params"}


async def test_superseded_whatever_the_older_attempt_was(
    client: Client, judge: TextJudge, group: Group, free: None
) -> None:
    """L10, L11: while the newest attempt collects, is judged, and is finished. It is told which is the newest."""
    newest = replace(group, attempt=5)
    judge.hold()
    async with cancelled_after([client.caller(newest.body(0))]) as callers:
        await client.until_members(group.name, 1)
        assert "attempt 5" in check(await client.verify(group.body(1)), 409, "superseded")
        callers += [client.caller(newest.body(slot)) for slot in (1, 2, 3)]
        await judge.until(lambda: judge.is_asked_of(newest))
        check(await client.verify(replace(group, attempt=4).body(1)), 409, "superseded")
        judge.let_go()
        assert [(await caller).json["reward"] for caller in callers] == newest.rewards()
    check(await client.verify(group.body(1)), 409, "superseded")
    assert not judge.asked_of(group)


async def test_a_higher_attempt_retires_a_group_that_collects(client: Client, group: Group) -> None:
    """L11: its callers are told the newer attempt."""
    second = replace(group, attempt=1)
    async with cancelled_after([client.caller(group.body(slot)) for slot in range(3)]) as callers:
        await client.until_members(group.name, 3, callers=3)
        newer = [client.caller(body) for body in second.bodies()]
        for caller in callers:
            assert "attempt 1" in check(await caller, 503, "group_failed")
        assert [(await caller).json["reward"] for caller in newer] == second.rewards()


async def test_a_higher_attempt_retires_a_group_that_is_judged(
    client: Client, judge: TextJudge, group: Group, free: None
) -> None:
    """L11: its judging is cancelled, its connections closed, and its verdicts reach nobody."""
    second = replace(group, attempt=1)
    judge.hold()
    async with cancelled_after([client.caller(body) for body in group.bodies()]) as callers:
        await judge.until(lambda: judge.is_asked_of(group))
        asked = [each.connection for each in judge.received[-4:]]
        newer = client.caller(second.body(0))
        callers.append(newer)
        for caller in callers[:-1]:
            assert "attempt 1" in check(await caller, 503, "group_failed")
        await judge.until(lambda: not judge.open_connections & set(asked))
        judge.let_go()
        rest = await asyncio.gather(*map(client.verify, second.bodies()[1:]))
        assert [reply.json["reward"] for reply in (await newer, *rest)] == second.rewards()
    row = await client.group(group.name)
    assert (row["attempt"], row["phase"]) == (1, "completed")


async def test_a_higher_attempt_drops_a_result(client: Client, judge: TextJudge, group: Group) -> None:
    """L11, L24: the new attempt is judged anew, with its own answers."""
    for attempt in (0, 1, 7, 2**63 - 1):
        each = replace(group, attempt=attempt)
        replies = await asyncio.gather(*map(client.verify, each.bodies()))
        assert [reply.json["reward"] for reply in replies] == each.rewards()
        assert judge.asked_of(each) == dict.fromkeys(each.pairs(), 1)
    check(await client.verify(group.body(0)), 409, "superseded")


async def test_another_question_is_refused_at_any_attempt(client: Client, group: Group) -> None:
    """L14: while the group collects and once it is finished; another principle is another question."""
    other = {"responses_create_params": {"input": question("another")}}
    async with cancelled_after([client.caller(group.body(slot)) for slot in range(3)]) as callers:
        await client.until_members(group.name, 3)
        for changes in (other, {**other, "_ng_group_attempt": 3}, {"principle": "another"}):
            check(await client.verify(group.body(3, **changes)), 409, "question_mismatch")
        callers.append(client.caller(group.body(3)))
        assert [(await caller).json["reward"] for caller in callers] == group.rewards()
    for changes in (other, {**other, "_ng_group_attempt": 3}, {"principle": ""}):
        check(await client.verify(group.body(3, **changes)), 409, "question_mismatch")
    assert (await client.verify(group.body(3))).json["reward"] == group.rewards()[3]


async def test_members_must_agree_on_the_size(client: Client, group: Group) -> None:
    """H1, L7: the group goes on."""
    async with cancelled_after([client.caller(group.body(slot)) for slot in range(3)]) as callers:
        await client.until_members(group.name, 3)
        for size in (5, 1):
            check(await client.verify(replace(group, size=size).body(0)), 409, "size_mismatch")
        callers.append(client.caller(group.body(3)))
        assert [(await caller).json["reward"] for caller in callers] == group.rewards()
    check(await client.verify(replace(group, size=5).body(4)), 409, "size_mismatch")


@pytest.mark.parametrize("identity", [{"_ng_task_index": 4711}, {"prompt_id": "p"}, {"task_index": -3}, {}])
async def test_groups_without_an_id_are_forgotten_once_completed(
    client: Client, judge: TextJudge, group: Group, identity: dict[str, Any]
) -> None:
    """L20: the next run uses the key again and is judged again; the reply names no id."""
    unnamed = replace(group, extra={"_ng_group_id": None, **identity})
    for run in (1, 2):
        replies = await asyncio.gather(*map(client.verify, unnamed.bodies()))
        assert [reply.json["reward"] for reply in replies] == unnamed.rewards()
        assert {reply.json["_ng_group_id"] for reply in replies} == {None}
        assert judge.asked_of(unnamed) == dict.fromkeys(unnamed.pairs(), run)


async def test_a_group_without_an_id_keeps_its_failure(client: Client, judge: TextJudge, group: Group) -> None:
    """L20: an exact retry of a judge failure gets it again; everything else is told the remedy."""
    failing = replace(group, note=REJECTED, extra={"_ng_group_id": None, "prompt_id": group.name})
    replies = await asyncio.gather(*map(client.verify, failing.bodies()))
    assert {reply.json["failure_kind"] for reply in replies} == {"judge_failed"}
    calls = len(judge.received)
    assert (await client.verify(failing.body(1))).json["failure_kind"] == "judge_failed"
    detail = check(await client.verify(replace(failing, note="").body(1)), 503, "group_failed")
    assert "_ng_group_id" in detail
    assert len(judge.received) == calls


# --- small limits -----------------------------------------------------------------------------------------------------


async def test_the_limit_on_active_groups(serve: Serve, group: Group) -> None:
    """H5, L7: only what would form one more group is refused; a retry and a newer attempt are not."""
    async with serve({"limits.max_active_groups": 1}) as server:
        client = server.client
        async with cancelled_after([client.caller(group.body(0))]) as callers:
            await client.until_members(group.name, 1)
            reply = await client.verify(Group("one too many").body(0))
            check(reply, 429, "overloaded")
            assert int(reply.headers["retry-after"]) >= 1
            callers.append(client.caller(group.body(0)))
            await client.until_members(group.name, 1, callers=2)
            check(await client.verify(replace(group, note="x").body(0)), 409, "answer_conflict")
            assert (await client.verify(replace(group, name="alone", size=1).body(0))).status == 200
            second = replace(group, attempt=1)
            replies = await asyncio.gather(*map(client.verify, second.bodies()))
            assert [reply.json["reward"] for reply in replies] == second.rewards()
            assert {(await caller).code for caller in callers} == {"group_failed"}
        other = Group("one more")
        replies = await asyncio.gather(*map(client.verify, other.bodies()))
        assert [reply.json["reward"] for reply in replies] == other.rewards()


async def test_an_evicted_result_is_gone(serve: Serve, judge: TextJudge, group: Group) -> None:
    """L12, L18: by count; no judge call, no group; a higher attempt is the remedy."""
    async with serve({"retention.max_results": 1}) as server:
        client = server.client
        for each in (group, Group("newer", 2)):
            await asyncio.gather(*map(client.verify, each.bodies()))
        calls = len(judge.received)
        for body in (*group.bodies(), replace(group, note="x").body(0)):
            assert "_ng_group_attempt" in check(await client.verify(body), 409, "result_gone")
        other = group.body(0, responses_create_params={"input": "another"})
        check(await client.verify(other), 409, "question_mismatch")
        assert await client.group(group.name) is None
        assert len(judge.received) == calls
        again = replace(group, attempt=1)
        replies = await asyncio.gather(*map(client.verify, again.bodies()))
        assert [reply.json["reward"] for reply in replies] == again.rewards()


async def test_a_record_that_is_gone_is_made_again_by_an_exact_retry(serve: Serve, group: Group) -> None:
    """L13: the result alone answers; and once both are gone the id is unknown (L14)."""
    async with serve({"retention.max_results": 2, "retention.max_attempt_records": 1}) as server:
        client = server.client
        newer = Group("newer", 2)
        for each in (group, newer):
            await asyncio.gather(*map(client.verify, each.bodies()))
        check(await client.verify(group.body(0, principle="x")), 409, "question_mismatch")
        assert (await client.verify(group.body(0))).json["reward"] == group.rewards()[0]
        for each in (Group("third", 2), Group("fourth", 2)):
            await asyncio.gather(*map(client.verify, each.bodies()))
        fresh = replace(group, size=2, note="with other answers")
        replies = await asyncio.gather(*map(client.verify, fresh.bodies()))
        assert [reply.json["reward"] for reply in replies] == fresh.rewards()


@pytest_asyncio.fixture(loop_scope="session")
async def hasty(serve: Serve) -> AsyncIterator[Server]:
    """A server that waits for members only for a moment."""
    async with serve({"group.collection_timeout_s": 0.2}) as server:
        yield server


async def test_the_collection_deadline(hasty: Server, judge: TextJudge, group: Group) -> None:
    """L15, L5, L20: every caller is told how many had come; later ones too, other answers and other slots included."""
    client = hasty.client
    many = replace(group, size=1000)
    replies = await asyncio.gather(*(client.verify(many.body(0)) for _ in range(3)))
    for reply in replies:
        assert "1 of 1000" in check(reply, 503, "group_failed")
    for body in (many.body(0), many.body(1), replace(many, note="x").body(0), replace(many, size=7).body(0)):
        assert (await client.verify(body)).json == replies[0].json
    check(await client.verify(many.body(0, principle="x")), 409, "question_mismatch")
    unnamed = replace(many, extra={"_ng_group_id": None})
    check(await client.verify(unnamed.body(0)), 503, "group_failed")
    assert "a fresh _ng_group_id" in check(await client.verify(unnamed.body(1)), 503, "group_failed")
    row = await client.group(group.name)
    assert (row["phase"], row["outcome"]["failure"]) == ("group_failed", "collection_timeout")


async def test_paths_and_methods_that_are_none(client: Client) -> None:
    """H5: 404 and 405, which says what is allowed."""
    for target in ("/nothing", "/verify/", "/v1/groups/x/0", "/ng-control/x", "/%00", "/verify%2f"):
        check(await client.get(target), 404, "not_found")
    reply = await client.get("/verify")
    check(reply, 405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"
    for method, target in (("POST", "/healthz"), ("DELETE", "/compare"), ("PUT", "/v1/groups")):
        check(await client.send(request(method, target, b"{}")), 405, "method_not_allowed")
