"""verl itself: its configuration finds the manager, its batches go in, its reward tensor comes out (A8).

No model is run. `make test-integrations` runs these; they are skipped where verl is not installed.
"""

from __future__ import annotations

import asyncio
import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT

from .conftest import REFUSED
from .test_verl import TEXTS

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed: make test-integrations")


class Tokenizer:
    def decode(self, ids: Any, **_: object) -> str:
        return "".join(map(chr, ids.tolist()))


def settings(address: str) -> Any:
    """verl's configuration, with what the example sets on its command line."""
    from hydra import compose, initialize_config_module

    script = (ROOT / "examples" / "verl_grpo.sh").read_text("utf-8")
    pairs = dict(re.findall(r'^    ([+\w][\w.+]*)="?(?:\$\{\w+:-)?([^\s"}]+)\}?"? \\$', script, re.MULTILINE))
    assert "+reward.reward_kwargs.groupjudge.base_url" in pairs
    pairs |= {"+reward.reward_kwargs.groupjudge.base_url": address, "actor_rollout_ref.rollout.n": "3"}
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [f"{key}={value}" for key, value in pairs.items()])


def batch(uid: str, prompt: str) -> Any:
    """The samples of one group, padded as verl pads them."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    longest = max(map(len, TEXTS))
    responses = torch.tensor([[*map(ord, text), *[0] * (longest - len(text))] for text in TEXTS])
    prompts = torch.ones((3, 4), dtype=torch.int64)
    mask = torch.cat([torch.ones_like(prompts), (responses != 0).long()], dim=1)
    messages = np.empty(3, dtype=object)
    messages[:] = [[{"role": "user", "content": prompt}]] * 3
    return DataProto(
        batch=TensorDict({"prompts": prompts, "responses": responses, "attention_mask": mask}, batch_size=3),
        non_tensor_batch={
            "uid": np.array([uid] * 3, dtype=object),
            "session_id": np.array([0, 1, 2]),
            "raw_prompt": messages,
        },
    )


async def scored(address: str, uid: str, prompt: str) -> tuple[Any, list[dict[str, Any]], Any]:
    from verl.trainer.ppo.reward import load_reward_manager

    manager = load_reward_manager(
        settings(address), Tokenizer(), reward_router_address=None, reward_model_tokenizer=None
    )
    data = batch(uid, prompt)
    said = await asyncio.gather(*(manager.run_single(data[place : place + 1]) for place in range(3)))
    return data, said, type(manager).assemble_rm_scores(data, [one["reward_score"] for one in said])


async def test_the_configured_manager_scores_a_batch(address: str) -> None:
    """A8: the reward stands at the last token of each response."""
    data, said, tensor = await scored(address, "real", "q")
    own = rewards_of("q", TEXTS)
    assert [one["reward_score"] for one in said] == own
    for line, text, reward in zip(tensor.tolist(), TEXTS, own, strict=True):
        assert line[len(text) - 1] == pytest.approx(reward)
        assert sum(line) == pytest.approx(reward)
    assert len(data) == 3


def scored_on_ray(address: str, model: Path) -> list[float]:
    """The rewards of a group from verl's own workers, which are processes of Ray."""
    import ray
    from omegaconf import open_dict
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast
    from verl.experimental.reward_loop import RewardLoopManager

    characters = Tokenizer(models.WordLevel({chr(code): code for code in range(128)}, unk_token="?"))
    characters.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=characters).save_pretrained(model)
    config = settings(address)
    with open_dict(config):
        config.actor_rollout_ref.model.path = config.actor_rollout_ref.model.tokenizer_path = str(model)
        config.reward.num_workers = 2
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        scores = RewardLoopManager(config).compute_rm_score(batch("ray", "q")).batch["rm_scores"]
    finally:
        ray.shutdown()
    return scores.sum(dim=1).tolist()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_group_meets_though_two_processes_of_ray_score_it(address: str, tmp_path: Path) -> None:
    """A8: three samples for two workers; verl pads them with one more, which is an exact duplicate."""
    assert await asyncio.to_thread(scored_on_ray, address, tmp_path) == pytest.approx(rewards_of("q", TEXTS))


async def test_a_sample_of_several_sequences_is_judged_by_its_last(address: str) -> None:
    """A8: as verl's agent loops hand it over: each part is padded to its longest, whatever the lengths are."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput, AgentLoopWorker
    from verl.trainer.ppo.reward import load_reward_manager

    judged = load_reward_manager(
        settings(address), Tokenizer(), reward_router_address=None, reward_model_tokenizer=None
    )
    worker = object.__new__(AgentLoopWorker)
    handle = SimpleNamespace(compute_score=SimpleNamespace(remote=judged.run_single))
    vars(worker).update(
        reward_loop_worker_handles=[handle],
        _compute_multi_modal_inputs=lambda output, ids: {},
        _compute_position_ids=lambda ids, mask, inputs, options: ids,
        _get_mm_processor_kwargs=lambda audios: {},
    )

    def output(prompt: int, response: str) -> Any:
        ids = [*map(ord, response)]
        return AgentLoopOutput(
            prompt_ids=[1] * prompt, response_ids=ids, response_mask=[1] * len(ids), metrics=AgentLoopMetrics()
        )

    samples = [[output(9, "an earlier part"), output(2 + slot, text)] for slot, text in enumerate(TEXTS)]
    own = {"uid": "several", "raw_prompt": [{"role": "user", "content": "q"}], "extra_info": {"index": 0}}
    await asyncio.gather(
        *(worker._compute_score(outputs, {**own, "session_id": slot}) for slot, outputs in enumerate(samples))
    )
    assert [outputs[-1].reward_score for outputs in samples] == rewards_of("q", TEXTS)


async def test_a_group_without_rewards_moves_nothing(address: str) -> None:
    """A5, A8: verl's own GRPO makes an advantage of zero of it."""
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    data, said, tensor = await scored(address, "real-bad", f"one that {REFUSED}")
    assert [one["reward_extra_info"] for one in said] == [{"groupjudge_left_out": 1.0}] * 3
    mask = data.batch["attention_mask"][:, 4:]
    advantages, _ = compute_grpo_outcome_advantage(
        token_level_rewards=tensor, response_mask=mask, index=data.non_tensor_batch["uid"], config=None
    )
    assert advantages.abs().max().item() == 0.0
