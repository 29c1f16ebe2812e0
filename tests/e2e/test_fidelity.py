"""Schedules, models and what is said of their sureness, through a running server and the command (F1-F6)."""

from __future__ import annotations

import asyncio
import json
import math

from .conftest import Serve
from .groups import Group, TextJudge, answer, question
from .test_compare import body

MODELLED = {"comparison.strategy": "adaptive", "comparison.budget_calls": 12, "scoring.aggregator": "least_squares"}


def asked_of(judge: TextJudge, group: Group) -> list[int]:
    """How often each pair of the group's texts came, in whichever seats."""
    known = {group.text(slot) for slot in range(group.size)}
    return [count for pair, count in judge.pairs.items() if known.issuperset(pair)]


async def test_a_group_is_judged_within_its_budget_and_says_how_sure_its_rewards_are(
    serve: Serve, judge: TextJudge
) -> None:
    """F1, F2, F4, F5, H6, L24: `/verify` and `/compare` give the same rewards; the details show errors and measures."""
    group = Group("fidelity", 5)
    async with serve({**MODELLED, "group.size": 5}) as server:
        replies = await asyncio.gather(*map(server.client.verify, group.bodies()))
        details = (await server.client.get(f"/v1/groups/{group.name}/0")).json
        assert asked_of(judge, group) == [1] * 12
        compared = (await server.client.post("/compare", body(group))).json
    rewards = [reply.json["reward"] for reply in replies]
    assert rewards == compared["rewards"] == details["rewards"]
    assert len(compared["comparison_results"]) == len(details["verdicts"]) == 12
    scores = [row[name] for row in details["verdicts"] for name in ("score_1", "score_2")]
    assert math.isclose(sum(rewards) / 5, sum(scores) / len(scores))
    assert all(error > 0 for error in details["standard_errors"])
    assert details["measures"] == {
        "position_bias": sum(row["score_1"] - row["score_2"] for row in details["verdicts"]) / 12,
        "swap_flip_rate": details["measures"]["swap_flip_rate"],
        "cycles": details["measures"]["cycles"],
        "triples": details["measures"]["triples"],
        "ties": details["measures"]["ties"],
        "ambiguous_replies": 0,
        "default_scores": 0,
        "calls_saved": 0,
        "spread": details["measures"]["spread"],
        "is_flat": False,
    }


async def test_equal_answers_cost_the_judge_one(serve: Serve, judge: TextJudge) -> None:
    """F6: what is saved is counted for the group and over all."""
    group = Group("twins", 4)
    text = group.text(0)
    async with serve({"comparison.equal_answers": "once"}) as server:
        texts = [text, text, text, group.text(1)]
        reply = await server.client.post("/compare", body(group, response_objs=[answer(each) for each in texts]))
        saved = await server.client.metric("groupjudge_judge_calls_saved_total")
    rewards = reply.json["rewards"]
    assert len(set(rewards[:3])) == 1
    assert asked_of(judge, group) == [1, 1]
    assert len(reply.json["comparison_results"]) == 2
    assert {(row["response_i"], row["response_j"]) for row in reply.json["comparison_results"]} == {(0, 3), (3, 0)}
    assert saved == 2


async def test_equal_rewards_are_flagged(serve: Serve, judge: TextJudge) -> None:
    """F4: a group of one answer, written five times, teaches nothing."""
    group = Group("all-the-same", 5)
    same = json.dumps({"question": question(group.name), "answers": ["yes"] * 5, "id": group.name}).encode()
    async with serve({"comparison.equal_answers": "once"}) as server:
        await server.client.post("/v1/judge", same)
        details = (await server.client.get(f"/v1/groups/{group.name}/0")).json
        flat = await server.client.metric("groupjudge_flat_groups_total")
    assert details["rewards"] == [3.0] * 5
    assert flat == 1
    assert details["standard_errors"] == [None] * 5
    assert details["measures"]["is_flat"] is True
    assert details["measures"]["calls_saved"] == 5
    assert not any("yes" in pair for pair in judge.pairs)
