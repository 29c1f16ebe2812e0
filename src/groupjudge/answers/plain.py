"""The members of a plain `/verify` body (H1), read in one pass: each of its type and within its bounds.

Nearly every body is plain. What is not is left to the exact readers (top.py, fields.py), odd and faulty alike: they
know what is allowed beyond this, and say what is wrong.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw

from groupjudge.answers.fields import (
    MAX_ATTEMPT,
    MAX_ID_LENGTH,
    MAX_PROMPT_ID_LENGTH,
    MAX_TASK_INDEX,
    MIN_TASK_INDEX,
    Coordinates,
)
from groupjudge.answers.top import MISSING, sent_name

T = TypeVar("T")

_Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]
_PromptId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT_ID_LENGTH)]
_Attempt: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)]
_Size: TypeAlias = Annotated[int, Meta(ge=1)]
_Slot: TypeAlias = Annotated[int, Meta(ge=0)]
_TaskIndex: TypeAlias = Annotated[int, Meta(ge=MIN_TASK_INDEX, le=MAX_TASK_INDEX)]


class PlainTop(msgspec.Struct, rename=sent_name):
    """As `Top`, with values where those are small; None where one is missing or null."""

    responses_create_params: Raw
    response: Raw
    principle: str | None = None
    instance_config: Raw = MISSING
    prompt_id: _PromptId | None = None
    ng_group_id: _Id | None = None
    ng_group_attempt: _Attempt | None = None
    ng_rollout_index: _Slot | None = None
    ng_group_size: _Size | None = None
    ng_task_index: _TaskIndex | None = None
    ng_member_id: _Id | None = None
    group_id: _Id | None = None
    group_attempt: _Attempt | None = None
    rollout_index: _Slot | None = None
    group_size: _Size | None = None
    task_index: _TaskIndex | None = None


_read_plain = msgspec.json.Decoder(PlainTop).decode


def read_plain(text: bytes) -> PlainTop | None:
    """The members of the body `text`, which is UTF-8; None where it is not plain."""
    try:
        return _read_plain(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def plain_coordinates(top: PlainTop, default_size: int, max_size: int) -> Coordinates | None:
    """As `read_coordinates`; None where the exact reader must look."""
    size = _first(top.ng_group_size, top.group_size) or default_size
    slot = _first(top.ng_rollout_index, top.rollout_index)
    if top.ng_member_id is not None:
        slot = 0 if size == 1 else None
    elif slot is None or slot >= size:
        return None
    if size > max_size:
        return None
    return Coordinates(
        group_id=_first(top.ng_group_id, top.group_id),
        attempt=_first(top.ng_group_attempt, top.group_attempt) or 0,
        size=size,
        slot=slot,
        member_id=top.ng_member_id,
        task_index=_first(top.ng_task_index, top.task_index),
        prompt_id=top.prompt_id,
    )


def _first(prefixed: T | None, plain: T | None) -> T | None:
    """Of a field and its twin, the one that counts."""
    return plain if prefixed is None else prefixed
