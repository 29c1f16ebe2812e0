"""Short forms of an answer: what a text, or a list of messages, is as a Responses object.

The server reads them so (`POST /v1/judge`), and the client sends them so (`POST /verify`): a member is the same
whichever way it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def of_text(answer: str) -> dict[str, object]:
    """The Responses object that a text stands for."""
    return {"output": [_message("assistant", [{"type": "output_text", "text": answer}])]}


def of_messages(answer: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """The Responses object that a list of messages stands for."""
    return {"output": [item for message in answer for item in _items(message)]}


def _items(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A message of the answer as output items; an item that is no message stays as it is. Only what the assistant said
    is the answer's text (J5), so other roles have parts of another type."""
    if message.get("type", "message") != "message":
        yield message
        return
    thought = message.get("reasoning_content")
    if isinstance(thought, str) and thought:
        yield {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]}
    role, content = message.get("role", "assistant"), message.get("content")
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else _parts(content, kind)
    yield {**message, **_message(role, parts)}


def _parts(content: object, kind: str) -> list[object]:
    """The parts of a message, those of plain text under the name that Responses objects have for them."""
    parts = content if isinstance(content, Sequence) else []
    return [
        {**part, "type": kind} if isinstance(part, Mapping) and part.get("type") == "text" else part for part in parts
    ]


def _message(role: object, parts: list[object] | list[dict[str, str]]) -> dict[str, object]:
    return {"type": "message", "role": role, "content": parts}
