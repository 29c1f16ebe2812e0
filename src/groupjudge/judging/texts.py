"""Texts on their way to a judge (J21): made fit for UTF-8, roles kept honest, empty answers shown as something."""

from __future__ import annotations

from collections.abc import Iterable

from groupjudge.model import AnswerTexts, Conversation, Message, Topic

ROLES = frozenset({"user", "assistant", "system", "developer"})
EMPTY_ANSWER = "None"
"""What stands for an empty answer in `AnswerTexts.answer` (J5)."""


def clean(text: str) -> str:
    """`text` with every lone surrogate as U+FFFD and without NUL. A pair becomes its character."""
    if not text.isascii():
        text = _without_surrogates(text)
    return text.replace("\0", "") if "\0" in text else text


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_message(message: Message) -> Message:
    """A message in clean text. A role that is none of the four is `user`: no role that came in with a question can then
    pass for one that the request format gives a meaning of its own (`response_1`, `principle`, ...)."""
    role = message.role if message.role in ROLES else "user"
    return Message(role, clean(message.content))


def clean_conversation(conversation: Iterable[Message]) -> Conversation:
    """Every message clean, in order."""
    return tuple(clean_message(message) for message in conversation)


def shown_answer(answer: str, empty_answer_text: str) -> str:
    """The answer as the judge sees it: clean, and `empty_answer_text` where there is nothing to see."""
    answer = clean(answer)
    return empty_answer_text if answer == EMPTY_ANSWER or not answer or answer.isspace() else answer


def clean_group(topic: Topic, texts: Iterable[AnswerTexts], empty_answer_text: str) -> tuple[Topic, tuple[str, ...]]:
    """A group in texts fit to be sent: its topic, and its answers in slot order."""
    principle = None if topic.principle is None else clean(topic.principle)
    answers = tuple(shown_answer(text.answer, empty_answer_text) for text in texts)
    return Topic(clean_conversation(topic.conversation), principle), answers
