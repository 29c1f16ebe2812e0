"""The texts in questions and answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from groupjudge.answers.texts import answer_texts, conversation
from groupjudge.model import AnswerTexts, Message

from .json_values import values

CASES = json.loads((Path(__file__).parents[1] / "cases" / "extraction.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES["answers"], ids=lambda case: case["name"])
def test_the_shared_answers_have_the_texts_they_should(case: dict[str, Any]) -> None:
    """J5."""
    assert answer_texts(case["response"]) == AnswerTexts(case["answer"], case["reasoning"])


@pytest.mark.parametrize("case", CASES["questions"], ids=lambda case: case["name"])
def test_the_shared_questions_are_the_conversations_they_should(case: dict[str, Any]) -> None:
    """J4."""
    assert [message._asdict() for message in conversation(case["input"])] == case["conversation"]


def user(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "input_text", "text": "a"}, "a"),
        ({"type": "output_text", "text": "a"}, "a"),
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "text", "text": 5}, ""),
        ({"type": "text"}, ""),
        ({"type": "input_image", "image_url": "x"}, "[image]"),
        ({"type": "image_url", "text": "x"}, "[image]"),
        ({"type": "input_file"}, "[file]"),
        ({"type": "input_audio"}, "[audio]"),
        ({"type": "refusal", "refusal": "no"}, ""),
        ({"type": "profile", "text": "x"}, ""),
        ({"type": 5, "text": "x"}, ""),
        ({"text": "x"}, ""),
        ("x", ""),
        (None, ""),
    ],
    ids=str,
)
def test_a_part_of_a_question_is_its_text_or_a_placeholder_or_nothing(part: Any, shown: str) -> None:
    """J4, J21."""
    around = {"type": "text", "text": "<"}, {"type": "text", "text": ">"}
    assert conversation(user(around[0], part, around[1])) == (Message("user", f"<{shown}>"),)


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_the_four_roles_are_kept(role: str) -> None:
    """J4."""
    assert conversation([{"role": role, "content": "x"}]) == (Message(role, "x"),)


@pytest.mark.parametrize("role", ["response_1", "response_2", "principle", "tool", "User", "", None, 5, ["user"]])
def test_any_other_role_is_a_users(role: Any) -> None:
    """J21: none can pass for a role that a judge's format gives a meaning of its own."""
    assert conversation([{"type": "message", "role": role, "content": "x"}]) == (Message("user", "x"),)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "role": "user", "content": "x"},
        {"type": "function_call_output", "output": "x"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": 5},
        {"content": "x"},
        {},
        None,
        "x",
    ],
    ids=str,
)
def test_what_is_no_message_is_left_out(item: Any) -> None:
    """J4: other items, and those without a content."""
    assert conversation([item, {"role": "user", "content": "So?"}]) == (Message("user", "So?"),)


def test_an_empty_message_stays() -> None:
    """J4: each message item, in order."""
    empty = {"role": "assistant", "content": []}, {"role": "user", "content": "", "type": None}
    assert conversation(list(empty)) == (Message("assistant", ""), Message("user", ""))


@pytest.mark.parametrize("question", [None, 5, {}, {"role": "user", "content": "x"}, []])
def test_a_question_of_another_kind_is_no_conversation(question: Any) -> None:
    """J4: nothing is guessed."""
    assert conversation(question) == ()


def answered(*items: Any) -> dict[str, Any]:
    return {"output": list(items)}


def message(kind: str, text: str) -> dict[str, Any]:
    return answered({"type": "message", "content": [{"type": kind, "text": text}]})


def reasoning(kind: str, text: str, where: str = "summary") -> dict[str, Any]:
    return answered({"type": "reasoning", where: [{"type": kind, "text": text}]})


@pytest.mark.parametrize(
    ("response", "texts"),
    [
        (None, AnswerTexts("None", "")),
        ([], AnswerTexts("None", "")),
        ({}, AnswerTexts("None", "")),
        ({"output": {"type": "message"}}, AnswerTexts("None", "")),
        (answered({"content": [{"type": "output_text", "text": "x"}]}), AnswerTexts("None", "")),
        (message("text", "x"), AnswerTexts("None", "")),
        (message("output_text", " x\n"), AnswerTexts(" x\n", "")),
        (message("output_text", "\u2003\x1f"), AnswerTexts("None", "")),
        (reasoning("summary_text", " "), AnswerTexts("None", " ")),
        (reasoning("other", "x"), AnswerTexts("None", "")),
        (reasoning("reasoning_text", "x", "content"), AnswerTexts("None", "")),
    ],
    ids=str,
)  # fmt: skip
def test_answers_of_any_shape_have_texts(response: Any, texts: AnswerTexts) -> None:
    """J5: what is not known is skipped; no character is changed."""
    assert answer_texts(response) == texts


@given(values)
def test_nothing_that_json_can_hold_is_too_odd(value: Any) -> None:
    """J4, J5: whatever items and parts hold."""
    items = [{"type": "message", "role": value, "content": value}, {"type": value}, value]
    assert isinstance(answer_texts({"output": items}), AnswerTexts)
    assert all(isinstance(message, Message) for message in conversation(items))
