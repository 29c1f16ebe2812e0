"""What a judge's reply of status 200 says: bytes in, the text to read a verdict from out. The bytes alone count (J22).

Only the answer's own text is taken. The reasoning channel (`reasoning_content`, items of type `reasoning`, parts of
type `thinking`) is never looked at (J11).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

CUT_SHORT = frozenset({"length", "content_filter", "abort", "error"})
"""Finish reasons of a chat completion whose text does not end where the judge wanted it to."""
_DEFAULT_ERROR_STATUS = 502
_MOST_TOKENS = 1 << 40
"""A count beyond this is none: it would break every sum that it went into."""


class Reply(NamedTuple):
    """A reply with the API's shape. `unfinished` says why its text must not be read, and is empty where it may.
    Token counts are 0 where the reply names none."""

    text: str
    unfinished: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Misshapen(ValueError):
    """The bytes do not have the API's shape (J12); the text says what they are instead, and quotes nothing of them."""


class ErrorInside(Exception):
    """A 200 that holds an `error` object; `status` is what its `code` or `status` names, else 502 (J22)."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


ReplyReader: TypeAlias = Callable[[bytes], Reply]


def read_chat_reply(body: bytes) -> Reply:
    """Read a Chat Completions object. Raises Misshapen, ErrorInside."""
    reply = _object(body)
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Misshapen("JSON without choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise Misshapen("a choice without a message")
    text = _content_text(message.get("content"))
    reason = choices[0].get("finish_reason")
    cut = f"finish reason {reason}" if isinstance(reason, str) and reason in CUT_SHORT else ""
    return Reply(text, cut or _if_empty(text), *_usage(reply, "prompt_tokens", "completion_tokens"))


def read_responses_reply(body: bytes) -> Reply:
    """Read a Responses object. Raises Misshapen, ErrorInside."""
    reply = _object(body)
    output = reply.get("output")
    if not isinstance(output, list):
        raise Misshapen("JSON without an output list")
    messages = (item for item in output if isinstance(item, dict) and item.get("type") == "message")
    text = "".join(_content_text(message.get("content")) for message in messages)
    cut = "" if _is_completed(reply) else "status other than completed"
    return Reply(text, cut or _if_empty(text), *_usage(reply, "input_tokens", "output_tokens"))


def _object(body: bytes) -> dict[str, Any]:
    if not body or body.isspace():
        raise Misshapen("nothing")
    try:
        reply = _decoded(body)
    except (ValueError, RecursionError):
        raise Misshapen(_kind_of_no_json(body)) from None
    if not isinstance(reply, dict):
        raise Misshapen("JSON that is no object")
    error = reply.get("error")
    if isinstance(error, dict):
        raise ErrorInside(_status_named(error))
    return reply


def _decoded(body: bytes) -> object:
    """JSON as Python's reader takes it, which knows NaN, lone surrogates and other encodings; a faster one reads what
    is plain."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return json.loads(body)


def _kind_of_no_json(body: bytes) -> str:
    start = body[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<"):
        return "HTML or XML"
    if start.startswith((b"data:", b"event:", b":")):
        return "an event stream, though none was asked for"
    return "no valid JSON"


def _status_named(error: Mapping[str, Any]) -> int:
    for value in (error.get("code"), error.get("status")):
        if type(value) is int and 400 <= value <= 599:
            return value
    return _DEFAULT_ERROR_STATUS


def _content_text(content: object) -> str:
    """The text of a message: a string, or its parts of type `text` and `output_text`; anything else has none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (p.get("text") for p in content if isinstance(p, dict) and p.get("type") in ("text", "output_text"))
    return "".join(text for text in parts if isinstance(text, str))


def _is_completed(reply: Mapping[str, Any]) -> bool:
    """Some servers leave `status` out and still say that a reply is incomplete."""
    status = reply.get("status")
    return status == "completed" or (status is None and reply.get("incomplete_details") is None)


def _if_empty(text: str) -> str:
    return "" if text and not text.isspace() else "an empty reply"


def _usage(reply: Mapping[str, Any], *names: str) -> tuple[int, ...]:
    usage = reply.get("usage")
    if not isinstance(usage, dict):
        return (0, 0)
    counts = (usage.get(name) for name in names)
    return tuple(count if type(count) is int and 0 < count <= _MOST_TOKENS else 0 for count in counts)
