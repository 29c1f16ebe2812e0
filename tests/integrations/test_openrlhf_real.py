"""OpenRLHF's own code that calls reward functions and reward servers (A9); models and Ray are not started.

`make test-integrations` runs these; they are skipped where OpenRLHF is not installed.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT, Server

from .test_openrlhf import http_form

SPEC = find_spec("openrlhf")
SAMPLES = 2
PROMPTS = [f"question {number}" for number in range(40)]
"""So many that half of their answers take all threads that a loop has by default."""

pytestmark = pytest.mark.skipif(SPEC is None, reason="OpenRLHF is not installed: make test-integrations")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`openrlhf.utils.agent`, without what its packages import along (torch, deepspeed)."""
    assert SPEC is not None
    assert SPEC.submodule_search_locations
    folder = Path(SPEC.submodule_search_locations[0])
    for name, path in (("openrlhf", folder), ("openrlhf.utils", folder / "utils")):
        package = ModuleType(name)
        package.__path__ = [str(path)]
        monkeypatch.setitem(sys.modules, name, package)
    return import_module("openrlhf.utils.agent")


class Ids(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


class Tokenizer:
    """A character is a token."""

    def __call__(self, text: str, **_: object) -> dict[str, Any]:
        return {"input_ids": [Ids(map(ord, text))]}

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Says one thing after the other; the first answers to all prompts come before any second one."""

    def __init__(self) -> None:
        self.answered: dict[str, int] = {}
        self.all_have_one = asyncio.Event()

    async def generate(self, ids: list[int], *_: object, **__: object) -> SimpleNamespace:
        prompt = "".join(map(chr, ids))
        number = self.answered[prompt] = self.answered.get(prompt, -1) + 1
        if len(self.answered) == len(PROMPTS):
            self.all_have_one.set()
        if number:
            await self.all_have_one.wait()
        text = f" answer {number}"
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=list(map(ord, text)), finish_reason="stop", logprobs=None, text=text)]
        )


async def generated(agent: ModuleType, endpoint: str, longest: int = 1024) -> dict[str, list[dict[str, Any]]]:
    """The samples of all prompts, as the engine's actor makes them."""
    executor, engine = agent.SingleTurnAgentExecutor([endpoint]), Engine()
    parameters = SimpleNamespace(max_tokens=32, logprobs=None)

    async def sample(prompt: str) -> dict[str, Any]:
        return await executor.execute(prompt, "label", parameters, longest, Tokenizer(), engine)

    made = await asyncio.gather(*(sample(prompt) for prompt in PROMPTS for _ in range(SAMPLES)))
    return {prompt: [one for one in made if one["prompt"] == prompt] for prompt in PROMPTS}


def check(samples: dict[str, list[dict[str, Any]]]) -> None:
    """Each sample has the reward of its own answer, whichever of the two came first."""
    for prompt, made in samples.items():
        texts = [Tokenizer().decode(one["observation_tokens"])[one["action_ranges"][0][0] :] for one in made]
        assert sorted(texts) == [" answer 0", " answer 1"]
        orders = [rewards_of(prompt, texts), rewards_of(prompt, texts[::-1])[::-1]]
        assert [one["reward"][0] for one in made] in orders
        assert [one["scores"] for one in made] == [one["reward"] for one in made]
        assert [one["extra_logs"] for one in made] == [{"groupjudge_left_out": [0.0]}] * SAMPLES


async def test_the_example_file_gives_rewards(
    agent: ModuleType, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9, A13: loaded and called as OpenRLHF does, in an event loop of its own."""
    monkeypatch.setenv("REWARD_SERVER", server.address)
    monkeypatch.setenv("SAMPLES", str(SAMPLES))
    endpoint = str(ROOT / "examples" / "openrlhf_reward.py")
    check(await asyncio.to_thread(asyncio.run, generated(agent, endpoint)))


async def test_prompts_that_are_cut_off_have_rewards(
    agent: ModuleType, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9: OpenRLHF cuts off the beginning of a prompt that leaves no room for an answer."""
    monkeypatch.setenv("REWARD_SERVER", server.address)
    monkeypatch.setenv("SAMPLES", str(SAMPLES))
    monkeypatch.setattr(
        sys.modules[__name__], "PROMPTS", [f"why ever is it so, number {number}?" for number in range(3)]
    )
    endpoint = str(ROOT / "examples" / "openrlhf_reward.py")
    check(await asyncio.to_thread(asyncio.run, generated(agent, endpoint, longest=32 + 20)))


async def test_the_http_form_gives_rewards(agent: ModuleType, server: Server) -> None:
    """A9."""
    async with http_form(server.address, SAMPLES) as client:
        check(await generated(agent, f"http://127.0.0.1:{client.port}/"))
