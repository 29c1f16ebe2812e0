"""Preference pairs and best answers, made from an input file and its rewards.

They are derived, not written along: so they fit the output whatever crashes and resumptions lie between, and can be
made again in another form.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from groupjudge.errors import ConfigurationError
from groupjudge.model import Conversation
from groupjudge.offline.groups import BadLine, FileGroup, written
from groupjudge.offline.results import digest_of, encoded, not_the_same, read_rows

_NOWHERE = -1


def judged_groups(
    groups: Iterable[FileGroup | BadLine], out: Path, rules: str
) -> Iterator[tuple[FileGroup, dict[str, Any]]]:
    """Each group that the output holds, with its row there, in the order of the input; 8 bytes of memory a line.
    Raises ConfigurationError where the row was given to other texts, or by other rules."""
    places = array("q")
    with open(out, "rb") as file:
        position = 0
        for row in read_rows(out):
            places.extend([_NOWHERE] * (row["line"] + 1 - len(places)))
            places[row["line"]] = position
            position += len(file.readline())
        for group in groups:
            if isinstance(group, BadLine) or group.line >= len(places) or places[group.line] == _NOWHERE:
                continue
            file.seek(places[group.line])
            row = msgspec.json.decode(file.readline(), type=dict[str, Any])
            if row["input"] != digest_of(group, rules):
                raise not_the_same(out, group.line)
            yield group, row


def pair(group: FileGroup, rewards: list[float], *, conversational: bool) -> dict[str, Any] | None:
    """The best answer over the worst, as DPO trainers read it; None where all are equal. `margin` is the reward gap."""
    best, worst = best_of(rewards), min(range(len(rewards)), key=lambda slot: (rewards[slot], -slot))
    margin = rewards[best] - rewards[worst]
    if margin <= 0:
        return None
    chosen, rejected = written(group.texts[best]), written(group.texts[worst])
    if conversational:
        prompt: Any = [message._asdict() for message in group.topic.conversation]
        reply: Callable[[str], Any] = _as_message
    else:
        prompt, reply = plain_prompt(group.topic.conversation), str
    return {"prompt": prompt, "chosen": reply(chosen), "rejected": reply(rejected), "margin": margin}


def best(group: FileGroup, rewards: list[float]) -> dict[str, Any]:
    """The best answer of a group (the first of equals); `tied` is how many answers have its reward, itself among
    them."""
    slot = best_of(rewards)
    return {
        "line": group.line,
        "id": group.id,
        "attempt": group.attempt,
        "slot": group.slots[slot],
        "prompt": [message._asdict() for message in group.topic.conversation],
        "answer": written(group.texts[slot]),
        "reward": rewards[slot],
        "tied": rewards.count(rewards[slot]),
    }


def best_of(rewards: list[float]) -> int:
    """The slot of the highest reward, the first of equals."""
    return max(range(len(rewards)), key=lambda slot: (rewards[slot], -slot))


def plain_prompt(conversation: Conversation) -> str:
    """A conversation as one text: a single user message as it is, else each turn under its role."""
    if len(conversation) == 1 and conversation[0].role == "user":
        return conversation[0].content
    return "\n\n".join(f"{message.role}: {message.content}" for message in conversation)


def _as_message(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


class WholeFile:
    """A file in place of what `path` held: whole when the block ends well, else not at all. Raises ConfigurationError
    where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")

    def __enter__(self) -> Self:
        with self._errors():
            self._file: BinaryIO = open(self._temporary, "wb")
        return self

    def write(self, data: bytes) -> None:
        """Append `data`."""
        with self._errors():
            self._file.write(data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            with self._errors():
                self._file.close()
                if kind is None:
                    self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.path}: {error.strerror}") from None


class LinesFile(WholeFile):
    """Rows as JSON Lines; `count` of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.count = 0

    def add(self, row: dict[str, Any]) -> None:
        """One more row."""
        self.write(encoded(row) + b"\n")
        self.count += 1
