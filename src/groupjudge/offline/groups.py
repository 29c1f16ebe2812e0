"""Groups out of a JSON Lines file: one group a line, or a rollouts file with one answer a line."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from groupjudge.answers.jsontext import parse
from groupjudge.answers.texts import EMPTY, answer_texts, conversation
from groupjudge.answers.verify import VerifyRequest, read_verify
from groupjudge.errors import InvalidRequest
from groupjudge.model import AnswerTexts, Arrival, Attempt, GroupKey, Slot, Topic, UnnamedKey


class FileGroup(NamedTuple):
    """One group of a file: the lines it stands on, the first of which names it; `slots` are the members that are there,
    in slot order, as are `texts`. `attempt` is that of its rows; None where the group stands on one line."""

    lines: tuple[int, ...]
    id: str | None
    topic: Topic
    texts: tuple[AnswerTexts, ...]
    slots: tuple[int, ...]
    attempt: int | None = None

    @property
    def line(self) -> int:
        """The line by which the group is known."""
        return self.lines[0]


class BadLine(NamedTuple):
    """A line that cannot be used, and why."""

    line: int
    reason: str


def read_groups(lines: Iterable[bytes], default_size: int, max_size: int) -> Iterator[FileGroup | BadLine]:
    """The groups of a file, each as soon as it is whole, and the lines that are no good. `default_size` is how many
    answers a group of a rollouts file has where its rows do not say so; one that stays smaller comes at the end. A row
    that repeats another word for word before its group is whole is the same row, and no fault; one that comes later is
    a bad line where the group has an id."""
    rollouts = _Rollouts()
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        try:
            value = parse(line)
            if isinstance(value, dict) and "response" in value:
                yield from rollouts.add(number, read_verify(line, default_size=default_size, max_size=max_size))
            else:
                yield _one_line(number, value, max_size)
        except InvalidRequest as error:
            yield BadLine(number, _said(error))
    yield from rollouts.rest()


def written(texts: AnswerTexts) -> str:
    """The answer as its author wrote it: empty where `EMPTY` stands in for nothing. That object is told from an answer
    that reads the same."""
    return "" if texts.answer is EMPTY else texts.answer


def _said(error: InvalidRequest) -> str:
    # The message of malformed JSON says itself where.
    places = ["" if p["type"] == "json_invalid" else ".".join(map(str, p["loc"][1:])) for p in error.problems[:3]]
    shown = [f"{place}: {p['msg']}".removeprefix(": ") for place, p in zip(places, error.problems, strict=False)]
    return "; ".join(shown)[:500]


# -- one group a line ------------------------------------------------------------------------------------------------


def _one_line(number: int, value: object, max_size: int) -> FileGroup:
    if not isinstance(value, dict):
        raise InvalidRequest.at(msg='write {"question": ..., "answers": [...]}, or a row of a rollouts file')
    question, answers = value.get("question"), value.get("answers")
    group_id, principle = value.get("id"), value.get("principle")
    if not isinstance(question, str | list) or not conversation(question):
        raise InvalidRequest.at("question", msg="must be a string or a list of messages")
    if not isinstance(answers, list) or not 1 <= len(answers) <= max_size:
        raise InvalidRequest.at("answers", msg=f"must be a list of 1 to {max_size} answers")
    if not isinstance(group_id, str | int | None) or isinstance(group_id, bool):
        raise InvalidRequest.at("id", msg="must be a string or an integer")
    if not isinstance(principle, str | None):
        raise InvalidRequest.at("principle", msg="must be a string")
    texts = tuple(_texts(answer, index) for index, answer in enumerate(answers))
    name = None if group_id is None else str(group_id)
    return FileGroup((number,), name, Topic(conversation(question), principle), texts, tuple(range(len(texts))))


def _texts(answer: object, index: int) -> AnswerTexts:
    if isinstance(answer, str):
        return AnswerTexts(answer if answer.strip() else EMPTY, "")
    if isinstance(answer, dict) and isinstance(answer.get("output"), list):
        return answer_texts(answer)
    raise InvalidRequest.at("answers", index, msg="must be a string, or a Responses object with a list `output`")


# -- one answer a line -------------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    line: int
    texts: AnswerTexts
    fingerprint: bytes


@dataclass(slots=True)
class _Gathering:
    """A group of which some rows have come."""

    size: int
    question: bytes
    topic: Topic
    members: dict[Slot, _Member] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    """Of members that named themselves instead of a slot."""

    def slot_of(self, arrival: Arrival) -> Slot:
        """The slot that a row names, or that its member has; else the first free one."""
        if arrival.slot is not None:
            return arrival.slot
        assert arrival.member_id is not None
        free = next(slot for slot in range(self.size) if slot not in self.members)
        return self.slots.get(arrival.member_id, free)


class _Rollouts:
    """Gathers rows into groups; holds the texts of those that are not whole yet, and of those that are whole and have
    an id a digest. A task may come again (in another epoch) where its rows have no id."""

    def __init__(self) -> None:
        self._gathering: dict[tuple[GroupKey, Attempt], _Gathering] = {}
        self._whole: set[bytes] = set()

    def add(self, number: int, row: VerifyRequest) -> Iterator[FileGroup | BadLine]:
        """The row's group, if it makes it whole."""
        arrival = row.arrival
        key = (arrival.key, arrival.attempt)
        topic, texts = arrival.topic, arrival.material
        assert isinstance(topic, Topic)
        assert isinstance(texts, AnswerTexts)
        if not row.is_unnamed and _digest(key) in self._whole:
            yield BadLine(number, _already_whole(key))
            return
        group = self._gathering.setdefault(key, _Gathering(arrival.size, arrival.question, topic))
        slot = group.slot_of(arrival)
        why = _misfit(group, arrival, slot)
        if why:
            yield BadLine(number, why)
            return
        if arrival.member_id is not None:
            group.slots[arrival.member_id] = slot
        group.members.setdefault(slot, _Member(number, texts, arrival.answer))
        if len(group.members) == group.size:
            if not row.is_unnamed:
                self._whole.add(_digest(key))
            yield _group_of(key, self._gathering.pop(key))

    def rest(self) -> Iterator[FileGroup | BadLine]:
        """The groups that stayed incomplete. One of which there is a single member is no group: it could only get an
        invented reward."""
        for key, group in self._gathering.items():
            (first, *others) = sorted(member.line for member in group.members.values())
            if others:
                yield _group_of(key, group)
            else:
                yield BadLine(first, f"1 of {group.size} members: nothing to compare it with in group {_name(key[0])}")
        self._gathering = {}


