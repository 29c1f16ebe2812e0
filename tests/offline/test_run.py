"""Which groups are begun, and when no further one is (H14)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from groupjudge.errors import JudgeFailed
from groupjudge.model import AnswerTexts, Judgement, Message, Topic
from groupjudge.offline.groups import FileGroup
from groupjudge.offline.results import Output, read_rows
from groupjudge.offline.run import judge_all
from groupjudge.offline.tally import Tally


@pytest.mark.parametrize(
    ("ends", "give_up_after", "asked"),
    [
        ("xxxxx", 3, 3),
        ("xx.xx.xxx.", 3, 9),
        ("xx.xx.xx.", 3, 9),
        ("xxx", 3, 3),
        ("xxxxx", 1, 1),
        ("xxxxx", 0, 5),
    ],
)
async def test_no_group_is_begun_after_so_many_failures_in_a_row(
    tmp_path: Path, ends: str, give_up_after: int, asked: int
) -> None:
    """H14: `x` is a group that fails, `.` one that does not; a success in between starts the count again."""
    calls: list[str] = []

    async def judge(topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        calls.append(topic.conversation[0].content)
        if calls[-1] == "x":
            raise JudgeFailed("down", "down")
        return Judgement((1.0,), (), None)

    groups = [
        FileGroup((line,), None, Topic((Message("user", end),)), (AnswerTexts("a", ""),), (0,))
        for line, end in enumerate(ends, 1)
    ]
    told: list[Tally] = []
    with Output(tmp_path / "out") as output:
        tally = await judge_all(
            groups, output, judge, lambda tally, _: told.append(tally), give_up_after=give_up_after, at_once=1
        )
    assert "".join(calls) == ends[:asked]
    assert tally.gave_up == (asked < len(ends))
    assert (tally.judged, tally.failures.count) == (calls.count("."), calls.count("x"))
    assert len(told) == tally.done
    assert [row["line"] for row in read_rows(tmp_path / "out")] == [n for n, end in enumerate(calls, 1) if end == "."]
