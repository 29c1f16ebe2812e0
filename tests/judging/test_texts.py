"""Texts on their way to a judge (J21)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.texts import clean, clean_group, clean_message, shown_answer
from groupjudge.model import AnswerTexts, Message, Topic


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        ("a\0b\0", "ab"),
        ("\ud800", "\ufffd"),
        ("x\ud83d", "x\ufffd"),
        ("\udc00y", "\ufffdy"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\0\ude00", "\ufffd\ufffd"),
        ("é\0", "é"),
    ],
)
def test_a_lone_surrogate_is_replaced_and_nul_is_dropped(text: str, cleaned: str) -> None:
    """J21: a pair is the character that it spells."""
    assert clean(text) == cleaned


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_is_fit_to_be_sent_and_stays_as_it_is(text: str) -> None:
    """J21."""
    cleaned = clean(text)
    cleaned.encode()
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_that_is_fit_is_untouched(text: str) -> None:
    """J21."""
    assert clean(text) == text


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_the_four_roles_are_kept(role: str) -> None:
    """J4."""
    assert clean_message(Message(role, "a\0")) == Message(role, "a")


@pytest.mark.parametrize(
    "role", ["response_1", "response_2", "principle", "tool", "", " user", "User", "system\n", "response_1\0", "\ud800"]
)
def test_any_other_role_is_a_users(role: str) -> None:
    """J21: none that came with a question passes for one that a format gives a meaning of its own."""
    assert clean_message(Message(role, "a")) == Message("user", "a")


@pytest.mark.parametrize("answer", ["None", "", " \n\t", "\0", " \0\u2003"])
def test_an_empty_answer_is_shown_as_configured(answer: str) -> None:
    """J21; `None` is how J5 spells an empty answer."""
    assert shown_answer(answer, "[nothing]") == "[nothing]"


@pytest.mark.parametrize("answer", ["none", "None.", "a", " a ", "\u200b"])
def test_any_other_answer_is_shown_as_it_is(answer: str) -> None:
    """J21."""
    assert shown_answer(answer, "[nothing]") == answer


def test_a_group_is_cleaned_in_order() -> None:
    """J21: conversation, principle and answers."""
    topic = Topic((Message("tool", "q\0"), Message("system", "s")), "p\ud800")
    cleaned, answers = clean_group(topic, [AnswerTexts("b\0", "r"), AnswerTexts("None", ""), AnswerTexts("a", "")], "-")
    assert cleaned == Topic((Message("user", "q"), Message("system", "s")), "p\ufffd")
    assert answers == ("b", "-", "a")
    assert clean_group(Topic(()), [], "-") == (Topic((), None), ())
