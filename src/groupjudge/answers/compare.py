"""A `/compare` body (H6): a whole group at once."""

from __future__ import annotations

from dataclasses import dataclass

from groupjudge.answers.fields import Problems
from groupjudge.answers.jsontext import MAX_DEPTH, check_depth, check_utf8, parse, skim
from groupjudge.answers.outline import Outline
from groupjudge.answers.texts import answer_texts, conversation
from groupjudge.answers.top import check_object
from groupjudge.answers.verify import check_output, read_outlined
from groupjudge.model import AnswerTexts, Conversation


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The question's conversation, its answers' texts in the order they were sent, and the request's principle."""

    conversation: Conversation
    texts: tuple[AnswerTexts, ...]
    principle: str | None


def read_compare(body: bytes) -> CompareRequest:
    """Read a body. Raises InvalidRequest with every fault that was found, or with one where the body is no JSON."""
    return read_outlined(body, _read)


def _read(outline: Outline) -> CompareRequest:
    check_utf8(outline.text)
    check_object(outline.text)
    top = parse(outline.text)
    assert isinstance(top, dict)
    _check_cuts(outline)
    problems = Problems()
    history = _list_of_objects(top, "conversation_history", problems)
    answers = _list_of_objects(top, "response_objs", problems)
    for index, answer in enumerate(answers):
        if isinstance(answer, dict):
            check_output(answer, ("response_objs", index), problems)
    principle = top.get("principle")
    if not isinstance(principle, str | None):
        problems.add("principle", msg="must be a string", type="string_type")
    problems.check()
    assert isinstance(principle, str | None)
    return CompareRequest(conversation(history), tuple(map(answer_texts, answers)), principle)


def _list_of_objects(top: dict[str, object], name: str, problems: Problems) -> list[object]:
    value = top.get(name)
    if value is None:
        problems.add(name, msg="is required: a list of objects", type="missing")
    elif not isinstance(value, list):
        problems.add(name, msg="must be a list of objects", type="list_type")
    else:
        for index, each in enumerate(value):
            if not isinstance(each, dict):
                problems.add(name, index, msg="must be an object", type="dict_type")
        return value
    return []


def _check_cuts(outline: Outline) -> None:
    """The long arrays matter to no text, but they must be JSON, and not too deep."""
    for cut in outline.cuts:
        skim(memoryview(outline.body)[slice(*cut)])
    if any(outline.body.find(b"[", cut.start + 1, cut.stop) >= 0 for cut in outline.cuts):
        check_depth(outline.body, MAX_DEPTH)
