"""The prompt of `format: listwise` (F9): like the one for pairs (`template.py`), with any number of answers.

The answers stand in blocks `<answer_1-MARK>`, `<answer_2-MARK>`, ... in the order of the list, with the mark of
`template.choose_mark`, which occurs in none of the group's texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from groupjudge.judging.listwise_reading import SCORES
from groupjudge.judging.template import (
    NO_PRINCIPLE,
    PRINCIPLE,
    Placeholder,
    Range,
    block,
    check_template,
    choose_mark,
    number_schema,
    pieces_of,
    read_template,
    score_scale,
    turns,
)
from groupjudge.model import Topic

_ANSWERS, _SHAPE = "answers", "reply_shape"
_REQUIRED = ("conversation", _ANSWERS, _SHAPE)
_KNOWN = (*_REQUIRED, PRINCIPLE, "tag", "score_scale")


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the answers of a list, or the shape of its reply, belong."""

    name: str
    mark: str

    def filled(self, answers: Sequence[str]) -> str:
        """What stands there for these answers, in the order in which they are shown."""
        if self.name == _SHAPE:
            return json.dumps({SCORES: dict.fromkeys(names_of(len(answers)), "number")}).replace('"number"', "number")
        shown = zip(names_of(len(answers)), answers, strict=True)
        return "\n".join(block(name, answer, self.mark) for name, answer in shown)


@dataclass(frozen=True, slots=True)
class ListTemplate:
    """A checked template. Made by `load_list_template`."""

    pieces: tuple[str | Placeholder, ...]

    def fill(self, topic: Topic, answers: Sequence[str]) -> list[str | Gap]:
        """The prompt of a group. `topic` and `answers` (all that will be shown in it) must be clean."""
        mark = choose_mark(topic, answers)
        shared: dict[str, str | Gap] = {
            "conversation": block("conversation", turns(topic.conversation, mark), mark),
            PRINCIPLE: NO_PRINCIPLE if topic.principle is None else block(PRINCIPLE, topic.principle, mark),
            "tag": mark,
            _ANSWERS: Gap(_ANSWERS, mark),
            _SHAPE: Gap(_SHAPE, mark),
        }
        return [piece if isinstance(piece, str) else shared[piece.name] for piece in self.pieces]


def load_list_template(
    path: str | None = None, score_range: Range | None = (1.0, 5.0), *, with_principle: bool = False
) -> ListTemplate:
    """Read and check the template at `path` (None: the one of the package), as `template.load_template` does; required
    are `${conversation}`, `${answers}` and `${reply_shape}`. Raises ConfigurationError."""
    text = read_template(path, "listwise.txt")
    check_template(text, path, (*_REQUIRED, PRINCIPLE) if with_principle else _REQUIRED, _KNOWN)
    return ListTemplate(tuple(pieces_of(text, {"score_scale": score_scale(score_range)})))


def names_of(count: int) -> tuple[str, ...]:
    """What the answers of a list of `count` are called, in the order in which they are shown."""
    return tuple(f"answer_{number}" for number in range(1, count + 1))


def scores_schema(count: int, score_range: Range | None) -> dict[str, Any]:
    """The JSON schema of the scores of a list: every name once, no other, each number within the range."""
    names = names_of(count)
    scores = {
        "type": "object",
        "properties": {name: number_schema(score_range) for name in names},
        "required": list(names),
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {SCORES: scores}, "required": [SCORES], "additionalProperties": False}
