"""Preference pairs and best answers, made from an input file and its rewards.

They are derived, not written along: so they fit the output whatever crashes and resumptions lie between, and can be
made again in another form.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from groupjudge.errors import ConfigurationError
from groupjudge.model import Conversation
from groupjudge.offline.groups import BadLine, FileGroup
from groupjudge.offline.results import read_rows

Rewarded = tuple[FileGroup, list[float]]
_NOWHERE = -1


def rewarded(groups: Iterable[FileGroup | BadLine], out: Path) -> Iterator[Rewarded]:
    """Each group that the output holds, with its rewards in the order of its texts, in the order of the input."""
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
            rewards = msgspec.json.decode(file.readline())["rewards"]
            if len(rewards) != len(group.texts):
                raise ConfigurationError(f"{out}: the group of line {group.line} has another size in the input")
            yield group, rewards


def pair(group: FileGroup, rewards: list[float], *, conversational: bool) -> dict[str, Any] | None:
    """The best answer over the worst, as DPO trainers read it; None where all are equal. `margin` is the reward gap."""
    best, worst = best_of(rewards), min(range(len(rewards)), key=lambda slot: (rewards[slot], -slot))
    margin = rewards[best] - rewards[worst]
    if margin <= 0:
        return None
    chosen, rejected = group.texts[best].answer, group.texts[worst].answer
    if conversational:
        prompt: Any = [message._asdict() for message in group.topic.conversation]
        reply: Callable[[str], Any] = _as_message
    else:
        prompt, reply = plain_prompt(group.topic.conversation), str
    return {"prompt": prompt, "chosen": reply(chosen), "rejected": reply(rejected), "margin": margin}


def best(group: FileGroup, rewards: list[float]) -> dict[str, Any]:
    """The best answer of a group (the first of equals)."""
    slot = best_of(rewards)
    prompt = [message._asdict() for message in group.topic.conversation]
    answer, reward = group.texts[slot].answer, rewards[slot]
    return {"line": group.line, "id": group.id, "slot": group.slots[slot], "prompt": prompt, "answer": answer} | {
        "reward": reward
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


def write_lines(path: Path, rows: Iterable[dict[str, Any] | None]) -> int:
    """Write rows as JSON Lines in place of what `path` held, whole or not at all; returns how many."""
    temporary = path.with_name(f".{path.name}.tmp")
    count = 0
    try:
        with open(temporary, "wb") as file:
            for row in rows:
                if row is not None:
                    file.write(msgspec.json.encode(row) + b"\n")
                    count += 1
        temporary.replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return count
