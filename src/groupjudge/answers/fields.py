"""The fields of a `/verify` body beside question and answer (H1): read from raw JSON text, checked, named.

Every reader takes the text of one value (empty: the field is missing) and reports what is wrong to `Problems`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from groupjudge.answers.jsontext import parse
from groupjudge.errors import FieldProblem, InvalidRequest

MAX_ATTEMPT = 2**63 - 1
MAX_ID_LENGTH = 512
MAX_PROMPT_ID_LENGTH = 4096
MIN_TASK_INDEX, MAX_TASK_INDEX = -(2**63), 2**63 - 1
_MAX_PROBLEMS = 16
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]{0,18})")


class Problems:
    """What is wrong with one request: every fault that was found, up to a bound."""

    def __init__(self) -> None:
        self.found: list[FieldProblem] = []

    def add(self, *loc: str | int, msg: str, type: str) -> None:
        if len(self.found) < _MAX_PROBLEMS:
            self.found.append({"loc": ["body", *loc], "msg": f"{'.'.join(map(str, loc))} {msg}", "type": type})

    def take(self, found: Sequence[FieldProblem]) -> None:
        """Add what was found elsewhere."""
        self.found += found[: _MAX_PROBLEMS - len(self.found)]

    def check(self) -> None:
        """Raise InvalidRequest if anything was found."""
        if self.found:
            raise InvalidRequest(self.found)


class Field(NamedTuple):
    """One field as it was sent: its name, and the JSON text of its value, empty where it is missing or null."""

    name: str
    text: bytes


def integer(field: Field, low: int, high: int, problems: Problems) -> int | None:
    """An integer from `low` to `high`; None where the field is missing or wrong. `true`, `"1"` and `1.0` are none."""
    if not field.text:
        return None
    if _INTEGER.fullmatch(field.text) and low <= (value := int(field.text)) <= high:
        return value
    problems.add(field.name, msg=f"must be an integer from {low} to {high}", type="int_range")
    return None


def string(field: Field, max_length: int | None, problems: Problems) -> str | None:
    """A string; None where the field is missing or wrong. With `max_length` it names something: 1 to so many
    characters, and no lone surrogates."""
    if not field.text:
        return None
    value = parse(field.text) if field.text.startswith(b'"') else None
    if not isinstance(value, str):
        problems.add(field.name, msg="must be a string", type="string_type")
    elif max_length is None:
        return value
    elif not 1 <= len(value) <= max_length:
        problems.add(field.name, msg=f"must have 1 to {max_length} characters", type="string_length")
    elif has_lone_surrogate(value):
        problems.add(field.name, msg="must not hold a lone surrogate", type="string_unicode")
    else:
        return value
    return None


def has_lone_surrogate(value: str) -> bool:
    """Whether a text is none that could be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


class Coordinates(NamedTuple):
    """Where an answer belongs. `slot` is None where `member_id` stands in for it, but for a group of one, whose slot is
    0. Of the three identities (`group_id`, `task_index`, `prompt_id`) any may be None."""

    group_id: str | None
    attempt: int
    size: int
    slot: int | None
    member_id: str | None
    task_index: int | None
    prompt_id: str | None


class CoordinateFields(NamedTuple):
    """The fields that coordinates are read from, each already chosen among its twins."""

    group_id: Field
    attempt: Field
    size: Field
    slot: Field
    member_id: Field
    task_index: Field
    prompt_id: Field


def read_coordinates(fields: CoordinateFields, default_size: int, max_size: int, problems: Problems) -> Coordinates:
    """The coordinates in `fields`; what is wrong is in `problems`, and then they mean nothing."""
    size = integer(fields.size, 1, max_size, problems) or default_size
    member_id = string(fields.member_id, MAX_ID_LENGTH, problems)
    return Coordinates(
        group_id=string(fields.group_id, MAX_ID_LENGTH, problems),
        attempt=integer(fields.attempt, 0, MAX_ATTEMPT, problems) or 0,
        size=size,
        slot=_slot(fields, size, problems),
        member_id=member_id,
        task_index=integer(fields.task_index, MIN_TASK_INDEX, MAX_TASK_INDEX, problems),
        prompt_id=string(fields.prompt_id, MAX_PROMPT_ID_LENGTH, problems),
    )


def _slot(fields: CoordinateFields, size: int, problems: Problems) -> int | None:
    """The slot; None where a member id stands in for it (A3). A group of one needs neither (L9)."""
    if fields.member_id.text:
        return 0 if size == 1 else None
    if not fields.slot.text and size > 1:
        problems.add(
            fields.slot.name,
            msg=f"is required: an integer from 0 to {size - 1} (or _ng_member_id instead)",
            type="missing",
        )
    return integer(fields.slot, 0, size - 1, problems) or 0
