"""What a type checker knows of the client (A4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

import groupjudge

USER = """
from typing import assert_type
from groupjudge import AsyncClient, Client, GroupFailed, Judged, JudgeFailure, Outcome, Refusal, Rewarded, Submission

client, other = Client(), AsyncClient("http://judge:8600", token="t", deadline_s=5)
outcome = client.verify("q", "A", group_id="g", size=2, slot=0)
assert_type(outcome, Rewarded | JudgeFailure)
assert_type(outcome.reward, float | None)
if isinstance(outcome, Rewarded):
    assert_type(outcome.reward, float)
messages = [{"role": "user", "content": "q"}]
judged = client.judge(messages, ["A", [{"role": "assistant", "content": "B"}], {"output": []}])
assert_type(judged, Judged)
assert_type(judged.rewards, list[float | None])


async def all_of_it() -> Outcome:
    submission = await other.submit("q", "A", group_id="g", member_id="m", size=2)
    assert_type(submission, Submission)
    try:
        return await other.result(submission, deadline_s=1)
    except (Refusal, GroupFailed) as error:
        assert_type(error.code, str)
        raise
"""


def test_a_user_is_told_the_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4: also through the names of the package's face, which are imported late."""
    (tmp_path / "user.py").write_text(USER)
    source = Path(groupjudge.__file__).parents[1]
    monkeypatch.setenv("MYPYPATH", str(source))
    settings = ["--strict", "--config-file", "", "--cache-dir", str(source.parent / ".pytest_cache" / "types")]
    told, complaints, status = api.run([*settings, "--no-error-summary", str(tmp_path / "user.py")])
    assert (told, complaints, status) == ("", "", 0)
