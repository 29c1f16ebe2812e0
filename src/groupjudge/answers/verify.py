"""A `/verify` body, read in one pass (H1): where the answer belongs, its texts, its fingerprints, and where in the body
the parts lie that a reply repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec import Raw
from msgspec.msgpack import Ext

from groupjudge.answers.fields import CoordinateFields, Coordinates, Field, Problems, read_coordinates, string
from groupjudge.answers.fingerprint import read_answer
from groupjudge.answers.jsontext import (
    MAX_DEPTH,
    Malformed,
    check_depth,
    check_utf8,
    parse_tolerant,
    skim,
)
from groupjudge.answers.outline import Outline, Span, find_cuts, outline_of, uncut
from groupjudge.answers.plain import PlainTop, plain_coordinates, read_plain
from groupjudge.answers.question import NO_QUESTION, Question, read_question
from groupjudge.answers.texts import answer_texts
from groupjudge.answers.top import MISSING, SENT_NAMES, Top, read_input, read_top
from groupjudge.model import Arrival, Fingerprint, GroupId, GroupKey, UnnamedKey

T = TypeVar("T")
_BEGINNING = 64
"""By so many of its bytes a value is found, mostly."""


class VerifyRequest(NamedTuple):
    """What the service needs of a body. `arrival.material` is the answer's `AnswerTexts`, `arrival.topic` the
    question's `Topic`. The spans lie in the body as it came; `instance_config` is an object's JSON text, or None."""

    arrival: Arrival
    params: Span
    response: Span
    instance_config: bytes | None

    @property
    def is_unnamed(self) -> bool:
        """Whether the request's group has no id (L20)."""
        return isinstance(self.arrival.key, UnnamedKey)


def read_verify(body: bytes, *, default_size: int, max_size: int) -> VerifyRequest:
    """Read a body. `default_size` is N where the body names none, `max_size` the largest N that one may name.
    Raises InvalidRequest with every fault that was found, or with one where the body is no JSON."""
    return read_outlined(body, lambda outline: _Reader(outline).read(default_size, max_size))


def size_as_objects(body: bytes) -> int:
    """How many bytes of a body must become Python objects to be read; looking costs a tenth of a millisecond. They take
    some 15 milliseconds of CPU a megabyte, the others some 5, and the interpreter is held meanwhile (H11)."""
    return len(body) - sum(cut.stop - cut.start for cut in find_cuts(body))


def read_outlined(body: bytes, read: Callable[[Outline], T]) -> T:
    """What `read` makes of a body's outline. Where that is malformed, it reads the body uncut: what looked like an
    array may have been the text of a string. A fault that stays is reported where it lies in the body."""
    outline = outline_of(body)
    try:
        return read(outline)
    except Malformed as error:
        fault = error.reason, error.offset
    if outline.cuts:
        outline = uncut(body)
        try:
            return read(outline)
        except Malformed as error:
            fault = error.reason, error.offset
    reason, offset = _first_fault(outline.text) or fault
    raise Malformed(reason, offset + len(body) - len(outline.text))


def _first_fault(text: bytes) -> tuple[str, int] | None:
    """What is wrong, and where. Not the error itself: it holds the frames that it passed, and those the body."""
    try:
        parse_tolerant(text)
    except Malformed as fault:
        return fault.reason, fault.offset
    return None


