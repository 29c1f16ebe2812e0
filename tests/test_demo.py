"""The demo (H13): its tasks file, and the whole of it against a judge over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.support.judges import StubJudge, chat, verdict_text

from groupjudge.demo import TASKS, Task, read_tasks
from groupjudge.errors import ConfigurationError


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_tasks_come_from_a_file(tmp_path: Path) -> None:
    """Each line is a question with its answers; empty lines count for nothing."""
    row = json.dumps({"question": "Why?", "answers": ["so", "thus"]})
    assert read_tasks(write(tmp_path / "tasks", row, "", row)) == (Task("Why?", ("so", "thus")),) * 2


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"question": "Why?"}',
        '{"question": "Why?", "answers": ["one"]}',
        '{"answers": ["a", "b"]}',
        "[" * 9999,
    ],
)
def test_a_bad_tasks_line_is_named(tmp_path: Path, line: str) -> None:
    """H13: the file, the line and what to write instead."""
    good = json.dumps({"question": "Why?", "answers": ["so", "thus"]})
    with pytest.raises(ConfigurationError, match="line 2"):
        read_tasks(write(tmp_path / "tasks", good, line))


def test_a_tasks_file_that_is_empty_or_missing_is_named(tmp_path: Path) -> None:
    """H13: one line a person can act on."""
    with pytest.raises(ConfigurationError, match="holds no task"):
        read_tasks(write(tmp_path / "tasks", ""))
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_tasks(tmp_path / "missing")


async def test_the_demo_plays_to_its_end(tmp_path: Path) -> None:
    """The whole demo as a process: every pair is judged once though a caller is dropped and comes back, an exact retry
    costs no call, every answer is in the table with its reward, and the last line serves a real judge."""
    async with StubJudge(otherwise=chat(verdict_text(4, 2, 2))) as judge:
        options = ("judge.format=genrm", f"judge.base_url={judge.base_url}")
        sets = [word for option in options for word in ("--set", option)]
        command = (sys.executable, "-m", "groupjudge", "demo", *sets)
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1, env={"COLUMNS": "150"})
        out, err = (text.decode() for text in await process.communicate())
        assert process.returncode == 0, err
        posted = [request for request in judge.received if request.method == "POST"]
    assert len(posted) == sum(len(task.answers) for task in TASKS)
    assert all(task.question in out for task in TASKS)
    assert out.count("3.00") == sum(len(task.answers) for task in TASKS) + 1
    assert "without a judge call" in " ".join(out.split())
    assert "groupjudge serve --set judge.base_url=" in out
