"""The texts in questions and answers (J4, J5). What they do not know they skip; they change no character."""

from __future__ import annotations

from collections.abc import Iterable

from groupjudge.model import AnswerTexts, Conversation, Message

ROLES = frozenset({"user", "assistant", "system", "developer"})
EMPTY = "None"
"""What stands for an answer of white space alone, or none (J5)."""

_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_PLACEHOLDERS = {"image": "[image]", "file": "[file]", "audio": "[audio]", "video": "[video]"}
# By a word of the part's type: `input_image`, `image_url`, ...


def answer_texts(response: object) -> AnswerTexts:
    """The texts of a parsed Responses-API object; nothing in it is required."""
    answer: list[str] = []
    reasoning: list[str] = []
    output = response.get("output") if isinstance(response, dict) else None
    for item in _dicts(output):
        kind = item.get("type")
        if kind == "message":
            answer += _texts(item.get("content"), "output_text")
        elif kind == "reasoning":
            reasoning += _texts(item.get("summary"), "summary_text")
    text = "".join(answer)
    return AnswerTexts(text if text and not text.isspace() else EMPTY, "".join(reasoning))


def _texts(parts: object, kind: str) -> list[str]:
    return [text for part in _dicts(parts) if part.get("type") == kind and isinstance(text := part.get("text"), str)]


def _dicts(values: object) -> Iterable[dict[str, object]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else ()


def conversation(question: object) -> Conversation:
    """The conversation in a parsed `input`: a string, or a list of items of which the messages count."""
    if isinstance(question, str):
        return (Message("user", question),)
    return tuple(message for item in _dicts(question) if (message := _message(item)) is not None)


def _message(item: dict[str, object]) -> Message | None:
    """The message that an item is; a role that is none of the four is a user's (J21)."""
    role = item.get("role")
    kind = item.get("type")
    if kind != "message" and not (kind is None and isinstance(role, str)):
        return None
    text = _content(item.get("content"))
    if text is None:
        return None
    return Message(role if isinstance(role, str) and role in ROLES else "user", text)


def _content(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "".join(_part(part) for part in _dicts(content))


def _part(part: dict[str, object]) -> str:
    kind = part.get("type")
    if not isinstance(kind, str):
        return ""
    if kind in _TEXT_PARTS:
        text = part.get("text")
        return text if isinstance(text, str) else ""
    return next((_PLACEHOLDERS[word] for word in kind.split("_") if word in _PLACEHOLDERS), "")
