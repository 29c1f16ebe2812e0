"""Plain bodies, read in one pass."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.answers.plain import plain_coordinates, read_plain
from groupjudge.answers.top import SENT_NAMES
from groupjudge.answers.verify import VerifyRequest, read_verify
from groupjudge.errors import FieldProblem, InvalidRequest

from .json_values import Paths, rngs, spell
from .test_verify import BODY, encoded, without

SMALL = [name for name in SENT_NAMES.values() if name not in ("responses_create_params", "response")]
NUMBERS = [-(2**63) - 1, -(2**63), -1, 0, 1, 3, 4, 5, 2**63 - 1, 2**63, 2**64, 10**700, 0.0, -0.0, 1.0, 1e300, True]
TEXTS = ["", "g", "7", "é" * 512, "\U0001f600" * 512, "x" * 513, "p" * 4096, "p" * 4097, "\ud800", "\x00", "\ufeff"]
VALUES = [None, *NUMBERS, *TEXTS, [], [1], {}, {"a": [1.5]}]
LIMITS = {"default_size": 4, "max_size": 5}


def found(body: bytes, limits: dict[str, int]) -> VerifyRequest | list[FieldProblem]:
    """What comes of a body: the request, or what is wrong with it."""
    try:
        return read_verify(body, **limits)
    except InvalidRequest as error:
        return error.problems


def found_exactly(body: bytes, limits: dict[str, int]) -> VerifyRequest | list[FieldProblem]:
    """The same, by the exact reader."""
    with Paths(exact=True):
        return found(body, limits)


@pytest.mark.parametrize("name", SMALL)
def test_both_readers_find_the_same_in_a_field(name: str) -> None:
    """H1, H5, H10: its value or its fault, with and without its twin, a member id and a group of one."""
    rng = random.Random(name)
    for value in VALUES:
        for others in ({}, {"_ng_member_id": "m"}, {"group_size": 1}, {"group_id": "h", "rollout_index": 1}):
            body = spell({**BODY, **others, name: value}, rng).encode()
            assert found(body, LIMITS) == found_exactly(body, LIMITS), (value, others)


@given(st.dictionaries(st.sampled_from(SMALL), st.sampled_from(VALUES), max_size=4), rngs, st.sampled_from([1, 4, 16]))
def test_both_readers_find_the_same(fields: dict[str, Any], rng: random.Random, default_size: int) -> None:
    """H1, H5, H10: whatever the fields hold together, and however they are spelled."""
    body = spell({**BODY, **fields}, rng).encode()
    limits = {**LIMITS, "default_size": default_size}
    assert found(body, limits) == found_exactly(body, limits)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        dict.fromkeys(SMALL) | {"_ng_rollout_index": 0},
        {"_ng_task_index": 0, "_ng_group_attempt": 0, "_ng_group_size": 16, "principle": "be kind"},
        {"group_id": "h", "group_attempt": 1, "group_size": 4, "task_index": -1, "prompt_id": "p"},
        {"_ng_member_id": "m", "instance_config": {"a": 1}, "anything": [1.5]},
    ],
    ids=lambda fields: ",".join(fields),
)
def test_what_clients_send_is_plain(fields: dict[str, Any]) -> None:
    """P1: the exact reader, which takes three times as long, is not needed for it."""
    top = read_plain(encoded({**BODY, **fields}))
    assert top is not None
    assert plain_coordinates(top, 16, 1024) is not None


def test_what_the_body_alone_cannot_tell_is_left_to_the_exact_reader() -> None:
    """H1: a slot beyond the size, a size beyond the server's, no slot."""
    for body in (BODY | {"_ng_rollout_index": 16}, BODY | {"group_size": 1025}, without("_ng_rollout_index")):
        top = read_plain(encoded(body))
        assert top is not None
        assert plain_coordinates(top, 16, 1024) is None
