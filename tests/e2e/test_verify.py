"""One group's way through `/verify`: statuses, bodies, headers (H1-H4, L1-L9)."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest

from .calling import Client, cancelled_after, request
from .groups import GARBLED, HUGE, JUDGE_WORD, REJECTED, Group, TextJudge, question
from .serving import Server

REWARDED = {
    "responses_create_params",
    "response",
    "reward",
    "mask_sample",
    "failure_kind",
    "failure_reason",
    "_ng_group_id",
    "_ng_group_attempt",
    "_ng_rollout_index",
}


async def judged(client: Client, group: Group) -> list[dict]:
    """Send every member at once; the replies in slot order."""
    replies = await asyncio.gather(*map(client.verify, group.bodies()))
    assert [reply.status for reply in replies] == [200] * group.size
    return [reply.json for reply in replies]


async def test_a_rewarded_reply_is_whole(client: Client, group: Group) -> None:
    """H2: its fields, no others; its length, its type."""
    replies = await asyncio.gather(*map(client.verify, group.bodies()))
    for slot, reply in enumerate(replies):
        sent = group.fields(slot)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert "preference-applied" not in reply.headers
        assert reply.json == {
            "responses_create_params": sent["responses_create_params"],
            "response": sent["response"],
            "reward": group.rewards()[slot],
            "mask_sample": False,
            "failure_kind": None,
            "failure_reason": None,
            "_ng_group_id": group.name,
            "_ng_group_attempt": 0,
            "_ng_rollout_index": slot,
        }


@pytest.mark.parametrize("seed", range(6))
async def test_sixteen_members_get_their_own_rewards_in_any_order(client: Client, judge: TextJudge, seed: int) -> None:
    """J14, J20, L2: each member comes once the one before is in; the judge sees the answers in slot order."""
    group = Group(f"sixteen-{seed}", 16, attempt=seed)
    order = random.Random(seed).sample(range(16), 16)
    callers: list[asyncio.Task] = []
    async with cancelled_after(callers):
        for came, slot in enumerate(order[:-1], 1):
            callers.append(client.caller(group.body(slot)))
            await client.until_members(group.name, came)
        assert not judge.asked_of(group)
        callers.append(client.caller(group.body(order[-1])))
        replies = {slot: (await caller).json for slot, caller in zip(order, callers, strict=True)}
    assert [replies[slot]["reward"] for slot in range(16)] == group.rewards()
    assert [replies[slot]["_ng_rollout_index"] for slot in range(16)] == list(range(16))
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_minimal_replies_leave_the_echo_out(client: Client, group: Group) -> None:
    """H3; the others of the group are not concerned."""
    replies = await asyncio.gather(*(client.verify(group.body(s), minimal=s % 2 == 0) for s in range(4)))
    for slot, reply in enumerate(replies):
        assert reply.json["reward"] == group.rewards()[slot]
        if slot % 2:
            assert set(reply.json) == REWARDED
            assert "preference-applied" not in reply.headers
        else:
            assert set(reply.json) == REWARDED - {"responses_create_params", "response"}
            assert reply.headers["preference-applied"] == "return=minimal"


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("return=minimal", True),
        ('respond-async, wait=10, Return="minimal"; foo', True),
        ("return=representation", False),
        ("return=representation, return=minimal", False),
        ("minimal", False),
    ],
)
async def test_preferences_are_read_as_rfc_7240_says(client: Client, group: Group, prefer: str, applied: bool) -> None:
    """H3."""
    reply = await client.post("/verify", replace(group, size=1).body(0), {"Prefer": prefer})
    assert ("response" not in reply.json) is applied
    assert (reply.headers.get("preference-applied") == "return=minimal") is applied


async def test_fields_and_their_twins(client: Client, group: Group) -> None:
    """H1: names without the prefix do too; of both the prefixed one counts, where it is not null."""
    bare = {f"_ng_{name}": None for name in ("group_id", "group_attempt", "rollout_index", "group_size")}
    plain = {"group_id": group.name, "group_attempt": 0, "group_size": 4}
    wrong = {"group_id": "other", "group_attempt": 7, "rollout_index": 99, "group_size": 2}
    nulls = dict.fromkeys(bare)
    bodies = [
        group.body(0, **bare, **plain, rollout_index=0),
        group.body(1, **wrong),
        json.dumps({**group.fields(2, **bare), **plain, **nulls, "rollout_index": 2}).encode(),
        group.body(3, principle=None, instance_config=None, _ng_task_index=None, prompt_id=None),
    ]
    replies = await asyncio.gather(*map(client.verify, bodies))
    assert [reply.json["reward"] for reply in replies] == group.rewards()
    assert {reply.json["_ng_group_id"] for reply in replies} == {group.name}


async def test_null_is_the_same_as_missing(client: Client, group: Group) -> None:
    """H1: size and attempt have defaults; the size is the configured one."""
    optional = ("_ng_group_attempt", "_ng_group_size", "principle", "instance_config", "_ng_task_index", "prompt_id")
    null = dict.fromkeys(optional)
    bodies = [json.dumps({**group.fields(slot), **(null if slot % 2 else {})}).encode() for slot in range(4)]
    bodies[0] = group.body(0, _ng_group_attempt=None, _ng_group_size=None)
    replies = await asyncio.gather(*map(client.verify, bodies))
    assert [reply.json["reward"] for reply in replies] == group.rewards()


async def test_group_ids_are_compared_code_point_by_code_point(client: Client) -> None:
    """H1: nothing is trimmed or normalised; up to 512 characters."""
    names = ["a/b?c#d%20", " padded ", "padded", "e\u0301", "\u00e9", "\0", "\U0001f600" * 512, "\U0001f600" * 511]
    for number, name in enumerate(names):
        group = Group(f"id {number}", 2)
        replies = await asyncio.gather(*(client.verify(group.body(slot, _ng_group_id=name)) for slot in range(2)))
        assert [reply.json["reward"] for reply in replies] == group.rewards()
        assert {reply.json["_ng_group_id"] for reply in replies} == {name}


async def test_a_group_of_one_needs_nobody(client: Client, judge: TextJudge, group: Group) -> None:
    """L9: the default score at once, no judge call, nothing retained, slot 0 where none came."""
    calls = len(judge.received)
    alone = replace(group, size=1)
    for body in (
        alone.body(0),
        alone.body(0, _ng_rollout_index=None),
        alone.body(0, response=json.loads("{}") | {"output": []}),
    ):
        reply = (await client.verify(body)).json
        assert (reply["reward"], reply["mask_sample"], reply["_ng_rollout_index"]) == (3.0, False, 0)
    assert len(judge.received) == calls
    assert await client.group(group.name) is None
    refused = await client.verify(alone.body(1))
    assert refused.said == (422, "invalid_request")
    assert refused.json["detail"][0]["loc"] == ["body", "_ng_rollout_index"]


async def test_a_group_of_one_whose_id_is_known_with_another_size(client: Client, group: Group) -> None:
    """L9."""
    await judged(client, group)
    assert (await client.verify(replace(group, size=1).body(0))).said == (409, "size_mismatch")


async def test_an_exact_retry_attaches_one_more_caller(client: Client, judge: TextJudge, group: Group) -> None:
    """L3: all callers get the outcome, each with its own body echoed, spelled as it came."""
    spelled = group.body(0).replace(b'"id": "r"', b'"\\u0069d" :"r" ')
    assert spelled != group.body(0)
    async with cancelled_after(
        [client.caller(group.body(0)), client.caller(spelled), client.caller(group.body(0), minimal=True)]
    ) as first:
        await client.until_members(group.name, 1, callers=3)
        rest = await asyncio.gather(*(client.verify(group.body(slot)) for slot in (1, 2, 3)))
        echoed, respelled, minimal = [await caller for caller in first]
    rewards = group.rewards()
    assert [reply.json["reward"] for reply in (echoed, respelled, minimal, *rest)] == [rewards[0]] * 3 + rewards[1:]
    assert b'"\\u0069d" :"r" ' in respelled.body
    assert b'"\\u0069d" :"r" ' not in echoed.body
    assert "response" not in minimal.json
    assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)


async def test_an_exact_retry_of_a_finished_member_is_answered_at_once(
    client: Client, judge: TextJudge, group: Group
) -> None:
    """L4: the saved reward without a judge call, and the body of the request that is answered."""
    await judged(client, group)
    calls = len(judge.received)
    for slot in range(4):
        retry = group.body(slot).replace(b", ", b" ,\t")
        reply = await client.verify(retry)
        assert reply.json["reward"] == group.rewards()[slot]
        assert json.dumps(group.fields(slot)["response"]).replace(", ", " ,\t").encode() in reply.body
    assert (await client.verify(group.body(0), minimal=True)).json["reward"] == group.rewards()[0]
    assert len(judge.received) == calls


async def test_another_answer_for_an_occupied_slot_conflicts(
    client: Client, judge: TextJudge, group: Group, free: None
) -> None:
    """L5, L1: while the group collects, is judged, and is finished; nothing changes."""
    other = replace(group, note="another")
    judge.hold()
    async with cancelled_after([client.caller(body) for body in group.bodies()[:3]]) as callers:
        await client.until_members(group.name, 3, callers=3)
        before = await client.group(group.name)
        assert (await client.verify(other.body(0))).said == (409, "answer_conflict")
        after = await client.group(group.name)
        assert {**before, "age_s": 0} == {**after, "age_s": 0}
        callers.append(client.caller(group.body(3)))
        await judge.until(lambda: judge.is_asked_of(group))
        assert (await client.verify(other.body(3))).said == (409, "answer_conflict")
        judge.let_go()
        assert [(await caller).json["reward"] for caller in callers] == group.rewards()
    assert (await client.verify(other.body(2))).said == (409, "answer_conflict")
    assert (await client.verify(group.body(2))).json["reward"] == group.rewards()[2]


async def test_what_has_no_place_in_a_full_group_is_closed_out(
    client: Client, judge: TextJudge, group: Group, free: None
) -> None:
    """L6: one more member of a group that is judged or finished. Only members that are named can be one too many."""
    ids = [group.body(slot, _ng_rollout_index=None, _ng_member_id=f"member {slot}") for slot in range(4)]
    fifth = group.body(4, _ng_rollout_index=None, _ng_member_id="member 4")
    judge.hold()
    async with cancelled_after([client.caller(body) for body in ids]) as callers:
        await judge.until(lambda: judge.in_flight == 4)
        assert (await client.verify(fifth)).said == (409, "group_closed")
        judge.let_go()
        assert {(await caller).status for caller in callers} == {200}
    assert (await client.verify(fifth)).said == (409, "group_closed")


async def test_a_judge_failure_masks_every_member(client: Client, judge: TextJudge, group: Group) -> None:
    """H4: the whole request comes back, unknown fields included; an exact retry gets the same (L4)."""
    failing = replace(
        group, note=REJECTED, extra={"unknown": {"a": [1e-05]}, "instance_config": {"k": 1, "mask_sample": False}}
    )
    replies = await judged(client, failing)
    for slot, reply in enumerate(replies):
        reason = reply.pop("failure_reason")
        assert "400" in reason
        assert JUDGE_WORD in reason
        assert len(reason) <= 2000
        assert reply == {
            **failing.fields(slot),
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": "judge_failed",
            "instance_config": {"k": 1, "mask_sample": True},
            "_ng_failure_class": "judge_failed",
            "_ng_failure_judge_error": reason,
        }
    calls = len(judge.received)
    again = (await client.verify(failing.body(2))).json
    assert again == {**replies[2], "failure_reason": reason}
    assert (await client.verify(replace(failing, note="x").body(2))).said == (409, "answer_conflict")
    assert len(judge.received) == calls


async def test_a_judge_failure_without_the_echo(client: Client, group: Group) -> None:
    """H4 under H3: identity, `instance_config` and the failure fields stay."""
    failing = replace(group, note=REJECTED)
    replies = await asyncio.gather(*(client.verify(body, minimal=True) for body in failing.bodies()))
    kept = REWARDED - {"responses_create_params", "response"}
    for reply in replies:
        assert set(reply.json) == kept | {"instance_config", "_ng_failure_class", "_ng_failure_judge_error"}
        assert reply.json["instance_config"] == {"mask_sample": True}
        assert reply.headers["preference-applied"] == "return=minimal"


async def test_a_verdict_that_cannot_be_read_is_a_judge_failure(client: Client, group: Group) -> None:
    """J13: `judge.on_unreadable: fail` is the default."""
    replies = await judged(client, replace(group, note=GARBLED))
    assert {reply["failure_kind"] for reply in replies} == {"judge_failed"}


async def test_a_reward_that_is_no_number_fails_the_group_with_its_reason(client: Client, group: Group, server) -> None:
    """J19, H5: nothing is published; the reason says where to look, and every request for the attempt gets it."""
    server.may_log.add("no_finite_reward")
    overdone = replace(group, note=HUGE)
    replies = await asyncio.gather(*map(client.verify, overdone.bodies()))
    assert {reply.said for reply in replies} == {(503, "group_failed")}
    assert "finite" in replies[0].json["detail"]
    assert (await client.verify(overdone.body(0))).json == replies[0].json
    assert [reply["reward"] for reply in await judged(client, replace(group, attempt=1))] == replace(
        group, attempt=1
    ).rewards()


async def test_what_answers_hold_inside_is_not_checked(client: Client, group: Group) -> None:
    """H1, J4, J5: unknown items and parts are skipped."""
    odd = [
        7,
        None,
        "x",
        [],
        {},
        {"type": 5},
        {"type": "message", "content": 5},
        {"type": "message", "content": [1, {"type": "refusal"}]},
    ]
    asked = [
        {"role": "user", "content": question(group.name)},
        {"type": "function_call"},
        {"role": 5, "content": {}},
        {},
    ]
    bodies = [
        group.body(
            slot,
            response={"output": [*odd, *group.fields(slot)["response"]["output"]]},
            responses_create_params={"input": asked},
        )
        for slot in range(4)
    ]
    replies = await asyncio.gather(*map(client.verify, bodies))
    assert [reply.json["reward"] for reply in replies] == group.rewards()


async def test_a_string_is_one_user_message(client: Client, group: Group) -> None:
    """L23: members may spell their question in two ways."""
    spelled = [
        question(group.name),
        [{"role": "user", "content": question(group.name)}],
        [{"role": "user", "content": question(group.name), "type": "message"}],
        [{"content": question(group.name), "type": "message", "role": "user"}],
    ]
    bodies = [group.body(slot, responses_create_params={"input": spelled[slot], "n": slot}) for slot in range(4)]
    replies = await asyncio.gather(*map(client.verify, bodies))
    assert [reply.json["reward"] for reply in replies] == group.rewards()


async def test_a_path_may_carry_the_key_of_an_episode(client: Client, group: Group) -> None:
    """H9."""
    paths = ["/verify", "/ng-rollout/a/verify", "/ng-rollout/7.x_Y-z/verify", "/ng-rollout/0/verify"]
    replies = await asyncio.gather(*(client.post(path, group.body(slot)) for slot, path in enumerate(paths)))
    assert [reply.json["reward"] for reply in replies] == group.rewards()
    for path in (
        "/ng-rollout/.a/verify",
        "/ng-rollout/a b/verify",
        "/ng-rollout//verify",
        "/ng-rollout/verify",
        "/ng-rollout/a",
    ):
        reply = await client.send(request("POST", path.replace(" ", "%20"), group.body(0)))
        assert reply.said == (404, "not_found")
    assert (await client.get("/ng-rollout/a/healthz")).status == 200


async def test_an_index_beside_a_member_id_is_ignored(server: Server) -> None:
    """A3: the member id counts, so two members that both say index 0 make a whole group."""
    bodies = [
        json.dumps(
            {
                "responses_create_params": {"input": "index beside a member id"},
                "response": {"output": [{"type": "message", "content": [{"type": "output_text", "text": name}]}]},
                "_ng_group_id": "both-ways",
                "_ng_group_size": 2,
                "_ng_rollout_index": 0,
                "_ng_member_id": name,
            }
        ).encode()
        for name in ("a", "b")
    ]
    replies = await asyncio.wait_for(asyncio.gather(*(server.client.post("/verify", body) for body in bodies)), 60)
    assert [reply.status for reply in replies] == [200, 200]
    assert {reply.json["_ng_rollout_index"] for reply in replies} == {0, 1}
