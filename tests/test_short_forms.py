"""Short forms of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from groupjudge.answers import judge
from groupjudge.client import plain
from groupjudge.short_forms import of_messages, of_text

SAID = {"type": "output_text", "text": "4"}
ANSWER = {"type": "message", "role": "assistant", "content": [SAID]}


def test_a_text_is_what_the_assistant_said() -> None:
    """J5."""
    assert of_text("4") == {"output": [ANSWER]}


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ({"role": "assistant", "content": "4"}, [ANSWER]),
        ({"content": "4"}, [ANSWER]),
        ({"role": "assistant", "content": [{"type": "text", "text": "4"}, {"type": "refusal"}], "id": "m"},
         [{**ANSWER, "content": [SAID, {"type": "refusal"}], "id": "m"}]),
        ({"role": "tool", "content": "5"}, [{"type": "message", "role": "tool",
                                            "content": [{"type": "input_text", "text": "5"}]}]),
        ({"role": "assistant", "content": "4", "reasoning_content": "2 + 2"},
         [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "2 + 2"}]},
          {**ANSWER, "reasoning_content": "2 + 2"}]),
        ({"role": "assistant", "content": "4", "reasoning_content": ""}, [{**ANSWER, "reasoning_content": ""}]),
        ({"role": "assistant"}, [{**ANSWER, "content": []}]),
        ({"type": "function_call", "name": "f"}, [{"type": "function_call", "name": "f"}]),
    ],
)  # fmt: skip
def test_a_message_is_an_item_of_the_output(message: dict[str, Any], items: list[dict[str, Any]]) -> None:
    """J5, J11: only what the assistant said is the answer's text; what it thought stands beside."""
    assert of_messages([message]) == {"output": items}


@pytest.mark.parametrize("answer", ["4", [{"role": "assistant", "content": "4"}], {"output": [], "n": 1}], ids=str)
def test_server_and_client_take_an_answer_for_the_same(answer: Any) -> None:
    """L6: a member is the same whichever way it came."""
    assert judge.response(answer) == plain.response(answer)
