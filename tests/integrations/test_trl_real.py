"""TRL itself: a tiny random model is trained a few steps, in one process and in two (A7).

`make test-integrations` runs these; they are skipped where TRL is not installed.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT, SRC, Server

from groupjudge.integrations.trl import GroupReward

from .conftest import REFUSED

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: make test-integrations")

WORKER = Path(__file__).parent / "trl_worker.py"
BOUND_S = 240


async def run(*arguments: str) -> str:
    """A process that trains; what it printed."""
    env = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), BOUND_S)
    finally:
        if process.returncode is None:
            process.terminate()
    assert process.returncode == 0, said.decode()[-5000:]
    return said.decode()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl") / "model"
    asyncio.run(run(str(WORKER), "model", str(folder)))
    return folder


def batches(logs: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """The rows of each batch, with its mode."""
    ends = [0]
    for batch in logs["batches"]:
        ends.append(ends[-1] + batch["size"])
    assert ends[-1] == len(logs["rows"])
    return [(batch["mode"], logs["rows"][a:b]) for batch, (a, b) in zip(logs["batches"], pairwise(ends), strict=True)]


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_model_is_trained_on_the_rewards_of_its_groups(
    processes: int, model: Path, server: Server, tmp_path: Path
) -> None:
    """A7: the trainer's own log shows that every answer got its reward of its own group, in training and in evaluation,
    and that an answer without one (A5) has no advantage. With two processes the middle group of each batch sits in
    both."""
    (tmp_path / "model").symlink_to(model)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    said = await run(*launch, str(WORKER), server.address, str(tmp_path), str(processes))
    logs = json.loads((tmp_path / "logs.json").read_text())
    modes = [mode for mode, _ in batches(logs)]
    assert modes == ["train", "eval", "train", "eval"]
    refused = 0
    for mode, rows in batches(logs):
        size = {"train": 4, "eval": 2}[mode]
        for at in range(0, len(rows), size):
            prompts, completions, rewards, advantages = zip(*rows[at : at + size], strict=True)
            assert len(set(prompts)) == 1
            if REFUSED in prompts[0]:
                refused += 1
                assert (rewards, advantages) == ((None,) * size, (0.0,) * size)
            else:
                shown = [text or "None" for text in completions]  # how the judge is shown an empty answer
                assert rewards == pytest.approx(rewards_of(prompts[0], shown))
                assert math.fsum(advantages) == pytest.approx(0, abs=1e-3)
    assert refused
    assert said.count("has no rewards: its answers are left out") >= 1
    assert [line for line in logs["history"] if "groupjudge/left_out" in line]


async def test_the_example_trains(model: Path, server: Server, tmp_path: Path) -> None:
    """A13: as its page says to run it."""
    await run(
        *(str(ROOT / "examples" / "trl_grpo.py"), "--cpu", "--model", str(model), "--server", server.address),
        *("--steps", "2", "--out", str(tmp_path / "out")),
    )
    assert [row for row in await server.client.groups() if row["id"].startswith("trl-")]


@pytest.mark.filterwarnings("ignore::Warning")
async def test_the_asynchronous_trainer_scores_its_groups(server: Server) -> None:
    """A7, A5: the code of its rollout process that calls reward functions; the function goes there pickled. Its
    conversations hold tool calls; a group without rewards has no advantages."""
    from accelerate import PartialState
    from trl.experimental.async_grpo import async_rollout_worker as there

    PartialState(cpu=True)
    loop = object.__new__(there._AsyncRolloutLoop)
    vars(loop).update(
        reward_funcs=[pickle.loads(pickle.dumps(GroupReward(server.address, whole_groups=True)))],
        reward_func_names=["groupjudge"],
        _env_reward_types=[],
        _provides_rollout_reward=False,
    )
    call = {"type": "function", "function": {"name": "look", "arguments": {"where": "up"}}}
    looked = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "look", "content": "x"},
    ]
    texts = ["blue", "it is wide", "why"]
    row = there.TrainingSequence(input_ids=[1], completion_mask=[1], old_log_probs=[0.0], rollout_id=0)
    for prompt, rewards in (("why blue", rewards_of("why blue", texts)), (REFUSED, [math.nan] * 3)):
        known = {
            "prompts": [[{"role": "user", "content": prompt}]] * 3,
            "reward_kwargs": {"answer": ["blue"] * 3},
            "completions": [[*looked, {"role": "assistant", "content": text}] for text in texts],
            "completions_ids": [[1]] * 3,
            "completions_sequences": [[row]] * 3,
            "env_rewards": [None] * 3,
            "rollout_rewards": [None] * 3,
        }
        group = there.RolloutGroup(
            **known, tool_call_counts=[1] * 3, tool_failure_counts=[0] * 3, model_version=0, group_id=0
        )
        samples = await loop._score_group(group)
        assert [sample.metrics["reward"] for sample in samples] == pytest.approx(rewards, nan_ok=True)
        moved = [sample.advantage for sample in samples]
        assert math.fsum(moved) == pytest.approx(0, abs=1e-6)
        assert any(moved) == (prompt != REFUSED)
