"""Replies made of what was sent."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers.echo import Piece, failure_reply, masked, reward_reply
from groupjudge.answers.verify import read_verify
from groupjudge.model import Rewarded

from .json_values import EVERY_PATH, Paths, answers, fixed, referee, rngs, spell
from .test_verify import ANSWER, BODY, encoded, with_fields, without

FAILURE_FIELDS = {
    "reward": 0.0,
    "mask_sample": True,
    "failure_kind": "judge_failed",
    "failure_reason": "no verdict",
    "_ng_failure_class": "judge_failed",
    "_ng_failure_judge_error": "no verdict",
}


def joined(pieces: list[Piece], body: bytes) -> bytes:
    """The reply as it is sent."""
    return b"".join(piece if isinstance(piece, bytes) else body[slice(*piece)] for piece in pieces)


def unique(text: bytes) -> dict[str, Any]:
    """The object that a reply is; a key that comes twice at its top level is an error."""
    pairs = json.JSONDecoder(object_pairs_hook=lambda pairs: pairs).decode(text.decode())
    assert len({key for key, _ in pairs}) == len(pairs)
    value: dict[str, Any] = json.loads(text)
    return value


def rewarded(body: bytes, outcome: Rewarded | None = None, **options: Any) -> bytes:
    request = read_verify(body, default_size=16, max_size=1024)
    return joined(reward_reply(request, outcome or Rewarded(3.25), 3, **options), body)


def failed(body: bytes, reason: str = "no verdict", **options: Any) -> bytes:
    request = read_verify(body, default_size=16, max_size=1024)
    return joined(failure_reply(request, reason, 3, body, **options), body)


# -- rewards -----------------------------------------------------------------------------------------------------------


def test_a_rewarded_reply_repeats_question_and_answer_and_nothing_else() -> None:
    """H2: with the reward and the identity in the prefixed fields."""
    sent = with_fields(reward=9, group_id="other", extra=1, instance_config={"a": 1}, _ng_group_attempt=4)
    assert unique(rewarded(encoded(sent))) == {
        "responses_create_params": BODY["responses_create_params"],
        "response": ANSWER,
        "reward": 3.25,
        "mask_sample": False,
        "failure_kind": None,
        "failure_reason": None,
        "_ng_group_id": "g",
        "_ng_group_attempt": 4,
        "_ng_rollout_index": 3,
    }


def test_the_echo_is_the_bytes_that_were_sent() -> None:
    """H2: numbers, escapes, white space, equal keys within, all as they came."""
    params = '{ "input" : "\\u0048i" , "n":1E+2,"n":  0.10}'
    response = '{"output":[{"x":[1.50,-0, 1e-05,NaN]}],\n "big":12345678901234567890123,"s":"\\ud800"}'
    body = f'{{"response":{{}},"resp\\u006fnse":{response},"responses_create_params":{params},"_ng_rollout_index":3}}'
    reply = rewarded(body.encode())
    assert reply.startswith(f'{{"responses_create_params":{params},"response":{response},"reward":3.25,'.encode())


def test_default_scores_are_told() -> None:
    """J13: in the failure fields of a rewarded reply, unmasked."""
    reply = unique(rewarded(encoded(BODY), Rewarded(3.0, "groupjudge:default_scores", "unreadable" * 1000)))
    assert (reply["failure_kind"], reply["mask_sample"]) == ("groupjudge:default_scores", False)
    assert len(reply["failure_reason"]) == 2000


def test_a_minimal_reply_has_no_echo() -> None:
    """H3: the outcome is the same."""
    full, minimal = unique(rewarded(encoded(BODY))), unique(rewarded(encoded(BODY), minimal=True))
    assert minimal == {name: value for name, value in full.items() if not name.startswith("response")}


@pytest.mark.parametrize("reward", [1e-07, 1e22, -0.1, 5e-324, 1.7976931348623157e308, 3.0, 0.1 + 0.2])
def test_a_reward_comes_back_bit_for_bit(reward: float) -> None:
    """H2: a finite number of JSON."""
    assert unique(rewarded(encoded(BODY), Rewarded(reward), minimal=True))["reward"] == reward


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_never_published(reward: float) -> None:
    """J19."""
    with pytest.raises(ValueError, match="finite"):
        rewarded(encoded(BODY), Rewarded(reward))


def test_who_has_no_group_id_is_told_so_and_a_member_id_comes_back() -> None:
    """H2, A3: the slot that was given, and the name it goes by."""
    reply = unique(rewarded(encoded(without("_ng_group_id"))))
    assert (reply["_ng_group_id"], reply["_ng_rollout_index"]) == (None, 3)
    assert "_ng_member_id" not in reply
    member = without("_ng_rollout_index") | {"_ng_member_id": "m"}
    assert unique(rewarded(encoded(member)))["_ng_member_id"] == "m"
    assert unique(failed(encoded(member)))["_ng_member_id"] == "m"


@pytest.mark.parametrize("group_id", ['"', "\\", "\x00", "é\U0001f600", "</script>", "\u2028"])
def test_any_group_id_comes_back(group_id: str) -> None:
    """H1: whatever characters it is made of."""
    assert unique(rewarded(encoded(with_fields(_ng_group_id=group_id))))["_ng_group_id"] == group_id


# -- judge failures ----------------------------------------------------------------------------------------------------


def test_a_judge_failure_repeats_the_whole_body() -> None:
    """H4: unknown fields and unprefixed twins included, with the failure fields and the identity added."""
    sent = {"extra": [1.5, {"a": None}], **BODY, "group_id": "other", "_ng_group_size": 16, "principle": None}
    reply = unique(failed(encoded(sent)))
    assert reply == sent | FAILURE_FIELDS | {"_ng_group_attempt": 0, "instance_config": {"mask_sample": True}}


@pytest.mark.parametrize(
    "name", [*FAILURE_FIELDS, "instance_config", "_ng_group_id", "_ng_group_attempt", "_ng_rollout_index"]
)
def test_what_the_reply_says_itself_is_never_the_callers(name: str) -> None:
    """H10a, H4: a caller's reward, mask or failure does not survive, however its key is spelled and however often."""
    value = {"instance_config": '{"x":1}', "_ng_group_id": '"g"'}.get(name, "3")
    spelled = "".join(f"\\u{ord(each):04x}" for each in name)
    extra = "".join(f'"{key}" : {value}, ' for key in (name, spelled, spelled, name))
    body = b"{" + extra.encode() + encoded(without(name))[1:]
    reply = unique(failed(body))
    for field, told in FAILURE_FIELDS.items():
        assert reply[field] == told
    assert (reply["_ng_group_id"], reply["_ng_rollout_index"], reply["instance_config"]["mask_sample"]) == (
        "g",
        3,
        True,
    )
    assert failed(body).count(b"\\u00") == 0


