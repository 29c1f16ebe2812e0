"""The group reward for slime and miles, on samples that look like theirs (A5, A10)."""

from __future__ import annotations

import asyncio
import logging
import os
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT

from groupjudge import DeadlinePassed
from groupjudge.integrations import slime

from .conftest import REFUSED

TEXTS = ["one", "two", "three"]


def sample(text: str, prompt: object = "q", status: str = "completed") -> SimpleNamespace:
    return SimpleNamespace(prompt=prompt, response=text, status=SimpleNamespace(value=status), remove_sample=False)


def options(address: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(groupjudge_url=address, **more)


async def test_a_group_gets_its_rewards_in_order(address: str) -> None:
    """A10: prompts are texts or messages."""
    for prompt in ("q", [{"role": "user", "content": "q"}]):
        samples = [sample(text, prompt) for text in TEXTS]
        assert await slime.reward(options(address), samples, evaluation=False) == rewards_of("q", TEXTS)
        assert [one.remove_sample for one in samples] == [False] * 3


async def test_a_group_without_rewards_is_removed(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5, A10: `remove_sample` leaves a sample out; the rewards are equal, so none has an advantage."""
    monkeypatch.setattr(slime, "_warned", [])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            samples = [sample(text, f"one that {REFUSED}") for text in TEXTS]
            assert await slime.reward(options(address), samples) == [0.0] * 3
            assert [one.remove_sample for one in samples] == [True] * 3
    assert len([record for record in caplog.records if record.name == "groupjudge.integrations.slime"]) == 1


@pytest.mark.parametrize("status", ["aborted", "failed", "pending"])
async def test_an_unfinished_sample_is_not_judged(address: str, status: str) -> None:
    """A5, A10: it is removed, gets the mean of the others, and no other reward depends on it."""
    samples = [sample("one"), sample("tw", status=status), sample("two"), sample("three", status="truncated")]
    own = rewards_of("q", TEXTS)
    assert await slime.reward(options(address), samples) == [own[0], sum(own) / 3, own[1], own[2]]
    assert [one.remove_sample for one in samples] == [False, True, False, False]
    assert await slime.reward(options(address), [sample("", status=status)]) == [0.0]


async def test_the_server_may_be_named_by_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A10: where the trainer's own configuration does not."""
    monkeypatch.setenv("REWARD_SERVER", address)
    assert await slime.reward(SimpleNamespace(), [sample(text) for text in TEXTS]) == rewards_of("q", TEXTS)


async def test_a_server_that_is_not_there_stops_the_training() -> None:
    """A5: only a judge or a group that failed leaves samples out."""
    samples = [sample("a"), sample("b")]
    with pytest.raises(DeadlinePassed):
        await slime.reward(options("http://127.0.0.1:9", groupjudge_deadline_s=0.3), samples)
    assert [one.remove_sample for one in samples] == [False, False]


async def test_the_example_names_the_server_and_the_function(tmp_path: Path) -> None:
    """A13: its own command comes behind it; here one that shows what it was given."""
    command = tmp_path / "train.py"
    command.write_text("import sys; print(sys.argv[1:-1]); print(open(sys.argv[-1]).read())")
    process = await asyncio.create_subprocess_exec(
        *("bash", str(ROOT / "examples" / "slime_group_rm.sh"), str(command), "--n-samples-per-prompt", "8"),
        env={**os.environ, "REWARD_SERVER": "http://judges:8600", "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    given, settings = said.decode().split("\n", 1)
    function = "groupjudge.integrations.slime.reward"
    assert literal_eval(given) == [
        *("--n-samples-per-prompt", "8", "--group-rm", "--custom-rm-path", function, "--custom-config-path")
    ]
    assert settings.strip() == "groupjudge_url: http://judges:8600"


@pytest.mark.parametrize("statuses", [["completed"], ["completed", "aborted", "aborted", "failed"]])
async def test_a_sample_that_is_alone_is_removed(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, statuses: list[str]
) -> None:
    """A5, L9: the default score of a group of one is no judgement."""
    monkeypatch.setattr(slime, "_warned", [])
    samples = [sample("one", status=status) for status in statuses]
    assert await slime.reward(options(address), samples) == [0.0] * len(samples)
    assert all(one.remove_sample for one in samples)
    assert "only one sample" in caplog.text


async def test_samples_with_different_prompts_are_refused(address: str) -> None:
    """A10: nothing is judged against answers to another question, finished or not."""
    for status in ("completed", "aborted"):
        samples = [sample("one"), sample("two"), sample("three", "another", status)]
        with pytest.raises(ValueError, match="different prompts"):
            await slime.reward(options(address), samples)


async def test_a_response_that_is_none_is_an_empty_answer(address: str) -> None:
    """A10."""
    samples = [sample("one"), sample("")]
    expected = await slime.reward(options(address), samples)
    samples[1].response = None
    assert await slime.reward(options(address), samples) == expected


async def test_an_answer_in_several_samples_is_named(address: str) -> None:
    """A10: a generate function may make a list of one; the trainer then fails as it sets the list's reward."""
    with pytest.raises(ValueError, match="list of samples"):
        await slime.reward(options(address), [sample("one"), [sample("tw"), sample("two")]])


@pytest.mark.parametrize("handed_over", [sample("one"), [sample("one"), sample("its second part")]])
async def test_without_group_rm_nothing_is_compared(address: str, handed_over: Any) -> None:
    """A10: the trainer then hands over one answer, maybe in several samples."""
    with pytest.raises(ValueError, match="--group-rm is missing"):
        await slime.reward(options(address, group_rm=False), handed_over)
