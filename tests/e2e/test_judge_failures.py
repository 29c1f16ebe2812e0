"""Judges that are dead, silent, or die on the way: masked replies, and `/readyz` says why (H4, H8, J12, J13, L16)."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from signal import SIGTERM

import pytest
from tests.support.judges import DISCONNECT, RESET, SILENCE, StubJudge, cut, http, responses, verdict_text

from .calling import cancelled_after
from .conftest import Serve
from .groups import JUDGE_WORD, Group, TextJudge, answer
from .serving import Server

GOOD = responses(verdict_text())


def masked(reply: dict) -> str:
    """The reason of a masked reply."""
    assert (reply["reward"], reply["mask_sample"], reply["failure_kind"]) == (0.0, True, "judge_failed")
    assert reply["_ng_failure_judge_error"] == reply["failure_reason"]
    return reply["failure_reason"]


async def outcomes(server: Server, group: Group) -> list[dict]:
    replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
    assert [reply.status for reply in replies] == [200] * group.size
    return [reply.json for reply in replies]


async def test_a_judge_that_nobody_is(serve: Serve, group: Group) -> None:
    """H4, H8: the connection is refused; the server itself is alive."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with serve({"judge.base_url": f"http://127.0.0.1:{port}/v1"}) as server:
            reasons = {masked(reply) for reply in await outcomes(server, group)}
            assert len(reasons) == 1
            assert f"127.0.0.1:{port}" in reasons.pop()
            ready = await server.client.get("/readyz")
            assert ready.status == 503
            assert f"127.0.0.1:{port}" in ready.json["reason"]
            assert (await server.client.get("/healthz")).status == 200


async def test_a_judge_that_hangs_is_given_up_at_the_judging_deadline(
    serve: Serve, judge: TextJudge, group: Group, free: None
) -> None:
    """L16: its calls are cancelled; every caller gets the masked reply, a later retry too, and no late verdict."""
    judge.hold()
    async with serve({"group.judging_timeout_s": 0.4}) as server:
        before = judge.connections
        replies = await outcomes(server, group)
        assert {"deadline" in masked(reply) for reply in replies} == {True}
        await judge.until(lambda: judge.in_flight == 0)
        judge.let_go()
        assert (await server.client.verify(group.body(2))).json == replies[2]
        assert judge.connections - before <= 4
        again = replace(group, attempt=1)
        assert [reply["reward"] for reply in await outcomes(server, again)] == again.rewards()


async def test_a_failed_group_without_an_id_says_what_to_do(serve: Serve, group: Group) -> None:
    """L20: its masked reply, to waiting callers and to a retry, names a fresh group id as the remedy; everything else
    is answered 503 with the same."""
    bodies = [group.body(slot, _ng_group_id=None) for slot in range(group.size)]
    async with StubJudge(otherwise=http(401, b"no")) as broken, serve({"judge.base_url": broken.base_url}) as server:
        replies = [reply.json for reply in await asyncio.gather(*map(server.client.verify, bodies))]
        assert {"a fresh _ng_group_id" in masked(reply) for reply in replies} == {True}
        assert (await server.client.verify(bodies[0])).json == replies[0]
        other = await server.client.verify(group.body(0, _ng_group_id=None, response=answer("another answer")))
        assert (other.status, "a fresh _ng_group_id" in other.json["detail"]) == (503, True)


async def test_a_judge_that_dies_and_comes_back(serve: Serve, group: Group) -> None:
    """J12, J13: what it was asked fails, and later groups are judged; a connection that it closed while idle is no
    failure (J22)."""
    says = [GOOD]
    async with StubJudge(by=lambda request: says[-1]) as judge, serve({"judge.base_url": judge.base_url}) as server:
        for attempt, said in enumerate((GOOD, GOOD, RESET, DISCONNECT, cut(GOOD), GOOD)):
            says.append(said)
            replies = await outcomes(server, replace(group, attempt=attempt))
            assert {reply["mask_sample"] for reply in replies} == {said is not GOOD}
            if said is not GOOD:
                assert len({masked(reply) for reply in replies}) == 1
            await judge.close_idle()
        assert (await server.client.get("/readyz")).status == 200


