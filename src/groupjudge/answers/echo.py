"""Replies that repeat what was sent (H2-H4): made of pieces, each of them new bytes or a span of the caller's body.

Nothing that is repeated is read or written again, so numbers, order and spelling stay as they came. Keys are compared
decoded (`"\\u0072eward"` is `reward`), and of equal keys only the last is repeated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Set
from typing import TypeAlias

from groupjudge.answers.jsontext import Member, check_utf8, members
from groupjudge.answers.outline import Outline, Span
from groupjudge.answers.verify import VerifyRequest, read_outlined
from groupjudge.model import Rewarded, Slot, UnnamedKey

Piece: TypeAlias = bytes | Span
"""A part of a reply: itself, or where in the body it lies."""

MAX_REASON = 2000
_written = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
JUDGE_FAILED = "judge_failed"
SIZE_JUDGED = "group_size_judged"
"""Says how many members were judged, where not all came (F8). A caller's own field of this name is not echoed."""


def reward_reply(request: VerifyRequest, outcome: Rewarded, slot: Slot, *, minimal: bool = False) -> list[Piece]:
    """The reply to a rewarded member (H2); `minimal`: without question and answer (H3)."""
    if not math.isfinite(outcome.reward):
        raise ValueError("a reward must be finite")
    fields = {
        "reward": float(outcome.reward),
        "mask_sample": False,
        "failure_kind": outcome.failure_kind,
        "failure_reason": _bounded(outcome.failure_reason),
        **_identity(request, slot),
        **size_judged(outcome.group_size_judged),
    }
    if minimal:
        return [b"{" + _members_of(fields) + b"}"]
    return [
        b'{"responses_create_params":',
        request.params,
        b',"response":',
        request.response,
        b"," + _members_of(fields) + b"}",
    ]


def failure_reply(
    request: VerifyRequest,
    reason: str,
    slot: Slot,
    body: bytes | None,
    *,
    minimal: bool = False,
    judged: int | None = None,
) -> list[Piece]:
    """The reply to a member whose judge failed (H4): all of `body` but what the reply says itself. `minimal`: without
    the body, which may be None then. `judged`: how many members were judged, where not all came (F8)."""
    reason = reason[:MAX_REASON]
    fields = {
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": JUDGE_FAILED,
        "failure_reason": reason,
        "_ng_failure_class": JUDGE_FAILED,
        "_ng_failure_judge_error": reason,
        **_identity(request, slot),
        **size_judged(judged),
    }
    own = [_members_of(fields) + b',"instance_config":' + masked(request.instance_config) + b"}"]
    if minimal:
        return [b"{", *own]
    if body is None:
        raise ValueError("an echo needs the body")
    kept = _joined(_kept(_members_in(body), fields.keys() | {"instance_config", SIZE_JUDGED}))
    return [b"{", *kept, b",", *own] if kept else [b"{", *own]


def masked(instance_config: bytes | None) -> bytes:
    """The JSON text of an object with `mask_sample: true` added to it, or in place of what it says there."""
    if instance_config is None:
        return b'{"mask_sample":true}'
    kept = _kept(members(instance_config), {"mask_sample"})
    pieces = [instance_config[slice(*span)] for span in kept]
    return b"{" + b",".join([*pieces, b'"mask_sample":true']) + b"}"


def _identity(request: VerifyRequest, slot: Slot) -> dict[str, object]:
    arrival = request.arrival
    identity: dict[str, object] = {
        "_ng_group_id": None if isinstance(arrival.key, UnnamedKey) else arrival.key,
        "_ng_group_attempt": arrival.attempt,
        "_ng_rollout_index": slot,
    }
    if arrival.member_id is not None:
        identity["_ng_member_id"] = arrival.member_id
    return identity


def size_judged(members: int | None) -> dict[str, int]:
    """The field of a reply that says how many members were judged, where not all came (None: no field)."""
    return {} if members is None else {SIZE_JUDGED: members}


def _members_of(fields: dict[str, object]) -> bytes:
    """The members of an object, without its braces."""
    return _written(fields)[1:-1].encode()


def _bounded(reason: str | None) -> str | None:
    return None if reason is None else reason[:MAX_REASON]


def _members_in(body: bytes) -> list[Member]:
    """The members of a body that was read before, with offsets into it."""
    return read_outlined(body, _outlined_members)


def _outlined_members(outline: Outline) -> list[Member]:
    check_utf8(outline.text)
    return [Member(each.key, *map(outline.in_body, each[1:])) for each in members(outline.text)]


def _kept(found: list[Member], dropped: Set[str]) -> list[Span]:
    """Where the members lie that are repeated; neighbours in one span."""
    last = {member.key: index for index, member in enumerate(found)}
    spans: list[Span] = []
    previous = -2
    for index, member in enumerate(found):
        if member.key in dropped or last[member.key] != index:
            continue
        if previous == index - 1:
            spans[-1] = Span(spans[-1].start, member.stop)
        else:
            spans.append(Span(member.key_start, member.stop))
        previous = index
    return spans


def _joined(spans: Iterable[Span]) -> list[Piece]:
    pieces: list[Piece] = []
    for span in spans:
        pieces += (b",", span)
    return pieces[1:]
