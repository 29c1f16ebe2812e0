"""Groups out of files (H14)."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from groupjudge.answers.texts import EMPTY
from groupjudge.model import Message
from groupjudge.offline.groups import BadLine, FileGroup, read_groups, written


def groups(*rows: object, size: int = 2) -> list[FileGroup | BadLine]:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return list(read_groups(lines, size, 16))


def rollout(slot: int, text: str, task: int = 0, **fields: object) -> dict[str, object]:
    content = [{"type": "output_text", "text": text}]
    return {
        "responses_create_params": {"input": f"question {task}"},
        "response": {"output": [{"type": "message", "content": content}]},
        "_ng_task_index": task,
        "_ng_rollout_index": slot,
        **fields,
    }


def test_a_line_is_a_group_of_strings_or_responses() -> None:
    """H14: question as a string or messages, answers as strings or Responses objects, id and principle where given."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    answers = ["4", " ", rollout(0, "five")["response"]]
    (group,) = groups({"question": messages, "answers": answers, "id": 7, "principle": "be right"})
    assert isinstance(group, FileGroup)
    assert group.topic == ((Message("system", "Be brief."), Message("user", "2+2?")), "be right")
    assert [texts.answer for texts in group.texts] == ["4", EMPTY, "five"]
    assert (group.id, group.line, group.slots) == ("7", 1, (0, 1, 2))


@pytest.mark.parametrize(
    "row",
    [
        b"nonsense",
        b"[1]",
        b'{"question": "?", "answers": ["a", "b"]',
        {"answers": ["a"]},
        {"question": "?", "answers": []},
        {"question": "?", "answers": "a"},
        {"question": "?", "answers": ["a", 3]},
        {"question": "?", "answers": ["a"] * 17},
        {"question": 3, "answers": ["a"]},
        {"question": "?", "answers": ["a"], "id": True},
        {"question": "?", "answers": ["a"], "principle": 3},
        {"responses_create_params": {"input": "?"}, "response": {}},
    ],
)
def test_a_bad_line_is_named_and_stops_nothing(row: object) -> None:
    """H14: a bad line is reported with its number, the others are read."""
    good = {"question": "?", "answers": ["a"]}
    bad, group = groups(row, b"", good)
    assert isinstance(bad, BadLine)
    assert bad.line == 1
    assert bad.reason
    assert isinstance(group, FileGroup)
    assert group.line == 3


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_rows_of_a_rollouts_file_are_grouped_in_any_order(order: tuple[int, ...]) -> None:
    """H14: rows are put together by their coordinates, and a group comes in slot order once it is whole."""
    rows = [rollout(slot, f"{task}/{slot}", task) for task in (0, 1) for slot in (0, 1)]
    found = groups(*(rows[i] for i in order))
    texts = {group.id: [text.answer for text in group.texts] for group in found if isinstance(group, FileGroup)}
    assert texts == {"task:0": ["0/0", "0/1"], "task:1": ["1/0", "1/1"]}
    first_lines = {group.line for group in found if isinstance(group, FileGroup)}
    assert first_lines == {order.index(min(i, j, key=order.index)) + 1 for i, j in ((0, 1), (2, 3))}


def test_groups_that_stay_incomplete_come_at_the_end() -> None:
    """H14: a rollouts group of which rows are missing is judged with those that are there."""
    whole, partial = groups(rollout(1, "b", task=5), rollout(0, "x", task=6), rollout(1, "y", task=6))
    assert isinstance(partial, FileGroup)
    assert isinstance(whole, FileGroup)
    assert (whole.id, partial.id, partial.slots) == ("task:6", "task:5", (1,))


def test_rows_that_do_not_fit_their_group_are_bad_lines() -> None:
    """H14: another answer in a taken slot, another size: reported; the very same row again is no fault."""
    rows = [rollout(0, "a"), rollout(0, "other"), rollout(0, "a"), rollout(1, "b", _ng_group_size=3), rollout(1, "b")]
    found = groups(*rows)
    assert [each.line for each in found if isinstance(each, BadLine)] == [2, 4]
    assert [each.slots for each in found if isinstance(each, FileGroup)] == [(0, 1)]


def test_groups_come_one_by_one() -> None:
    """H14: a file is streamed: the first group is there before the second line is read."""

    def lines() -> object:
        yield b'{"question": "?", "answers": ["a"]}'
        raise AssertionError("the second line was read too early")

    assert isinstance(next(read_groups(lines(), 2, 16)), FileGroup)  # type: ignore[arg-type]


def test_a_message_says_once_where_a_line_is_broken() -> None:
    """H14: the byte stands in the message, and not before it again."""
    (bad,) = groups(b'{"question": "?", "answers": ["a"')
    assert isinstance(bad, BadLine)
    assert bad.reason == "malformed JSON at byte 33: the body ends before its JSON is complete"


def test_an_empty_answer_is_told_from_one_that_reads_like_its_stand_in() -> None:
    """J5: the judge is shown the same; what is written elsewhere is what the author wrote."""
    (group,) = groups({"question": "?", "answers": ["", " \n", EMPTY, {"output": []}, rollout(0, EMPTY)["response"]]})
    assert isinstance(group, FileGroup)
    assert [text.answer for text in group.texts] == [EMPTY] * 5
    assert [written(text) for text in group.texts] == ["", "", EMPTY, "", EMPTY]