@pytest.mark.parametrize(
    "trouble",
    [
        [http(503, JUDGE_WORD), RESET, DISCONNECT, http(429, "", {"Retry-After": "0"})],
        [http(200, "<html>" + JUDGE_WORD), responses(JUDGE_WORD), responses("", "incomplete"), http(500)],
    ],
)
async def test_transient_trouble_is_tried_again(serve: Serve, group: Group, trouble: list) -> None:
    """J12: nobody notices but the judge."""
    async with StubJudge(*trouble, otherwise=GOOD) as judge:
        sets = {"judge.base_url": judge.base_url, "judge.retries": 4, "judge.retry_sleep_s": 0.001}
        async with serve(sets) as server:
            replies = await outcomes(server, replace(group, size=2))
            assert [reply["mask_sample"] for reply in replies] == [False, False]
            assert len(judge.received) == 2 + len(trouble)
            for kind in ("transport", "ok"):
                assert await server.client.metric("groupjudge_judge_tries_total", result=kind) > 0


async def test_default_scores_stand_in_where_they_are_switched_on(serve: Serve, group: Group) -> None:
    """J13: each member says so, at first and on a retry; no mask. What the judge said is in no log."""
    async with StubJudge(otherwise=responses(f"{JUDGE_WORD} says hm")) as judge:
        sets = {"judge.base_url": judge.base_url, "judge.on_unreadable": "default_scores"}
        async with serve(sets) as server:
            replies = await outcomes(server, group)
            for reply in replies:
                assert (reply["reward"], reply["mask_sample"]) == (3.0, False)
                assert reply["failure_kind"] == "groupjudge:default_scores"
                assert JUDGE_WORD in reply["failure_reason"]
            assert (await server.client.verify(group.body(1))).json == replies[1]
            assert await server.client.metric("groupjudge_default_scores_total") == 4


@pytest.mark.parametrize(("said", "asked"), [({"principle": "Be brief."}, "Be brief."), ({}, "Be kind.")])
async def test_the_judge_is_told_the_principle(serve: Serve, group: Group, said: dict, asked: str) -> None:
    """J10, J6: the request's, else the configured one; of another principle nothing."""
    async with StubJudge(otherwise=GOOD) as judge:
        sets = {
            "judge.base_url": judge.base_url,
            "comparison.use_principle": True,
            "comparison.default_principle": "Be kind.",
        }
        async with serve(sets) as server:
            await asyncio.gather(*(server.client.verify(group.body(slot, **said)) for slot in range(group.size)))
            told = {json.loads(each.body)["metadata"].get("principle") for each in judge.received}
            assert told == {asked}


async def test_the_judges_key_is_in_no_reply_and_no_log(serve: Serve, group: Group) -> None:
    """J12: though the judge gives it back."""
    key = "key-of-the-judge-4711"
    async with StubJudge(otherwise=http(400, f"your key {key} is wrong")) as judge:
        async with serve({"judge.base_url": judge.base_url, "judge.api_key": key}) as server:
            for reply in await outcomes(server, group):
                assert key not in masked(reply)
            assert judge.received[0].headers["authorization"] == f"Bearer {key}"
        assert key not in server.log.read_text()


async def test_readiness_follows_the_judge(serve: Serve) -> None:
    """H8: a judge that lets nobody in is not ready; while the server stops nobody asks."""
    async with StubJudge(otherwise=http(401)) as judge, serve({"judge.base_url": judge.base_url}) as server:
        ready = await server.client.get("/readyz")
        assert (ready.status, ready.json["status"]) == (503, "not ready")
        assert "401" in ready.json["reason"]
        assert judge.received[0].target == "/v1/models"


async def test_a_silent_judge_does_not_hold_up_the_end(serve: Serve, group: Group) -> None:
    """L19: callers have their 503 though the judge never speaks."""
    async with StubJudge(otherwise=SILENCE) as judge, serve({"judge.base_url": judge.base_url}) as server:
        async with cancelled_after([server.client.caller(body) for body in group.bodies()]) as callers:
            await judge.until(lambda: len(judge.received) == 4)
            server.signal(SIGTERM)
            assert {(await caller).said for caller in callers} == {(503, "shutting_down")}
        assert await server.ended() == 0
        await judge.until(lambda: not judge.open_connections)
