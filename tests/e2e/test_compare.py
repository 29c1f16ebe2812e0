"""A whole group at once through `/compare` (H6)."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
from typing import Any

import pytest
from tests.support.judges import StubJudge, http

from .calling import Client, Connection, cancelled_after, request, until
from .conftest import Serve
from .groups import ANSWER_WORD, HUGE, JUDGE_WORD, REJECTED, Group, TextJudge, answer, question, rewards_of, scores
from .serving import Server
from .test_refusals import check


def body(group: Group, **changes: Any) -> bytes:
    """The group as a `/compare` request."""
    fields = {
        "conversation_history": [{"role": "user", "content": question(group.name)}],
        "response_objs": [answer(group.text(slot)) for slot in range(group.size)],
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


@pytest.mark.parametrize("size", [2, 3, 16])
async def test_rewards_verdicts_and_metrics(client: Client, judge: TextJudge, size: int) -> None:
    """H6, J1, J2, J14, J18: in the order of the answers; nothing is retained."""
    group = Group(f"compared {size}", size)
    reply = await client.post("/compare", body(group))
    assert reply.status == 200
    assert set(reply.json) == {"rewards", "comparison_results", "metrics"}
    assert reply.json["rewards"] == group.rewards()
    texts = [group.text(slot) for slot in range(size)]
    expected = []
    for i in range(size):
        j = (i + 1) % size
        numbers = scores(question(group.name), texts[i], texts[j])
        row = {"response_i": i, "response_j": j, "judge_idx": 0}
        expected.append(row | dict(zip(("score_1", "score_2", "ranking"), numbers, strict=True)))
    assert reply.json["comparison_results"] == expected
    given = [row[name] for row in expected for name in ("score_1", "score_2")]
    metrics = reply.json["metrics"]
    assert set(metrics) == {"mean_individual_score", "std_individual_score", "tiebreak_usage_rate"}
    assert math.isclose(metrics["mean_individual_score"], statistics.fmean(given))
    assert math.isclose(metrics["std_individual_score"], statistics.pstdev(given))
    ties = sum(row["score_1"] == row["score_2"] for row in expected)
    assert math.isclose(metrics["tiebreak_usage_rate"], ties / size)
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)
    assert await client.group(group.name) is None


async def test_none_and_one_need_no_judge(client: Client, judge: TextJudge, group: Group) -> None:
    """H6: no rewards, or the default score; the rest is null."""
    calls = len(judge.received)
    for answers, rewards in (([], []), ([answer("x")], [3.0])):
        reply = await client.post("/compare", body(group, response_objs=answers))
        assert reply.status == 200
        assert reply.json == {"rewards": rewards, "comparison_results": None, "metrics": None}
    assert len(judge.received) == calls


async def test_the_same_answer_twice_is_two_answers(client: Client, group: Group) -> None:
    """H6: the order is the identity."""
    text = group.text(0)
    reply = await client.post("/compare", body(group, response_objs=[answer(text)] * 3))
    assert reply.json["rewards"] == rewards_of(question(group.name), [text] * 3)


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"conversation_history": None}, ["conversation_history"]),
        ({"conversation_history": "x"}, ["conversation_history"]),
        ({"conversation_history": [5]}, ["conversation_history", 0]),
        ({"response_objs": None}, ["response_objs"]),
        ({"response_objs": {}}, ["response_objs"]),
        ({"response_objs": [answer("x"), 7]}, ["response_objs", 1]),
        ({"response_objs": [answer("x"), {}]}, ["response_objs", 1, "output"]),
        ({"principle": 5}, ["principle"]),
        ({"response_objs": [{"output": []}] * 1025}, ["response_objs"]),
    ],
)
async def test_a_malformed_request_is_told_where(client: Client, group: Group, changes: dict, loc: list) -> None:
    """H5, H6."""
    reply = await client.post("/compare", body(group, **changes))
    check(reply, 422, "invalid_request")
    assert [problem["loc"] for problem in reply.json["detail"]] == [["body", *loc]]


async def test_a_judge_failure_is_told_with_its_reason(client: Client, group: Group) -> None:
    """H6, J12, and the bound of H10a whatever the judge says."""
    failing = Group(group.name, 4, note=REJECTED)
    reply = await client.post("/compare", body(failing))
    detail = check(reply, 503, "judge_failed")
    assert "400" in detail
    assert JUDGE_WORD in detail


async def test_a_judges_long_reason_is_bounded(serve: Serve, group: Group) -> None:
    """J12, H10a: its first 1,000 characters where they fit into 4 KiB."""
    said = [text.encode("utf-8", "surrogatepass") * 3000 for text in ("\x01", "\U0001f600", "\ud800", "x")]
    angry = StubJudge(by=lambda request: http(400, said[int(request.json["input"][0]["content"])]))
    async with angry, serve({"judge.base_url": angry.base_url}) as server:
        for number in range(4):
            history = [{"role": "user", "content": str(number)}]
            reply = await server.client.post("/compare", body(group, conversation_history=history))
            detail = check(reply, 503, "judge_failed")
    assert "x" * 1000 in detail
    assert "x" * 1001 not in detail


async def test_an_internal_error_is_a_500_of_the_usual_shape(server: Server, group: Group) -> None:
    """H5, J19: no reward that is no number; the log names the error's class only."""
    known = [event for event in server.events() if event["event"] == "request_broke"]
    reply = await server.client.post("/compare", body(Group(group.name, 4, note=HUGE)))
    check(reply, 500, "internal")
    broke = []

    async def is_logged() -> bool:  # after the reply has gone
        broke[:] = [event for event in server.events() if event["event"] == "request_broke"]
        return bool(broke)

    await until(is_logged)
    assert known == []
    assert [(event["path"], event["error"]) for event in broke] == [("/compare", "NotFinite")]
    server.may_log.add("request_broke")
    assert (await server.client.post("/compare", body(group))).json["rewards"] == group.rewards()


async def test_a_caller_that_leaves_cancels_its_judging(
    server: Server, judge: TextJudge, group: Group, free: None
) -> None:
    """H6: the judge sees its connections closed; another caller with the same group is not concerned."""
    judge.hold()
    async with cancelled_after([server.client.caller(group.body(0))]):
        stays = asyncio.ensure_future(server.client.post("/compare", body(group)))
        await judge.until(lambda: judge.in_flight == 4)
        stayed = {each.connection for each in judge.received[-4:]}
        async with Connection(server.port) as connection:
            await connection.send(request("POST", "/compare", body(group)))
            await judge.until(lambda: judge.in_flight == 8)
            left = {each.connection for each in judge.received[-4:]}
            connection.close()
        await judge.until(lambda: not judge.open_connections & left)
        assert judge.open_connections >= stayed
        assert judge.in_flight == 4
        judge.let_go()
        assert (await stays).json["rewards"] == group.rewards()
        assert ANSWER_WORD not in server.log.read_text()


async def test_it_has_the_judging_deadline(serve: Serve, judge: TextJudge, group: Group, free: None) -> None:
    """L16 for `/compare`: the judge calls are cancelled."""
    judge.hold()
    async with serve({"group.judging_timeout_s": 0.3}) as server:
        before = judge.connections
        reply = await server.client.post("/compare", body(group))
        assert "deadline" in check(reply, 503, "judge_failed")
        await judge.until(lambda: judge.in_flight == 0 and max(judge.open_connections, default=-1) < before)
