"""What is sent to a judge over HTTP, in its three formats (J6-J8): where to, and which bytes.

A group's request is prepared once, as the JSON that all its calls share, with seats left open for the two answers. One
call then only joins bytes. Every try of a call sends the same ones (J22).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from groupjudge.errors import ConfigurationError
from groupjudge.judging.replies import ReplyReader, read_chat_reply, read_responses_reply
from groupjudge.judging.template import PromptTemplate, Range, Seat, verdict_schema
from groupjudge.model import Message, Pair, Topic

FormatName: TypeAlias = Literal["template", "genrm", "responses"]
Stretch: TypeAlias = bytes | Seat


class Api(NamedTuple):
    """Which API a judge speaks: `path` below the base address, and how its replies are read."""

    path: str
    read_reply: ReplyReader


CHAT = Api("/chat/completions", read_chat_reply)
RESPONSES = Api("/responses", read_responses_reply)


@dataclass(frozen=True, slots=True)
class PreparedGroup:
    """One group's requests: JSON with seats, and its answers in slot order as they stand inside a JSON string."""

    stretches: tuple[Stretch, ...]
    answers: tuple[bytes, ...]

    def body(self, pair: Pair) -> bytes:
        """The request for `pair`: the answer of slot i in the first seat, that of slot j in the second."""
        seated = {Seat.FIRST: self.answers[pair.i], Seat.SECOND: self.answers[pair.j]}
        return b"".join([s if isinstance(s, bytes) else seated[s] for s in self.stretches])

    def size(self, pair: Pair) -> int:
        """In bytes, of the request for `pair`."""
        seated = {Seat.FIRST: len(self.answers[pair.i]), Seat.SECOND: len(self.answers[pair.j])}
        return sum(len(s) if isinstance(s, bytes) else seated[s] for s in self.stretches)


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """How one kind of judge is asked: its API, and the stretches of a group's request. The topic and answers given to
    `stretches_of` are clean."""

    api: Api
    stretches_of: Callable[[Topic, Sequence[str]], Iterable[Stretch]]

    def prepare(self, topic: Topic, answers: Sequence[str]) -> PreparedGroup:
        """Build what the calls of a group share. `topic` and `answers` must be clean (`texts.clean_group`)."""
        stretches = tuple(self.stretches_of(topic, answers))
        return PreparedGroup(stretches, tuple(map(inside_string, answers)))


def genrm_format(model: str | None, params: Mapping[str, Any]) -> RequestFormat:
    """J7: the answers and the principle as messages with roles of their own, for a GenRM's chat template."""
    head = open_object({**params, **_model(model), "stream": False}) + b',"messages":['

    def stretches(topic: Topic, answers: Sequence[str]) -> list[Stretch]:
        shared = list(topic.conversation)
        if topic.principle is not None:
            shared.append(Message("principle", topic.principle))
        start = head + b"".join(_message(m.role, m.content) + b"," for m in shared)
        return [
            start + b'{"role":"response_1","content":"',
            Seat.FIRST,
            b'"},{"role":"response_2","content":"',
            Seat.SECOND,
            b'"}]}',
        ]

    return RequestFormat(CHAT, stretches)


def responses_format(model: str | None, params: Mapping[str, Any]) -> RequestFormat:
    """J6: the conversation as `input`, the answers and the principle as `metadata`."""
    renamed = dict(params)
    if "max_tokens" in renamed:
        renamed.setdefault("max_output_tokens", renamed.pop("max_tokens"))
    renamed.pop("metadata", None)
    head = open_object({**renamed, **_model(model), "stream": False}) + b',"input":['

    def stretches(topic: Topic, answers: Sequence[str]) -> list[Stretch]:
        start = head + b",".join(_message(m.role, m.content) for m in topic.conversation)
        principle = b""
        if topic.principle is not None:
            principle = b',"principle":' + msgspec.json.encode(topic.principle)
        return [
            start + b'],"metadata":{"response_1":"',
            Seat.FIRST,
            b'","response_2":"',
            Seat.SECOND,
            b'"' + principle + b"}}",
        ]

    return RequestFormat(RESPONSES, stretches)


def template_format(
    model: str | None,
    params: Mapping[str, Any],
    template: PromptTemplate,
    schema: Mapping[str, Any] | None,
) -> RequestFormat:
    """J8: one prompt as one user message; `schema`, where given, constrains the reply."""
    head = prompt_head(model, params, schema)

    def stretches(topic: Topic, answers: Sequence[str]) -> list[Stretch]:
        prompt = template.fill(topic, answers)
        inside: list[Stretch] = [inside_string(s) if isinstance(s, str) else s for s in prompt]
        return [head, *inside, PROMPT_END]

    return RequestFormat(CHAT, stretches)


PROMPT_END = b'"}]}'


def prompt_head(model: str | None, params: Mapping[str, Any], schema: Mapping[str, Any] | None) -> bytes:
    """What stands before the prompt in a request of one user message. `PROMPT_END` goes behind it."""
    fixed: dict[str, Any] = {**_model(model), "stream": False}
    if schema is not None:
        wanted = {"name": "verdict", "strict": True, "schema": dict(schema)}
        fixed["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return open_object({**params, **fixed}) + b',"messages":[{"role":"user","content":"'


def _model(model: str | None) -> dict[str, str]:
    return {} if model is None else {"model": model}


def open_object(fields: Mapping[str, Any]) -> bytes:
    """The fields as a JSON object that is not closed yet, without those that are written by hand after it."""
    fields = {name: value for name, value in fields.items() if name not in ("messages", "input")}
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()[:-1]
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"judge.params cannot be written as JSON: {error}") from None


def _message(role: str, content: str) -> bytes:
    return b'{"role":' + msgspec.json.encode(role) + b',"content":' + msgspec.json.encode(content) + b"}"


def inside_string(text: str) -> bytes:
    """`text` as it stands between the quotes of a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def make_format(
    name: FormatName,
    model: str | None,
    params: Mapping[str, Any],
    template: PromptTemplate,
    ranges: tuple[Range | None, Range | None] | None,
) -> RequestFormat:
    """The format called `name`. `ranges` (score, ranking), where given, become the schema that `template` asks for."""
    if name == "genrm":
        return genrm_format(model, params)
    if name == "responses":
        return responses_format(model, params)
    return template_format(model, params, template, None if ranges is None else verdict_schema(*ranges))
