"""What the client sends: short forms, and numbers and arrays of other libraries (A4)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from groupjudge.answers.judge import response as servers_response
from groupjudge.client.plain import encoded, group_body, member_body, response

ANSWERS: list[Any] = [
    "",
    "Paris.",
    [],
    [{"role": "assistant", "content": "Paris."}],
    [{"content": "Paris."}],
    [{"role": "assistant", "content": [{"type": "text", "text": "Paris."}, {"type": "image_url", "image_url": "x"}]}],
    [{"role": "assistant", "content": "Look:", "tool_calls": [{"id": 1}]}, {"role": "tool", "content": "42"}],
    [{"role": "assistant", "content": None, "reasoning_content": "Hm."}, {"role": "user", "content": "Go on."}],
    [{"type": "function_call", "name": "f"}, {"type": "message", "role": "assistant", "content": "Done."}],
    {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Paris."}]}], "extra": [1.5]},
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_short_forms_stand_for_what_the_server_takes_them_for(answer: Any) -> None:
    """A1, A4: so that a group may be sent by `judge` and its members by `verify`."""
    assert json.loads(encoded(response(answer))) == servers_response(answer)


class Array:
    """What arrays of numpy and torch have in common."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def tolist(self) -> list[Any]:
        return list(self.values)


class Scalar:
    """A scalar, or an array without dimensions."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


class Bfloat16:
    """A scalar of a type that Python does not have: `tolist` gives another one of its kind."""

    def __init__(self, value: float) -> None:
        self.value = value

    def tolist(self) -> Bfloat16:
        return Bfloat16(self.value)

    def __float__(self) -> float:
        return self.value


class Integer:
    """An integer of such a type."""

    def __init__(self, value: int) -> None:
        self.value = value

    def tolist(self) -> Integer:
        return Integer(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        return self.value


def test_scalars_and_arrays_become_numbers_and_lists() -> None:
    """A4: wherever they are in an answer, at any nesting; integers stay integers."""
    sent = {
        "ids": Array(1, 2),
        "logprobs": Array(Bfloat16(-0.5), Bfloat16(0.25)),
        "nested": [Array(Array(Integer(3)), Scalar(4))],
        "scalar": Scalar(True),
    }
    assert encoded(sent) == b'{"ids":[1,2],"logprobs":[-0.5,0.25],"nested":[[[3],4]],"scalar":true}'


def test_numbers_that_json_does_not_know_are_sent_as_the_server_reads_them() -> None:
    """H10, A4: NaN and infinities are not null."""
    assert encoded([math.nan, Scalar(-math.inf)]) == b"[NaN,-Infinity]"


def test_what_is_no_data_is_an_error() -> None:
    """A4."""
    with pytest.raises(TypeError, match="type 'object' is no JSON data"):
        encoded({"x": object()})


def test_what_parts_of_messages_hold_beside_data_is_left_out() -> None:
    """A4, J21: trainers put images into the messages; the judge is only shown that they are there."""
    image, frames = object(), [object(), object()]
    parts = [
        {"type": "image", "image": image, "size": [2, 3]},
        {"type": "video", "video": frames, "fps": 2.0},
        {"type": "audio", "audio": {"array": Array(0.5)}, "bytes": b"RIFF"},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
        {"type": "text", "text": "What is this?"},
        "and this?",
    ]
    kept = [
        {"type": "image", "size": [2, 3]},
        {"type": "video", "fps": 2.0},
        {"type": "audio"},
        *parts[3:],
    ]
    messages: list[Any] = [{"role": "system", "content": "Look."}, {"role": "user", "content": parts}]
    shown = [messages[0], {"role": "user", "content": kept}]
    assert member(question=messages)["responses_create_params"]["input"] == shown
    assert member(answer=messages[1:])["response"]["output"][0]["content"][0] == {"type": "image", "size": [2, 3]}
    sent = json.loads(group_body(messages, [messages, "A"], None, 0, None))
    assert (sent["question"], sent["answers"]) == (shown, [shown, "A"])


def test_real_arrays() -> None:
    """A4: of numpy, where it is installed."""
    numpy = pytest.importorskip("numpy")
    sent = [numpy.arange(3), numpy.float32(0.5), numpy.array(2), numpy.bool_(True), numpy.array([[1.5]], "float16")]
    assert encoded(sent) == b"[[0,1,2],0.5,2,true,[[1.5]]]"


def test_real_tensors() -> None:
    """A4: of torch, where it is installed; 0-d, bfloat16 and with a gradient too."""
    torch = pytest.importorskip("torch")
    tensors = [torch.arange(3), torch.tensor(0.5, dtype=torch.bfloat16), torch.ones(1, requires_grad=True)]
    assert encoded(tensors) == b"[[0,1,2],0.5,[1.0]]"


def member(**changes: Any) -> dict[str, Any]:
    arguments = {
        "question": "q",
        "answer": "A",
        "group_id": "g",
        "size": 4,
        "slot": 1,
        "member_id": None,
        "attempt": 0,
        "principle": None,
    }
    return json.loads(member_body(*(arguments | changes).values()))


def test_coordinates_are_integers_whatever_they_came_as() -> None:
    """H10a, A4: `1.0` is no slot, so it must not be sent."""
    sent = member(size=Integer(4), slot=Integer(2), attempt=Integer(1))
    assert (sent["_ng_group_size"], sent["_ng_rollout_index"], sent["_ng_group_attempt"]) == (4, 2, 1)
    assert "principle" not in sent
    assert "_ng_member_id" not in sent


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"slot": 1.0}, TypeError, "slot must be an integer"),
        ({"slot": "1"}, TypeError, "slot must be an integer"),
        ({"slot": True}, TypeError, "slot must be an integer"),
        ({"size": 4.0}, TypeError, "size must be an integer"),
        ({"attempt": None}, TypeError, "attempt must be an integer"),
        ({"group_id": 7}, TypeError, "group_id must be a str"),
        ({"slot": None, "member_id": 7}, TypeError, "member_id must be a str"),
        ({"member_id": "m"}, ValueError, "not by both"),
        ({"slot": None}, ValueError, "slot .* member_id"),
        ({"answer": None}, TypeError, "answer must be a str, a list of messages"),
        ({"answer": 7}, TypeError, "answer must be a str, a list of messages"),
        ({"answer": b"A"}, TypeError, "answer must be a str, a list of messages"),
        ({"answer": ["A"]}, TypeError, "must hold messages"),
    ],
)
def test_what_names_no_member_is_an_error(changes: dict[str, Any], error: type[Exception], says: str) -> None:
    """A4: before anything is sent; the text says which argument."""
    with pytest.raises(error, match=says):
        member(**changes)


def test_a_whole_group_is_sent_in_plain_form() -> None:
    """A1, A4: the server reads the short forms itself."""
    sent = json.loads(group_body("q", ("A", {"output": []}), None, 0, None))
    assert sent == {"question": "q", "answers": ["A", {"output": []}], "attempt": 0}


@pytest.mark.parametrize("answers", ["abc", b"abc", {"output": []}, None, 3])
def test_one_answer_is_no_list_of_answers(answers: Any) -> None:
    """A4: the characters of a text, or the keys of an object, would be judged."""
    with pytest.raises(TypeError, match="answers must be a list with one answer for each member"):
        group_body("q", answers, None, 0, None)


def test_an_answer_that_is_none_is_named_by_its_place() -> None:
    """A4: whoever has no answer says what stands for it."""
    with pytest.raises(TypeError, match=r"answers\[1\] must be a str"):
        group_body("q", ["A", None], None, 0, None)  # type: ignore[list-item]
    assert json.loads(group_body("q", (text for text in "AB"), None, 0, None))["answers"] == ["A", "B"]  # type: ignore[arg-type]
    lone = member(slot=None, size=1)
    assert "_ng_rollout_index" not in lone