def _digest(key: tuple[GroupKey, Attempt]) -> bytes:
    return hashlib.blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def _already_whole(key: tuple[GroupKey, Attempt]) -> str:
    name, attempt = key
    return (
        f"group {name!r} (attempt {attempt}) has all its members on earlier lines; "
        "rows of another attempt need another _ng_group_attempt"
    )


def _misfit(group: _Gathering, arrival: Arrival, slot: Slot) -> str:
    """Why a row does not fit into the group that its coordinates name; empty where it does."""
    if arrival.question != group.question:
        return "its group has another question"
    if arrival.size != group.size:
        return f"its group has {group.size} members, the row says {arrival.size}"
    member = group.members.get(slot)
    if member is not None and member.fingerprint != arrival.answer:
        return f"slot {slot} of its group holds another answer, from line {member.line}"
    return ""


def _group_of(key: tuple[GroupKey, Attempt], group: _Gathering) -> FileGroup:
    members = sorted(group.members.items())
    lines = tuple(member.line for _, member in members)
    in_order = (min(lines), *(line for line in lines if line != min(lines)))
    texts = tuple(member.texts for _, member in members)
    return FileGroup(in_order, _name(key[0]), group.topic, texts, tuple(slot for slot, _ in members), key[1])


def _name(key: GroupKey) -> str:
    return f"{key.kind}:{key.label}" if isinstance(key, UnnamedKey) else str(key)
