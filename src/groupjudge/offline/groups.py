"""Groups out of a JSON Lines file: one group a line, or a rollouts file with one answer a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from groupjudge.answers.jsontext import parse
from groupjudge.answers.texts import EMPTY, answer_texts, conversation
from groupjudge.answers.verify import VerifyRequest, read_verify
from groupjudge.errors import InvalidRequest
from groupjudge.model import AnswerTexts, GroupKey, Topic, UnnamedKey


class FileGroup(NamedTuple):
    """One group of a file: the lines it stands on, the first of which names it; `slots` are the members that are there,
    in slot order, as are `texts`."""

    lines: tuple[int, ...]
    id: str | None
    topic: Topic
    texts: tuple[AnswerTexts, ...]
    slots: tuple[int, ...]

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
    answers a group of a rollouts file has where its rows do not say so; one that stays smaller comes at the end."""
    rollouts = _Rollouts(default_size, max_size)
    for number, line in enumerate(lines, 1):
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
    members: dict[int, _Member] = field(default_factory=dict)


class _Rollouts:
    """Gathers rows into groups; holds the texts of those that are not whole yet."""

    def __init__(self, default_size: int, max_size: int) -> None:
        self._gathering: dict[tuple[GroupKey, int], _Gathering] = {}

    def add(self, number: int, row: VerifyRequest) -> Iterator[FileGroup | BadLine]:
        """The row's group, if it makes it whole."""
        arrival = row.arrival
        key = (arrival.key, arrival.attempt)
        topic, texts = arrival.topic, arrival.material
        assert isinstance(topic, Topic)
        assert isinstance(texts, AnswerTexts)
        group = self._gathering.setdefault(key, _Gathering(arrival.size, arrival.question, topic))
        why = _misfit(group, row)
        if why:
            yield BadLine(number, why)
            return
        slot = len(group.members) if arrival.slot is None else arrival.slot
        group.members.setdefault(slot, _Member(number, texts, arrival.answer))
        if len(group.members) == group.size:
            yield _whole(arrival.key, self._gathering.pop(key))

    def rest(self) -> Iterator[FileGroup]:
        """The groups that stayed incomplete."""
        for (key, _), group in self._gathering.items():
            yield _whole(key, group)
        self._gathering = {}


def _misfit(group: _Gathering, row: VerifyRequest) -> str:
    """Why a row does not fit into the group that its coordinates name; empty where it does."""
    arrival = row.arrival
    if arrival.question != group.question:
        return "its group has another question"
    if arrival.size != group.size:
        return f"its group has {group.size} members, the row says {arrival.size}"
    member = group.members.get(-1 if arrival.slot is None else arrival.slot)
    if member is not None and member.fingerprint != arrival.answer:
        return f"slot {arrival.slot} of its group holds another answer, from line {member.line}"
    return ""


def _whole(key: GroupKey, group: _Gathering) -> FileGroup:
    members = sorted(group.members.items())
    lines = tuple(member.line for _, member in members)
    name = f"{key.kind}:{key.label}" if isinstance(key, UnnamedKey) else str(key)
    in_order = (min(lines), *(line for line in lines if line != min(lines)))
    texts = tuple(member.texts for _, member in members)
    return FileGroup(in_order, name, group.topic, texts, tuple(slot for slot, _ in members))
