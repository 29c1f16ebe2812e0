"""Reading `/compare` bodies (H6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupjudge.answers.compare import read_compare
from groupjudge.answers.jsontext import Malformed
from groupjudge.errors import InvalidRequest
from groupjudge.model import AnswerTexts, Message

from .json_values import EVERY_PATH, Paths


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}], **more}]}


BODY: dict[str, Any] = {
    "conversation_history": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi?"}],
    "response_objs": [answer("a", ids=list(range(3000))), answer(" "), answer("b", probs=[1.5] * 3000)],
}


def encoded(**changes: Any) -> bytes:
    return json.dumps({**BODY, **changes}).encode()


def test_a_body_gives_conversation_texts_and_principle() -> None:
    """H6: the answers in their order, on every path."""
    for path in EVERY_PATH:
        with Paths(**path):
            request = read_compare(encoded(principle="be kind"))
        assert request.conversation == (Message("system", "Be brief."), Message("user", "Hi?"))
        assert request.texts == tuple(AnswerTexts(text, "") for text in ("a", "None", "b"))
        assert request.principle == "be kind"


def test_a_group_may_be_empty_and_a_principle_null() -> None:
    """H6."""
    request = read_compare(encoded(response_objs=[], conversation_history=[], principle=None, extra=1))
    assert (request.texts, request.conversation, request.principle) == ((), (), None)


def test_a_byte_order_mark_is_skipped() -> None:
    """H10."""
    assert read_compare(b"\xef\xbb\xbf" + encoded()) == read_compare(encoded())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"conversation_history": None}, ("conversation_history", "missing")),
        ({"conversation_history": "Hi?"}, ("conversation_history", "list_type")),
        ({"conversation_history": ["Hi?"]}, ("conversation_history.0", "dict_type")),
        ({"response_objs": None}, ("response_objs", "missing")),
        ({"response_objs": {}}, ("response_objs", "list_type")),
        ({"response_objs": [answer("a"), 5]}, ("response_objs.1", "dict_type")),
        ({"response_objs": [answer("a"), {}]}, ("response_objs.1.output", "missing")),
        ({"response_objs": [{"output": 5}]}, ("response_objs.0.output", "list_type")),
        ({"principle": 5}, ("principle", "string_type")),
    ],
    ids=str,
)
def test_a_missing_or_mistyped_field_is_named(change: dict[str, Any], found: tuple[str, str]) -> None:
    """H5."""
    with pytest.raises(InvalidRequest) as raised:
        read_compare(encoded(**change))
    assert [(".".join(map(str, p["loc"][1:])), p["type"]) for p in raised.value.problems] == [found]


@pytest.mark.parametrize("body", [b"[]", b"5", b"null"])
def test_a_body_that_is_no_object_is_refused_as_such(body: bytes) -> None:
    """H5."""
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        read_compare(body)


@pytest.mark.parametrize(
    "array",
    ["[" + "1," * 3000 + "01]", "[" + "1.5," * 3000 + "]", "[" * 300 + "1," * 3000 + "1" + "]" * 300,
     "[" + "1 " * 3000 + "]"],
    ids=lambda text: repr(text[:4] + text[-4:]),
)  # fmt: skip
def test_a_long_array_must_be_json_though_nobody_reads_it(array: str) -> None:
    """H10."""
    text = f'{{"conversation_history":[],"response_objs":[{{"output":[{{"x":{array}}}]}}]}}'
    with pytest.raises(Malformed):
        read_compare(text.encode())


@pytest.mark.parametrize(
    "array", ["[" * 250 + "1," * 3000 + "1" + "]" * 250, "[" + "NaN," * 3000 + "1e400]", "[[1.5],2]"]
)
def test_a_long_array_may_be_anything_that_json_is(array: str) -> None:
    """H10: five levels are around it, and it may have the other 251."""
    text = f'{{"conversation_history":[],"response_objs":[{{"output":[{{"x":{array}}}]}}]}}'
    assert read_compare(text.encode()).texts == (AnswerTexts("None", ""),)
    with pytest.raises(Malformed, match="invalid UTF-8"):
        read_compare(text.encode().replace(b'"x"', b'"\xff"'))
