"""A `/v1/judge` body (A1): a whole group at once, in plain form.

Question and answers are those of `/verify`: a text or a list of messages stands for the object that it is there, so
that a group may be sent either way, and its fingerprints are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from groupjudge.answers.fields import MAX_ATTEMPT, MAX_ID_LENGTH, Problems, has_lone_surrogate
from groupjudge.answers.fingerprint import fingerprint_of, question_fingerprint
from groupjudge.answers.jsontext import check_utf8, parse
from groupjudge.answers.outline import uncut
from groupjudge.answers.question import check_question
from groupjudge.answers.texts import answer_texts, conversation
from groupjudge.answers.top import check_object
from groupjudge.answers.verify import check_output
from groupjudge.model import AnswerTexts, Arrival, Attempt, Fingerprint, GroupId, Topic
from groupjudge.short_forms import of_messages, of_text


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What is to be judged. With an id, `arrivals` are its members in slot order; without one, there are none."""

    topic: Topic
    texts: tuple[AnswerTexts, ...]
    arrivals: tuple[Arrival, ...] = ()


def read_judge(body: bytes, *, max_size: int) -> JudgeRequest:
    """Read a body; a group has at most `max_size` answers. Raises InvalidRequest with every fault that was found, or
    with one where the body is no JSON."""
    text = uncut(body).text
    check_utf8(text)
    check_object(text)
    top = parse(text)
    assert isinstance(top, dict)
    return _Reader(top).read(max_size)


class _Reader:
    def __init__(self, top: dict[str, object]) -> None:
        self._top = top
        self._problems = Problems()

    def read(self, max_size: int) -> JudgeRequest:
        question = self._top.get("question")
        check_question(question, ("question",), self._problems)
        if (
            isinstance(question, list)
            and all(isinstance(item, dict) for item in question)
            and not conversation(question)
        ):
            what = "must hold a message: an object with a role (user, assistant, system, developer) and content"
            self._problems.add("question", msg=what, type="no_message")
        answers = self._answers(max_size)
        principle = self._string("principle", None)
        group_id, attempt = self._string("id", MAX_ID_LENGTH), self._attempt()
        if group_id is not None and self._top.get("answers") == []:
            self._problems.add("answers", msg="must hold an answer at least, where there is an id", type="too_short")
        self._problems.check()
        topic = Topic(conversation(question), principle)
        texts = tuple(map(answer_texts, answers))
        if group_id is None:
            return JudgeRequest(topic, texts)
        asked, prints = question_fingerprint(question, principle), list(map(fingerprint_of, answers))
        arrivals = _arrivals(GroupId(group_id), attempt, asked, topic, list(zip(texts, prints, strict=True)))
        return JudgeRequest(topic, texts, tuple(arrivals))

    def _answers(self, max_size: int) -> list[object]:
        sent = self._top.get("answers")
        if sent is None:
            self._problems.add("answers", msg="is required: a list of answers", type="missing")
        elif not isinstance(sent, list):
            self._problems.add("answers", msg="must be a list of answers", type="list_type")
        elif len(sent) > max_size:
            msg = f"are {len(sent)}, which is more than limits.max_group_size ({max_size})"
            self._problems.add("answers", msg=msg, type="too_long")
        else:
            return [self._answer(answer, index) for index, answer in enumerate(sent)]
        return []

    def _answer(self, answer: object, index: int) -> object:
        if isinstance(answer, dict):
            check_output(answer, ("answers", index), self._problems)
        elif isinstance(answer, list):
            for at, message in enumerate(answer):
                if not isinstance(message, dict):
                    self._problems.add("answers", index, at, msg="must be a message, an object", type="dict_type")
                    return None
        elif not isinstance(answer, str):
            what = "a string, a list of messages, or a Responses object"
            self._problems.add("answers", index, msg=f"must be {what}", type="answer_type")
        return response(answer)

    def _string(self, name: str, max_length: int | None) -> str | None:
        value = self._top.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self._problems.add(name, msg="must be a string", type="string_type")
        elif max_length is not None and not 1 <= len(value) <= max_length:
            self._problems.add(name, msg=f"must have 1 to {max_length} characters", type="string_length")
        elif max_length is not None and has_lone_surrogate(value):
            self._problems.add(name, msg="must not hold a lone surrogate", type="string_unicode")
        else:
            return value
        return None

    def _attempt(self) -> Attempt:
        value = self._top.get("attempt")
        if value is None:
            return 0
        if type(value) is int and 0 <= value <= MAX_ATTEMPT:
            return value
        self._problems.add("attempt", msg=f"must be an integer from 0 to {MAX_ATTEMPT}", type="int_range")
        return 0


def _arrivals(
    key: GroupId, attempt: Attempt, asked: Fingerprint, topic: Topic, answers: list[tuple[AnswerTexts, Fingerprint]]
) -> Iterator[Arrival]:
    for slot, (texts, fingerprint) in enumerate(answers):
        yield Arrival(key, attempt, len(answers), slot, asked, fingerprint, texts, topic)


# -- short forms -----------------------------------------------------------------------------------------------------


def response(answer: object) -> object:
    """The Responses object that an answer is, or that its short form stands for. What it is of a text or a list of
    messages is documented."""
    if isinstance(answer, str):
        return of_text(answer)
    return of_messages(answer) if isinstance(answer, list) else answer
