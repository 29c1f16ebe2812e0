"""The question of a `/verify` body. The members of a group send it once each, with the same bytes nearly always, so the
short ones that were read last are remembered: what is known of them, and the memory it takes, is shared."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from groupjudge.answers.fields import Problems
from groupjudge.answers.fingerprint import question_fingerprint
from groupjudge.answers.jsontext import parse_shallow
from groupjudge.answers.texts import conversation
from groupjudge.errors import FieldProblem
from groupjudge.model import Fingerprint, Topic

_SHORT = 8192
_REMEMBERED = 256
"""So many, of at most so many bytes: a few megabytes at worst."""


class Question(NamedTuple):
    """What is asked, its fingerprint, and what is wrong with it: where something is, the others mean nothing."""

    topic: Topic
    fingerprint: Fingerprint
    faults: tuple[FieldProblem, ...] = ()


NO_QUESTION = Question(Topic(()), Fingerprint(b""))


def read_question(text: bytes, principle: str | None) -> Question:
    """The question that the JSON text of `input` is (empty: it is missing), under a principle. The text's depth was
    checked. Raises Malformed."""
    return _remembered(text, principle) if len(text) <= _SHORT else _read(text, principle)


def _read(text: bytes, principle: str | None) -> Question:
    question = parse_shallow(text) if text else None
    problems = Problems()
    check_question(question, ("responses_create_params", "input"), problems)
    topic = Topic(conversation(question), principle)
    return Question(topic, question_fingerprint(question, principle), tuple(problems.found))


_remembered = lru_cache(_REMEMBERED)(_read)


def check_question(question: object, loc: tuple[str | int, ...], problems: Problems) -> None:
    """Report a question that is neither a text nor a list of objects."""
    if question is None:
        problems.add(*loc, msg="is required: a string or a list of items", type="missing")
    elif type(question) is list:
        for index, item in enumerate(question):
            if type(item) is not dict:
                problems.add(*loc, index, msg="must be an object", type="dict_type")
    elif type(question) is not str:
        problems.add(*loc, msg="must be a string or a list of items", type="list_type")
