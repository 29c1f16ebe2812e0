"""What comes back is what was sent, byte for byte (H2, H4, H10)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from .calling import Client
from .groups import REJECTED, Group
from .rawjson import members

ODD = [
    rb'{"a":1e-05,"b":1.0,"c":12345678901234567890,"d":-0,"e":-0.0,"f":1E+2,"g":0.1e1}',
    rb'{"nan":NaN,"inf":Infinity,"neg":-Infinity,"null":null,"far":1e400,"wide":' + b"7" * 5000 + b"}",
    rb'{"lone":"\ud800","pair":"\ud83d\ude00","low\udfff":"x\u0000y"}',
    b'{ "z" : 1 ,\t"a" :\r\n [ 1 ,2 , 3 ] , "a" : [ ] }',
    rb'{"same":1,"same":2,"s\u0061me":3}',
    '{"é":"\\u00e9","\\u00e9x":"\U0001f600\\/\\b"}'.encode(),
    b'{"deep":' + b"[" * 250 + b"]" * 250 + b"}",
    b'{"prompt_token_ids":['
    + b",".join(b"%d" % n for n in range(3000))
    + b'],"generation_log_probs":[-0.0,'
    + b"-1.50e-3," * 3000
    + b"0]}",
]
IDS = ["numbers", "no numbers", "surrogates", "space", "duplicates", "escapes", "depth", "training arrays"]


def sent(group: Group, slot: int, odd: bytes, *, rest: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """A body with an odd object in question and answer: the body and the two values in it."""
    params = json.dumps(group.fields(slot)["responses_create_params"]).encode()[:-1] + b' ,"odd":' + odd + b"}"
    response = b'{"odd" : ' + odd + b"," + json.dumps(group.fields(slot)["response"]).encode()[1:]
    where = b'{"_ng_group_id":%s,"_ng_rollout_index":%d,"_ng_group_size":%d' % (
        json.dumps(group.name).encode(),
        slot,
        group.size,
    )
    return (
        where + b', "response":\t' + response + b' ,"responses_create_params": ' + params + rest + b"}",
        params,
        response,
    )


@pytest.mark.parametrize("odd", ODD, ids=IDS)
async def test_question_and_answer_come_back_as_they_were_sent(client: Client, group: Group, odd: bytes) -> None:
    """H2, H10: numbers, spelling, order, space; the second time too (L4)."""
    both = replace(group, size=2)
    sendings = [sent(both, slot, odd) for slot in range(2)]
    first = await asyncio.gather(*(client.verify(body) for body, _, _ in sendings))
    again = await asyncio.gather(*(client.verify(body) for body, _, _ in sendings))
    for replies in (first, again):
        for slot, (reply, (_, params, response)) in enumerate(zip(replies, sendings, strict=True)):
            assert reply.status == 200
            parts = dict(members(reply.body))
            assert len(parts) == len(members(reply.body))
            assert parts["responses_create_params"] == params
            assert parts["response"] == response
            assert float(parts["reward"]) == both.rewards()[slot]


@pytest.mark.parametrize("odd", ODD, ids=IDS)
async def test_a_judge_failure_brings_the_whole_body_back(client: Client, group: Group, odd: bytes) -> None:
    """H4: every field as it was sent but those that the reply says itself, which come once."""
    failing = replace(group, size=2, note=REJECTED)
    rest = b""",
        "unknown" :%s, "unk\\u006eown2": "\\ud800", "twice":1, "twice" : %s , "instance_config": {"a" : 1.0,"a":1e-05},
        "\\u0072eward": 77, "reward":78, "mask_sample":false, "_ng_failure_class":"x", "failure_reason": [],
        "group_id" :"y" """ % (
        odd,
        odd,
    )
    sendings = [sent(failing, slot, odd, rest=rest) for slot in range(2)]
    replies = await asyncio.gather(*(client.verify(body) for body, _, _ in sendings))
    for slot, (reply, (_, params, response)) in enumerate(zip(replies, sendings, strict=True)):
        assert reply.status == 200
        parts = dict(members(reply.body))
        assert len(parts) == len(members(reply.body))
        said = {
            name: parts.pop(name)
            for name in list(parts)
            if name
            not in (
                "responses_create_params",
                "response",
                "unknown",
                "unknown2",
                "twice",
                "group_id",
                "instance_config",
            )
        }
        assert parts.pop("instance_config") == b'{"a":1e-05,"mask_sample":true}'
        assert parts == {
            "responses_create_params": params,
            "response": response,
            "unknown": odd,
            "unknown2": b'"\\ud800"',
            "twice": odd,
            "group_id": b'"y"',
        }
        assert json.loads(said.pop("failure_reason")) == json.loads(said.pop("_ng_failure_judge_error"))
        assert {name: json.loads(value) for name, value in said.items()} == {
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": "judge_failed",
            "_ng_failure_class": "judge_failed",
            "_ng_group_id": group.name,
            "_ng_group_attempt": 0,
            "_ng_rollout_index": slot,
            "_ng_group_size": 2,
        }


async def test_of_equal_keys_the_last_counts(client: Client, group: Group) -> None:
    """H10: in the body itself, whatever way a key is spelled."""
    both = replace(group, size=2)
    bodies = []
    for slot in range(2):
        body, params, response = sent(both, slot, b"{}")
        wrong = (
            b'{"response":{"output":7},"_ng_rollout_index":"x","respons\\u0065s_create_params":5,"_ng_group_size":null,'
        )
        bodies.append((wrong + body[1:], params, response))
    replies = await asyncio.gather(*(client.verify(body) for body, _, _ in bodies))
    for reply, (_, params, response) in zip(replies, bodies, strict=True):
        parts = dict(members(reply.body))
        assert (parts["responses_create_params"], parts["response"]) == (params, response)
    assert [reply.json["reward"] for reply in replies] == both.rewards()


async def test_a_key_may_be_escaped(client: Client, group: Group) -> None:
    """H10: `"\\u0072esponse"` is `response`."""
    both = replace(group, size=2)
    bodies = [
        sent(both, slot, b"1")[0]
        .replace(b'"response"', b'"\\u0072esponse"', 1)
        .replace(b'"_ng_roll', b'"_\\u006eg_roll')
        for slot in range(2)
    ]
    replies = await asyncio.gather(*map(client.verify, bodies))
    assert [reply.json["reward"] for reply in replies] == both.rewards()


@pytest.mark.parametrize("name", ["reward", "\\u0072eward", "mask_sample", "failure_kind", "_ng_failure_class"])
async def test_a_callers_reward_never_survives(client: Client, group: Group, name: str) -> None:
    """H10a: in any spelling, rewarded and masked."""
    for attempt, note in enumerate(("", REJECTED)):
        both = replace(group, size=2, attempt=attempt, note=note)
        bodies = [both.body(slot).replace(b"{", b'{"%s": 4711,' % name.encode(), 1) for slot in range(2)]
        for reply in await asyncio.gather(*map(client.verify, bodies)):
            assert reply.status == 200
            assert b"4711" not in reply.body


async def test_a_byte_order_mark_is_skipped(client: Client, group: Group) -> None:
    """H10: and does not shift what comes back."""
    both = replace(group, size=2)
    for attempt, note in enumerate(("", REJECTED)):
        both = replace(both, attempt=attempt, note=note)
        bodies = [b"\xef\xbb\xbf" + both.body(slot, x="é") for slot in range(2)]
        replies = await asyncio.gather(*map(client.verify, bodies))
        for slot, reply in enumerate(replies):
            assert not reply.body.startswith(b"\xef\xbb\xbf")
            assert reply.json["response"] == both.fields(slot)["response"]


@pytest.mark.parametrize("slot_of_odd", range(2))
async def test_answers_are_the_same_by_value(client: Client, group: Group, slot_of_odd: int) -> None:
    """L21, by its effect: what is spelled otherwise is an exact retry, what has another value conflicts."""
    both = replace(group, size=2)
    base = rb'{"n":1e-05,"i":10,"s":"\u00e9","f":1.0,"x":NaN,"z":-0,"o":{"a":1,"b":2}}'
    same = [
        '{"o":{"b":2, "a":1},"n":0.00001,"i":10,"s":"é","f":1e0,"x":NaN,"z":0}'.encode(),
        rb'{"z":-0,"n":0.00001e0,"i":10,"\u0073":"\u00E9","f":10e-1,"x":NaN,"o":{"a":9,"a":1,"b":2}}',
    ]
    other = [
        base.replace(b"1.0", b"1"),
        base.replace(b"NaN", b"null"),
        base.replace(b"NaN", b"Infinity"),
        base.replace(b":-0", b":-0.0"),
        base.replace(b"10", b"10.0"),
        base.replace(b"\\u00e9", b"e"),
        base.replace(b'"a":1', b'"a":[1]'),
    ]
    bodies = [sent(both, slot, base)[0] for slot in range(2)]
    assert {reply.status for reply in await asyncio.gather(*map(client.verify, bodies))} == {200}
    for spelled in same:
        body, _, response = sent(both, slot_of_odd, spelled)
        reply = await client.verify(body)
        assert dict(members(reply.body))["response"] == response
        assert reply.json["reward"] == both.rewards()[slot_of_odd]
    for changed in other:
        assert (
            await client.verify(sent(both, slot_of_odd, changed)[0].replace(b'"odd":' + changed + b"}", b'"odd":0}'))
        ).said == (409, "answer_conflict")
