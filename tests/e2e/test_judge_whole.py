"""A whole group at once, in plain form, through `/v1/judge` (A1)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.judges import StubJudge, http

from .calling import Client, Connection, cancelled_after, request
from .conftest import Serve
from .groups import HUGE, REJECTED, Group, TextJudge, answer, question, rewards_of
from .serving import Server
from .test_compare import body as compare_body
from .test_refusals import check
from .test_shutdown import descendants


def body(group: Group, **changes: Any) -> bytes:
    """The group as a `/v1/judge` request; a change to None drops a field."""
    fields = {
        "question": question(group.name),
        "answers": [answer(group.text(slot)) for slot in range(group.size)],
        "id": group.name,
        "attempt": group.attempt,
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def outcome(reward: float | None, **fields: Any) -> dict[str, Any]:
    return {"reward": reward, "mask_sample": False, "failure_kind": None, "failure_reason": None, **fields}


@pytest.mark.parametrize("name", ["with an id", None])
async def test_a_group_is_judged_and_told_as_compare_tells_it(client: Client, group: Group, name: str | None) -> None:
    """A1, J1, J14: rewards and outcomes in the order of the answers, verdicts and metrics as `/compare` has them."""
    reply = await client.post("/v1/judge", body(group, id=name and group.name))
    compared = await client.post("/compare", compare_body(group))
    assert reply.status == 200
    assert reply.json == {
        "rewards": group.rewards(),
        "outcomes": [outcome(reward) for reward in group.rewards()],
        "verdicts": compared.json["comparison_results"],
        "metrics": compared.json["metrics"],
    }
    assert (await client.group(group.name) is None) == (name is None)


async def test_texts_messages_and_objects_are_the_same_answers(client: Client, judge: TextJudge, group: Group) -> None:
    """A1, L4: a text and a list of messages stand for the object that `/verify` would be sent; so they replay."""
    texts = [group.text(slot) for slot in range(4)]
    plain = body(group, answers=texts, question=[{"role": "user", "content": question(group.name)}])
    first = await client.post("/v1/judge", plain)
    assert first.json["rewards"] == group.rewards()
    in_parts = [[{"role": "assistant", "content": [{"type": "text", "text": text}]}] for text in texts]
    as_messages = [[{"role": "assistant", "content": text}] for text in texts]
    part = {"type": "output_text"}
    message = {"type": "message", "role": "assistant"}
    as_objects = [{"output": [{**message, "content": [{**part, "text": text}]}]} for text in texts]
    for answers in (in_parts, as_messages, as_objects):
        again = await client.post("/v1/judge", body(group, answers=answers))
        assert again.json == first.json
    one = await client.verify(group.body(2, response=as_objects[2]))
    assert one.json["reward"] == group.rewards()[2]
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_retries_of_a_group_with_an_id_are_judged_once(
    server: Server, judge: TextJudge, group: Group, free: None
) -> None:
    """A1, L3, L4: callers at the same time and later ones get the same, verdicts included."""
    judge.hold()
    calls = [asyncio.ensure_future(server.client.post("/v1/judge", body(group))) for _ in range(3)]
    async with cancelled_after(calls):
        await server.client.until_members(group.name, 4, callers=3)
        judge.let_go()
        replies = await asyncio.gather(*calls)
    replies.append(await server.client.post("/v1/judge", body(group)))
    assert [reply.json["rewards"] for reply in replies] == [group.rewards()] * 4
    assert [reply.json["verdicts"] for reply in replies] == [replies[0].json["verdicts"]] * 4
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_members_that_came_one_by_one_are_the_groups(client: Client, judge: TextJudge, group: Group) -> None:
    """A1, L2: it is one space with `/verify`; what is missing is taken, and every caller is told."""
    async with cancelled_after([client.caller(group.body(slot)) for slot in (1, 3)]) as callers:
        await client.until_members(group.name, 2)
        whole = await client.post("/v1/judge", body(group))
        replies = await asyncio.gather(*callers)
    assert whole.json["rewards"] == group.rewards()
    assert [reply.json["reward"] for reply in replies] == [group.rewards()[slot] for slot in (1, 3)]
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)
    assert (await client.verify(group.body(0))).json["reward"] == group.rewards()[0]


async def test_other_content_is_refused_and_leaves_no_trace(client: Client, group: Group) -> None:
    """A1, L7: a conflict in the last slot seats none of the others."""
    async with cancelled_after([client.caller(group.body(3))]):
        await client.until_members(group.name, 1)
        answers = [answer(group.text(slot)) for slot in range(3)] + [answer("another one")]
        check(await client.post("/v1/judge", body(group, answers=answers)), 409, "answer_conflict")
        check(await client.post("/v1/judge", body(group, question="another one")), 409, "question_mismatch")
        check(await client.post("/v1/judge", body(group, answers=answers[:3])), 409, "size_mismatch")
        row = await client.group(group.name)
        assert (row["members"], row["callers"]) == ([3], 1)
        assert (await client.post("/v1/judge", body(group))).json["rewards"] == group.rewards()
    check(await client.post("/v1/judge", body(group, answers=answers)), 409, "answer_conflict")
    older = replace(group, attempt=1)
    assert (await client.post("/v1/judge", body(older))).json["rewards"] == older.rewards()
    check(await client.post("/v1/judge", body(group)), 409, "superseded")


async def calls_made(client: Client) -> float:
    """How many calls to judges have ended, however they did: that of a group that failed have, before it is told."""
    results = ("verdict", "unreadable", "failed", "cancelled")
    return sum([await client.metric("groupjudge_judge_calls_total", result=result) for result in results])


async def test_a_judge_failure_is_told_without_a_reward(client: Client, group: Group) -> None:
    """A1, A5, H4: 200, so that the answers are kept; null is no reward of 0. With an id it is replayed."""
    failing = replace(group, note=REJECTED)
    made = []
    for name in (None, group.name, group.name):
        calls = await calls_made(client)
        reply = await client.post("/v1/judge", body(failing, id=name))
        assert reply.status == 200
        assert reply.json["rewards"] == [None] * 4
        assert reply.json["verdicts"] is None
        assert reply.json["metrics"] is None
        reasons = [each.pop("failure_reason") for each in reply.json["outcomes"]]
        outcomes = [dict(each) for each in reply.json["outcomes"]]
        for each in outcomes:
            each.pop("failure_reason")
        failed = {"reward": None, "mask_sample": True, "failure_kind": "judge_failed"}
        assert outcomes == [failed] * 4
        assert all("400" in reason for reason in reasons)
        made.append(await calls_made(client) - calls)
    assert made == [4, 4, 0]


async def test_whatever_the_judge_says_is_told(serve: Serve, group: Group) -> None:
    """A1, A2, H4: its reason is cut and, where it is no text, made one; by either way to fetch it."""
    said = [text.encode("utf-8", "surrogatepass") * 3000 for text in ("\x01", "\U0001f600", "\ud800", "x")]
    angry = StubJudge(by=lambda request: http(400, said[int(request.json["input"][0]["content"])]))
    async with angry, serve({"judge.base_url": angry.base_url}) as server:
        for number in range(4):
            name = f"{group.name} {number}"
            for told_of in (None, name):
                reply = await server.client.post("/v1/judge", body(group, id=told_of, question=str(number)))
                assert reply.json["rewards"] == [None] * 4
            reasons = {each["failure_reason"] for each in reply.json["outcomes"]}
            fetched = await server.client.get(f"/v1/groups/{quote(name, safe='')}/0/1")
            assert {fetched.json["failure_reason"]} == reasons
            assert all(400 < len(reason) <= 2000 for reason in reasons)


async def test_a_group_failure_is_503_to_every_retry(server: Server, group: Group) -> None:
    """A1, J19, L5: here by rewards that are no numbers."""
    failing = replace(group, note=HUGE)
    for _ in range(2):
        check(await server.client.post("/v1/judge", body(failing)), 503, "group_failed")
    server.may_log.add("no_finite_reward")


async def test_a_caller_that_leaves_a_group_with_an_id_cancels_nothing(
    server: Server, judge: TextJudge, group: Group, free: None
) -> None:
    """A1, L8: the group goes on, and a retry has its outcome."""
    judge.hold()
    async with Connection(server.port) as connection:
        await connection.send(request("POST", "/v1/judge", body(group)))
        await judge.until(lambda: judge.is_asked_of(group))
        connection.close()
    await server.client.until_members(group.name, 4, callers=0)
    judge.let_go()
    assert (await server.client.post("/v1/judge", body(group))).json["rewards"] == group.rewards()
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_a_caller_that_leaves_a_group_without_an_id_cancels_it(
    server: Server, judge: TextJudge, group: Group, free: None
) -> None:
    """A1, H6: there is nobody whom it would be judged for."""
    judge.hold()
    async with Connection(server.port) as connection:
        await connection.send(request("POST", "/v1/judge", body(group, id=None)))
        await judge.until(lambda: judge.in_flight == 4)
        asked = {each.connection for each in judge.received[-4:]}
        connection.close()
        await judge.until(lambda: not judge.open_connections & asked)


async def test_none_and_one_need_no_judge(client: Client, judge: TextJudge, group: Group) -> None:
    """A1, L9, H6: the default score at once, and nothing is retained; a group that has an id has a member."""
    calls = len(judge.received)
    for name in (None, group.name):
        reply = await client.post("/v1/judge", body(group, answers=["x"], id=name))
        assert reply.json == {"rewards": [3.0], "outcomes": [outcome(3.0)], "verdicts": None, "metrics": None}
    reply = await client.post("/v1/judge", body(group, answers=[], id=None))
    assert reply.json == {"rewards": [], "outcomes": [], "verdicts": None, "metrics": None}
    check(await client.post("/v1/judge", body(group, answers=[])), 422, "invalid_request")
    assert await client.group(group.name) is None
    assert len(judge.received) == calls


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"question": None}, ["question"]),
        ({"question": 5}, ["question"]),
        ({"question": [5]}, ["question", 0]),
        ({"question": []}, ["question"]),
        ({"question": [{"content": "no role"}, {"role": 5, "content": "x"}]}, ["question"]),
        ({"answers": None}, ["answers"]),
        ({"answers": "x"}, ["answers"]),
        ({"answers": ["x", 7]}, ["answers", 1]),
        ({"answers": ["x", {}]}, ["answers", 1, "output"]),
        ({"answers": ["x", ["y"]]}, ["answers", 1, 0]),
        ({"answers": ["x"] * 1025}, ["answers"]),
        ({"principle": 5}, ["principle"]),
        ({"id": 5}, ["id"]),
        ({"id": ""}, ["id"]),
        ({"id": "x" * 513}, ["id"]),
        ({"id": "\ud800"}, ["id"]),
        ({"attempt": -1}, ["attempt"]),
        ({"attempt": True}, ["attempt"]),
        ({"attempt": 1.0}, ["attempt"]),
        ({"attempt": 2**63}, ["attempt"]),
    ],
)
async def test_a_malformed_request_is_told_where(client: Client, group: Group, changes: dict, loc: list) -> None:
    """A1, H5: and it forms no group."""
    reply = await client.post("/v1/judge", body(group, **changes))
    check(reply, 422, "invalid_request")
    assert [problem["loc"] for problem in reply.json["detail"]] == [["body", *loc]]
    assert await client.group(group.name) is None


@pytest.mark.parametrize("sent", [b"", b"[]", b'{"question": "x"', b'{"question": "\xff", "answers": []}'])
async def test_what_is_no_object_is_refused(client: Client, sent: bytes) -> None:
    """H10."""
    check(await client.post("/v1/judge", sent), 422, "invalid_request")


async def test_a_large_body_is_read_by_the_helper(serve: Serve, group: Group) -> None:
    """H11: many objects in a body; the answers, and their fingerprints, are what they are in a small one."""
    texts = [group.text(slot) for slot in range(4)]
    tokens = [{"token": str(n), "logprob": -0.5} for n in range(10_000)]
    message = {"type": "message", "role": "assistant"}
    answers = [
        {"output": [{**message, "content": [{"type": "output_text", "text": text, "logprobs": tokens}]}]}
        for text in texts
    ]
    async with serve({"group.size": 4, "scoring.score_range": "null"}) as server:
        assert descendants(server.process.pid) == set()
        reply = await server.client.post("/v1/judge", body(group, answers=answers))
        assert reply.json["rewards"] == rewards_of(question(group.name), texts)
        assert descendants(server.process.pid) != set()
        one = await server.client.verify(group.body(1, response=answers[1]))
        assert one.json["reward"] == group.rewards()[1]
        check(await server.client.post("/v1/judge", body(group, answers=[*answers, 5])), 422, "invalid_request")


async def test_a_large_body_of_compare_is_read_by_the_helper_too(serve: Serve, group: Group) -> None:
    """H11, H6: with the same rewards, and the same refusals."""
    padded = [{**answer(group.text(slot)), "extra": [{"n": n} for n in range(40_000)]} for slot in range(4)]
    async with serve({"group.size": 4, "scoring.score_range": "null"}) as server:
        reply = await server.client.post("/compare", compare_body(group, response_objs=padded))
        assert reply.json["rewards"] == group.rewards()
        assert descendants(server.process.pid) != set()
        check(
            await server.client.post("/compare", compare_body(group, response_objs=[*padded, {}])),
            422,
            "invalid_request",
        )


async def test_a_stopping_server_tells_every_caller(serve: Serve, judge: TextJudge, group: Group, free: None) -> None:
    """A1, L19."""
    judge.hold()
    async with serve({"group.size": 4}) as server:
        calls = [
            asyncio.ensure_future(server.client.post("/v1/judge", body(group, id=name))) for name in (None, group.name)
        ]
        async with cancelled_after(calls):
            await judge.until(lambda: judge.in_flight == 8)
            assert await server.stop() == 0
            for reply in await asyncio.gather(*calls):
                check(reply, 503, "shutting_down")
