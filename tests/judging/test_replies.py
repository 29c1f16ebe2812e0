"""What a judge's reply says (J11's sources of text, J12, J22)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.replies import ErrorInside, Misshapen, Reply, read_chat_reply, read_responses_reply


def chat(message: Any = None, **choice: Any) -> bytes:
    return json.dumps({"choices": [{"message": message or {"content": "hi"}, **choice}]}).encode()


def responses(*items: Any, **extra: Any) -> bytes:
    return json.dumps({"output": list(items), "status": "completed", **extra}).encode()


def message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "content": list(parts)}


def part(text: Any, type: str = "output_text") -> dict[str, Any]:
    return {"type": type, "text": text}


def test_the_text_of_a_chat_completion_is_its_first_choices_content() -> None:
    raw = json.dumps({"choices": [{"message": {"content": "first"}}, {"message": {"content": "second"}}]}).encode()
    assert read_chat_reply(raw) == Reply("first", "")


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_skipped(bom: bytes) -> None:
    assert read_chat_reply(bom + chat()).text == "hi"


def test_parts_of_a_content_list_are_joined_without_thoughts() -> None:
    """J11."""
    parts = [part("thought", "thinking"), part("a", "text"), {"type": "text", "text": 5}, 7, part("b")]
    assert read_chat_reply(chat({"content": parts})).text == "ab"


def test_the_reasoning_channel_is_never_read() -> None:
    """J11."""
    assert read_chat_reply(chat({"content": None, "reasoning_content": "x", "reasoning": "x"})) == Reply(
        "", "an empty reply"
    )
    thought = {"type": "reasoning", "summary": [part("x", "summary_text")], "content": [part("x")]}
    assert read_responses_reply(responses(thought)) == Reply("", "an empty reply")
    assert read_responses_reply(responses(thought, message(part("y")))).text == "y"


@pytest.mark.parametrize("reason", ["length", "content_filter", "abort", "error"])
def test_a_completion_that_was_cut_short_is_unfinished(reason: str) -> None:
    """J12."""
    reply = read_chat_reply(chat(finish_reason=reason))
    assert reply.unfinished == f"finish reason {reason}"


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "eos", None, 5, ["length"]])
def test_any_other_finish_reason_is_finished(reason: Any) -> None:
    """J12."""
    assert read_chat_reply(chat(finish_reason=reason)).unfinished == ""


@pytest.mark.parametrize("text", [None, "", " \n", 5])
def test_a_reply_without_text_is_empty(text: Any) -> None:
    """J12."""
    assert read_chat_reply(chat({"content": text})).unfinished == "an empty reply"


def test_the_text_of_a_response_is_that_of_its_messages_in_order() -> None:
    items = (
        message(part("a"), part("no", "refusal"), 3),
        {"type": "tool", "content": [part("x")]},
        None,
        message(part("b")),
    )
    assert read_responses_reply(responses(*items)) == Reply("ab", "")


@pytest.mark.parametrize("status", ["incomplete", "failed", "in_progress", "queued", "cancelled", 5])
def test_a_response_of_another_status_than_completed_is_unfinished(status: Any) -> None:
    """J12."""
    assert read_responses_reply(responses(message(part("a")), status=status)).unfinished


def test_a_response_without_status_is_completed_unless_it_says_that_it_is_incomplete() -> None:
    """J12: some servers leave the status out."""
    done, cut = {"status": None}, {"status": None, "incomplete_details": {"reason": "max_output_tokens"}}
    assert read_responses_reply(responses(message(part("a")), **done)).unfinished == ""
    assert read_responses_reply(responses(message(part("a")), **cut)).unfinished


MISSHAPEN = {
    "nothing": (b"", "nothing"),
    "white space": (b" \n", "nothing"),
    "HTML": (b"\n<!DOCTYPE html>", "HTML"),
    "HTML after a byte order mark": (b"\xef\xbb\xbf<html>", "HTML"),
    "event stream": (b"data: {}\n\n", "event stream"),
    "event stream with a comment": (b": ping\n\n", "event stream"),
    "event stream with a name": (b"event: x\ndata: {}\n\n", "event stream"),
    "text": (b"Internal Server Error", "no valid JSON"),
    "cut": (b'{"choices": [', "no valid JSON"),
    "invalid UTF-8": (b'{"a": "\xff"}', "no valid JSON"),
    "binary": (bytes(range(256)), "no valid JSON"),
    "deep": (b"[" * 100_000 + b"]" * 100_000, "no valid JSON"),
    "digits": (b"1" * 10_000, "no valid JSON"),
    "list": (b"[]", "no object"),
    "null": (b"null", "no object"),
    "other": (b'{"detail": "x"}', "without"),
    "null choices and output": (b'{"choices": null, "output": null}', "without"),
    "text choices and output": (b'{"choices": "x", "output": "x"}', "without"),
    "error text": (b'{"error": "overloaded"}', "without"),
}


@pytest.mark.parametrize(("body", "what"), MISSHAPEN.values(), ids=MISSHAPEN.keys())
def test_bytes_without_the_apis_shape_are_said_to_be_what_they_are(body: bytes, what: str) -> None:
    """J12, J22, L26: without quoting them."""
    for read in (read_chat_reply, read_responses_reply):
        with pytest.raises(Misshapen, match=what):
            read(body)


@pytest.mark.parametrize("choices", [[], [None], [{}], [{"message": None}], [{"message": "x"}], {"0": {}}])
def test_choices_without_a_message_have_no_shape(choices: Any) -> None:
    """J12."""
    with pytest.raises(Misshapen):
        read_chat_reply(json.dumps({"choices": choices}).encode())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429),
        ({"status": 503}, 503),
        ({"code": 400, "status": 500}, 400),
        ({"code": "rate_limit", "status": 429}, 429),
        ({"code": 599}, 599),
        ({"code": 600}, 502),
        ({"code": 399}, 502),
        ({"code": 200}, 502),
        ({"code": "429"}, 502),
        ({"code": 429.0}, 502),
        ({"code": True}, 502),
        ({"message": "x"}, 502),
        ({}, 502),
    ],
)
def test_an_error_object_in_a_200_is_the_status_that_it_names(error: Any, status: int) -> None:
    """J22: an integer 400-599, else 502; also beside what looks like a reply."""
    extra = {"error": error, "choices": [{"message": {"content": "x"}}], "output": [], "status": "completed"}
    for read in (read_chat_reply, read_responses_reply):
        with pytest.raises(ErrorInside) as caught:
            read(json.dumps(extra).encode())
        assert caught.value.status == status


def test_an_error_that_is_null_is_none() -> None:
    """J22: a Responses object always has the key."""
    assert read_responses_reply(responses(message(part("a")), error=None)).text == "a"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "input_tokens": 3, "output_tokens": 4}, (3, 4)),
        ({"prompt_tokens": -3, "completion_tokens": True, "input_tokens": "3", "output_tokens": None}, (0, 0)),
        (
            {"prompt_tokens": 10**400, "completion_tokens": 2**70, "input_tokens": 10**400, "output_tokens": 2**70},
            (0, 0),
        ),
        (None, (0, 0)),
        ([1], (0, 0)),
    ],
)
def test_usage_is_read_where_it_is_one(usage: Any, counts: tuple[int, int]) -> None:
    for reply in (
        read_chat_reply(json.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage}).encode()),
        read_responses_reply(responses(message(part("a")), usage=usage)),
    ):
        assert (reply.prompt_tokens, reply.completion_tokens) == counts


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "type", "text", "output", "error", "code", "usage", "status"]
            ),
            inner,
        )
    ),
)


@given(json_values)
def test_no_json_breaks_the_reader(value: Any) -> None:
    """J12: every reply is read, or refused as what it is."""
    for read in (read_chat_reply, read_responses_reply):
        with suppress(Misshapen, ErrorInside):
            assert isinstance(read(json.dumps(value).encode()).text, str)
