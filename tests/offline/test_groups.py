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
    rows = [rollout(slot, f"{task}/{slot}", task) for task in (5, 6) for slot in (2, 0, 1)]
    whole, partial = groups(rows[0], rows[2], *rows[3:], size=3)
    assert isinstance(partial, FileGroup)
    assert isinstance(whole, FileGroup)
    assert (whole.id, partial.id, partial.slots) == ("task:6", "task:5", (1, 2))


@pytest.mark.parametrize("name", [{}, {"_ng_group_id": "G"}])
def test_a_lone_member_of_a_larger_group_is_a_bad_line(name: dict[str, str]) -> None:
    """H14: there is nothing to compare it with, so it has no reward. A group of one is whole."""
    (bad,) = groups(rollout(1, "alone", **name), size=4)
    assert isinstance(bad, BadLine)
    assert bad.line == 1
    assert "1 of 4 members" in bad.reason
    (group,) = groups(rollout(0, "one", **name), size=1)
    assert isinstance(group, FileGroup)


@pytest.mark.parametrize("text", ["1", "other"])
def test_a_row_that_comes_after_its_group_is_a_bad_line(text: str) -> None:
    """H14: it is in no second group, the same answer or another. Another attempt is another group."""
    rows = [rollout(slot, str(slot), _ng_group_id="G") for slot in range(4)]
    late = rollout(1, text, _ng_group_id="G")
    group, bad, *others = groups(*rows, late, *(row | {"_ng_group_attempt": 1} for row in rows), size=4)
    assert isinstance(group, FileGroup)
    assert isinstance(bad, BadLine)
    assert bad.line == 5
    assert "'G'" in bad.reason
    assert "earlier lines" in bad.reason
    assert [(each.lines, each.attempt) for each in others if isinstance(each, FileGroup)] == [((6, 7, 8, 9), 1)]
    assert len(others) == 1


def test_a_task_may_come_again_as_another_group() -> None:
    """H14: a task index says nothing of the epoch, so a second full group is a group of its own."""
    rows = [rollout(slot, str(slot)) for slot in range(2)]
    assert [each.lines for each in groups(*rows, *rows) if isinstance(each, FileGroup)] == [(1, 2), (3, 4)]


def test_attempts_are_told_apart() -> None:
    """H14: two attempts of one id are two groups, and each knows which it is; a group on one line has none."""
    rows = [rollout(slot, "a", _ng_group_id="G", _ng_group_attempt=attempt) for attempt in (0, 3) for slot in (0, 1)]
    found = groups(*rows, {"question": "?", "answers": ["a"]})
    assert [each.attempt for each in found if isinstance(each, FileGroup)] == [0, 3, None]


def test_a_member_id_takes_one_slot() -> None:
    """A3, H14: a repeated row of a member without a slot is that member still, and no slot is given twice."""
    named = [rollout(0, text, _ng_group_id="G", _ng_member_id=text) for text in ("a", "a", "b")]
    for row in named:
        del row["_ng_rollout_index"]
    (group,) = groups(rollout(1, "c", _ng_group_id="G"), *named, size=3)
    assert isinstance(group, FileGroup)
    assert [text.answer for text in group.texts] == ["a", "c", "b"]
    (bad,) = groups(named[0], named[1])
    assert isinstance(bad, BadLine)


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    """H14: as some editors write it; elsewhere it makes a line bad."""
    row = b'{"question": "?", "answers": ["a"]}'
    mark = "\ufeff".encode()
    first, second = groups(mark + row, mark + row)
    assert isinstance(first, FileGroup)
    assert isinstance(second, BadLine)
    assert groups(mark) == []


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
