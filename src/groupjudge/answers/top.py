"""The members of a `/verify` body that mean something to this server, as raw JSON (H1)."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from groupjudge.answers.jsontext import members, parse
from groupjudge.errors import FieldProblem, InvalidRequest

MISSING = Raw(b"")
"""What stands for a member that was not sent."""


def sent_name(attribute: str) -> str:
    """How the member that an attribute holds is called in a body."""
    return "_" + attribute if attribute.startswith("ng_") else attribute


class Top(msgspec.Struct, rename=sent_name):
    """Each member's value as it was sent, of equal keys the last; empty where it is missing. Everything else in a body
    is skimmed: it is known to be JSON, and no more."""

    responses_create_params: Raw = MISSING
    response: Raw = MISSING
    principle: Raw = MISSING
    instance_config: Raw = MISSING
    prompt_id: Raw = MISSING
    ng_group_id: Raw = MISSING
    ng_group_attempt: Raw = MISSING
    ng_rollout_index: Raw = MISSING
    ng_group_size: Raw = MISSING
    ng_task_index: Raw = MISSING
    ng_member_id: Raw = MISSING
    group_id: Raw = MISSING
    group_attempt: Raw = MISSING
    rollout_index: Raw = MISSING
    group_size: Raw = MISSING
    task_index: Raw = MISSING


class _Params(msgspec.Struct):
    input: Raw = MISSING


_read_top = msgspec.json.Decoder(Top).decode
_read_params = msgspec.json.Decoder(_Params).decode
SENT_NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(Top)}
"""How the member that an attribute of `Top` holds is called in a body."""
_ATTRIBUTES = {sent: attribute for attribute, sent in SENT_NAMES.items()}


def read_top(text: bytes) -> Top:
    """The members of the body `text`. Raises InvalidRequest, Malformed where it is no JSON."""
    try:
        return _read_top(text)
    except (msgspec.DecodeError, RecursionError):
        check_object(text)
        raw = {member.key: text[member.start : member.stop] for member in members(text)}
        return Top(**{_ATTRIBUTES[name]: Raw(value) for name, value in raw.items() if name in _ATTRIBUTES})


def read_input(params: bytes) -> bytes:
    """The text of `input` in the object `params`; empty where it is missing."""
    try:
        return bytes(_read_params(params).input)
    except (msgspec.DecodeError, RecursionError):
        found = {member.key: params[member.start : member.stop] for member in members(params)}
        return found.get("input", b"")


def check_object(text: bytes) -> None:
    """Raise InvalidRequest where a body is JSON but no object, Malformed where it is no JSON and begins unlike one."""
    if not text.lstrip(b" \t\n\r").startswith(b"{"):
        parse(text)
        problem: FieldProblem = {"loc": ["body"], "msg": "the body must be a JSON object", "type": "dict_type"}
        raise InvalidRequest([problem])
