"""What is sent, as JSON: questions and answers in their short forms, numbers and arrays of numpy and torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, SupportsIndex, TypeAlias

from groupjudge.short_forms import of_messages, of_text

Question: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or a list of messages."""
Answer: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text, a list of messages, or a Responses object with whatever training data it carries."""


def member_body(
    question: Question,
    answer: Answer,
    group_id: str,
    size: SupportsIndex | None,
    slot: SupportsIndex | None,
    member_id: str | None,
    attempt: SupportsIndex,
    principle: str | None,
) -> bytes:
    """The body of `POST /verify`. Raises TypeError, ValueError."""
    if slot is not None and member_id is not None:
        raise ValueError("name the member by its slot or by a member_id, not by both")
    if slot is None and member_id is None and size is not None and whole_number("size", size) > 1:
        raise ValueError("name the member: by its slot (0 to size - 1), or by a member_id of your own")
    fields: dict[str, object] = {
        "responses_create_params": {"input": _shown(question)},
        "response": response(answer),
        "_ng_group_id": text("group_id", group_id),
        "_ng_group_attempt": whole_number("attempt", attempt),
        "_ng_group_size": None if size is None else whole_number("size", size),
        "_ng_rollout_index": None if slot is None else whole_number("slot", slot),
        "_ng_member_id": None if member_id is None else text("member_id", member_id),
        "principle": principle,
    }
    return encoded({name: value for name, value in fields.items() if value is not None})


def group_body(
    question: Question, answers: Sequence[Answer], group_id: str | None, attempt: SupportsIndex, principle: str | None
) -> bytes:
    """The body of `POST /v1/judge`. Raises TypeError."""
    if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Iterable):
        raise TypeError(f"answers must be a list with one answer for each member, not {answers!r:.80}")
    listed = [_shown(_checked(f"answers[{slot}]", answer)) for slot, answer in enumerate(answers)]
    fields: dict[str, object] = {
        "question": _shown(question),
        "answers": listed,
        "id": None if group_id is None else text("group_id", group_id),
        "attempt": whole_number("attempt", attempt),
        "principle": principle,
    }
    return encoded({name: value for name, value in fields.items() if value is not None})


def encoded(value: object) -> bytes:
    """A value as JSON. Scalars and arrays of numpy, torch and their like become numbers and lists; NaN and infinities
    stay what they are. Raises TypeError for what is no data."""
    return json.dumps(value, separators=(",", ":"), default=_data).encode()


def _data(value: Any) -> object:
    """Duck typing, so that neither library is imported: whoever has an array of one has it already."""
    if hasattr(value, "tolist"):
        data = value.tolist()
        if type(data) is not type(value):
            return data
    if hasattr(value, "__index__"):
        return index(value)
    if hasattr(value, "__float__"):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__!r} is no JSON data")


def _shown(said: object) -> object:
    """A question or an answer; in the parts of its messages only what is data. Trainers put images there, for the model
    that they train; a judge is told that there was one."""
    return _shown_messages(said) if isinstance(said, list | tuple) else said


def _shown_messages(messages: Sequence[Any]) -> list[Any]:
    return [_shown_message(one) if isinstance(one, Mapping) else one for one in messages]


def _shown_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list | tuple) or all(map(_is_data, content)):
        return message
    parts = [
        {name: value for name, value in part.items() if _is_data(value)} if isinstance(part, Mapping) else part
        for part in content
    ]
    return {**message, "content": parts}


def _is_data(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_data, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    return value is None or isinstance(value, str | int | float)


def text(name: str, value: object) -> str:
    """A text that names something. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r:.80}")
    return value


def whole_number(name: str, value: object) -> int:
    """An integer out of one, be it Python's, numpy's or torch's. Raises TypeError."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:  # a float, say
        raise TypeError(f"{name} must be an integer, not {value!r:.80}") from None


def response(answer: Answer) -> Mapping[str, Any]:
    """The Responses object that an answer is, or that its short form stands for (as `POST /v1/judge` reads it)."""
    _checked("answer", answer)
    if isinstance(answer, str):
        return of_text(str(answer))
    return answer if isinstance(answer, Mapping) else of_messages(_shown_messages(answer))


def _checked(name: str, answer: object) -> object:
    """The answer, where it has the shape of one. Raises TypeError."""
    if isinstance(answer, str | Mapping) or hasattr(answer, "tolist"):
        return answer
    if not isinstance(answer, Sequence) or isinstance(answer, bytes | bytearray):
        raise TypeError(f"{name} must be a str, a list of messages or a Responses object, not {answer!r:.80}")
    for message in answer:
        if not isinstance(message, Mapping):
            raise TypeError(f"{name} is a list, so it must hold messages (mappings), not {message!r:.80}")
    return answer