class _Reader:
    """Reads one outline."""

    def __init__(self, outline: Outline) -> None:
        check_utf8(outline.text)
        check_depth(outline.text, MAX_DEPTH)
        self._outline = outline
        self._problems = Problems()
        self._top: PlainTop | Top = read_plain(outline.text) or read_top(outline.text)

    def read(self, default_size: int, max_size: int) -> VerifyRequest:
        response, answer, answer_print = self._answer()
        params, question = self._question()
        self._check_the_rest(response)
        instance_config = self._instance_config()
        coordinates = self._coordinates(default_size, max_size)
        self._problems.check()
        arrival = Arrival(
            key=_key(coordinates, question.fingerprint),
            attempt=coordinates.attempt,
            size=coordinates.size,
            slot=coordinates.slot,
            question=question.fingerprint,
            answer=answer_print,
            material=answer_texts(answer),
            topic=question.topic,
            member_id=coordinates.member_id,
        )
        in_body = self._outline.span_in_body
        return VerifyRequest(arrival, in_body(params), in_body(response), instance_config)

    # -- fields ----------------------------------------------------------------------------------------------------

    def _coordinates(self, default_size: int, max_size: int) -> Coordinates:
        top = self._top
        if isinstance(top, PlainTop):
            if (coordinates := plain_coordinates(top, default_size, max_size)) is not None:
                return coordinates
            top = read_top(self._outline.text)
        return read_coordinates(_coordinate_fields(top), default_size, max_size, self._problems)

    def _instance_config(self) -> bytes | None:
        span = self._object("instance_config", self._top.instance_config, is_required=False)
        return None if span is None else self._outline.stretch(span, keep=())

    def _object(self, name: str, value: Raw, *, is_required: bool) -> Span | None:
        """Where the object that a field must hold lies in the outline."""
        beginning = bytes(memoryview(value)[:_BEGINNING])
        if beginning.startswith(b"{"):
            return _place(value, beginning, self._outline.text)
        if beginning not in (b"", b"null"):
            self._problems.add(name, msg="must be an object", type="dict_type")
        elif is_required:
            self._problems.add(name, msg="is required: an object", type="missing")
        return None

    # -- question and answer ---------------------------------------------------------------------------------------

    def _question(self) -> tuple[Span, Question]:
        """Where the parameters lie, and the question in them under the principle beside them."""
        span = self._object("responses_create_params", self._top.responses_create_params, is_required=True)
        later = Problems()
        principle = self._principle(later)
        question = NO_QUESTION
        if span is not None:
            question = read_question(read_input(self._outline.stretch(span, keep=())), principle)
        self._problems.take(question.faults)
        self._problems.take(later.found)
        return span or Span(0, 0), question

    def _principle(self, problems: Problems) -> str | None:
        top = self._top
        return top.principle if isinstance(top, PlainTop) else string(_field(top, "principle"), None, problems)

    def _answer(self) -> tuple[Span, object, Fingerprint]:
        """Where the answer lies, the parsed answer and its fingerprint."""
        span = self._object("response", self._top.response, is_required=True)
        if span is None:
            return Span(0, 0), None, Fingerprint(b"")
        answer, fingerprint = read_answer(self._outline, span, MAX_DEPTH - 1)
        check_output(answer, ("response",), self._problems)
        return span, answer, fingerprint

    def _check_the_rest(self, response: Span) -> None:
        """What is in a body beside the answer was read without its long arrays: skim those too, and see how deep they
        are."""
        outline = self._outline
        if len(outline.cuts_within(response)) == len(outline.cuts):
            return
        before = outline.stretch(Span(0, response.start), keep=())
        after = outline.stretch(Span(response.stop, len(outline.text)), keep=())
        rest = before + b"0" + after if response.stop else after
        skim(rest)
        check_depth(rest, MAX_DEPTH)


def _field(top: Top, attribute: str) -> Field:
    raw = getattr(top, attribute)
    name = SENT_NAMES[attribute]
    if raw is MISSING:
        return Field(name, b"")
    text = bytes(raw)
    return Field(name, b"" if text == b"null" else text)


def _twins(top: Top, attribute: str) -> Field:
    """Of a field and its twin, the one that counts: the prefixed one, where it is not null."""
    prefixed = _field(top, "ng_" + attribute)
    if prefixed.text:
        return prefixed
    plain = _field(top, attribute)
    return plain if plain.text else prefixed


def _coordinate_fields(top: Top) -> CoordinateFields:
    return CoordinateFields(
        group_id=_twins(top, "group_id"),
        attempt=_twins(top, "group_attempt"),
        size=_twins(top, "group_size"),
        slot=_twins(top, "rollout_index"),
        member_id=_field(top, "ng_member_id"),
        task_index=_twins(top, "task_index"),
        prompt_id=_field(top, "prompt_id"),
    )


def _place(value: Raw, beginning: bytes, text: bytes) -> Span:
    """Where in `text` the bytes of a value lie that was read from it. Any place will do, for only its bytes are used;
    the marks of cuts are all different. To look for a long value takes long, to compare it does not."""
    start = text.find(beginning)
    if not text.startswith(value, start):
        start = text.find(value)
    return Span(start, start + len(memoryview(value)))


def check_output(answer: object, loc: tuple[str | int, ...], problems: Problems) -> None:
    """Report an answer without a list `output`."""
    output = answer.get("output") if isinstance(answer, dict) else None
    if output is None:
        problems.add(*loc, "output", msg="is required: a list", type="missing")
    elif not isinstance(output, list | Ext):
        problems.add(*loc, "output", msg="must be a list", type="list_type")


def _key(coordinates: Coordinates, question: Fingerprint) -> GroupKey:
    """L20: the group id, else the task index, else the prompt id, else the question alone."""
    if coordinates.group_id is not None:
        return GroupId(coordinates.group_id)
    if coordinates.task_index is not None:
        return UnnamedKey("task", coordinates.task_index, question, coordinates.attempt)
    if coordinates.prompt_id is not None:
        return UnnamedKey("prompt", coordinates.prompt_id, question, coordinates.attempt)
    return UnnamedKey("question", None, question, coordinates.attempt)