def test_only_the_last_of_equal_keys_is_repeated() -> None:
    """H4: two keys are equal where they are once decoded; those between them stay."""
    body = b'{"x":1,"y":2,"\\u0078":3,"z":4,"z":5,' + encoded(BODY)[1:]
    assert failed(body).startswith(b'{"y":2,"\\u0078":3,"z":5,"responses_create_params":')
    assert unique(failed(body))["x"] == 3


def test_an_instance_config_keeps_what_was_sent() -> None:
    """H4: with the mask added, or in place of what it said."""
    body = encoded(with_fields(instance_config={"a": [1.5], "mask_sample": "?", "b": {"mask_sample": False}}))
    for reply in (unique(failed(body)), unique(failed(body, minimal=True))):
        assert reply["instance_config"] == {"a": [1.5], "mask_sample": True, "b": {"mask_sample": False}}


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (None, b'{"mask_sample":true}'),
        (b"{}", b'{"mask_sample":true}'),
        (b' { "a" : 1.50 , "b":2 } ', b'{"a" : 1.50 , "b":2,"mask_sample":true}'),
        (b'{"mask_sampl\\u0065":0,"a":1,"a":2,"mask_sample":1}', b'{"a":2,"mask_sample":true}'),
        (b'{"a":NaN,"mask_sample":[1],"caf\xc3\xa9":"\xc3\xa9","c":1}',
         b'{"a":NaN,"caf\xc3\xa9":"\xc3\xa9","c":1,"mask_sample":true}'),
    ],
)  # fmt: skip
def test_masking(sent: bytes | None, told: bytes) -> None:
    """H4: the rest is repeated as it came."""
    assert masked(sent) == told


def test_a_minimal_judge_failure_has_identity_mask_and_failure_fields() -> None:
    """H4: and needs no body."""
    body = encoded(with_fields(extra=1, instance_config={"a": 1}))
    request = read_verify(body, default_size=16, max_size=1024)
    reply = unique(joined(failure_reply(request, "no verdict", 3, None, minimal=True), b""))
    assert reply == FAILURE_FIELDS | {
        "instance_config": {"a": 1, "mask_sample": True},
        "_ng_group_id": "g",
        "_ng_group_attempt": 0,
        "_ng_rollout_index": 3,
    }
    with pytest.raises(ValueError, match="body"):
        failure_reply(request, "no verdict", 3, None)


@pytest.mark.parametrize("reason", ["x" * 3000, "\ud800", '"\\\n', ""])
def test_a_reason_is_bounded_and_fit_for_json(reason: str) -> None:
    """H4: at most 2,000 characters."""
    reply = unique(failed(encoded(BODY), reason))
    assert reply["failure_reason"] == reply["_ng_failure_judge_error"] == reason[:2000]


@given(answers, rngs, st.sampled_from(EVERY_PATH), st.booleans())
def test_any_body_comes_back_with_the_same_values(
    answer: Any, rng: random.Random, path: dict[str, Any], bom: bool
) -> None:
    """H2, H4: both replies hold the values that were sent, in the bytes they were sent in."""
    answer = fixed(answer)
    sent = {"x": answer, "reward": 5, **BODY, "response": answer, "é": [1, 2, 3], "instance_config": {"a": answer}}
    body = (b"\xef\xbb\xbf" if bom else b"") + spell(sent, rng).strip(" \t\n\r").encode()
    with Paths(**path):
        reward, failure = unique(rewarded(body)), unique(failed(body))
    expected = sent | FAILURE_FIELDS | {"_ng_group_attempt": 0, "instance_config": {"a": answer, "mask_sample": True}}
    assert referee(failure) == referee(expected)
    assert referee(reward["response"]) == referee(answer)
    assert referee(reward["responses_create_params"]) == referee(sent["responses_create_params"])
