"""miles' own samples and its own code that calls group rewards (A10); models and Ray are not started.

`make test-integrations` runs these; they are skipped where miles is not installed. slime itself is on no registry.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of

from .conftest import REFUSED
from .test_slime import TEXTS

pytestmark = pytest.mark.skipif(find_spec("miles") is None, reason="miles is not installed: make test-integrations")


async def scored(address: str, prompt: str) -> list[Any]:
    """A group as the rollout leaves it, after miles has asked for its rewards."""
    from miles.rollout.rm_hub import batched_async_rm
    from miles.utils.types import Sample

    arguments = SimpleNamespace(custom_rm_path="groupjudge.integrations.slime.reward", groupjudge_url=address)
    status = Sample.Status
    samples = [
        Sample(group_index=0, index=place, prompt=prompt, response=text, status=status.COMPLETED)
        for place, text in enumerate(TEXTS)
    ]
    samples.insert(1, Sample(group_index=0, index=3, prompt=prompt, response="unfini", status=status.ABORTED))
    await batched_async_rm(arguments, samples, inplace_set_reward_field=True)
    return samples


async def test_miles_sets_the_rewards_of_a_group(address: str) -> None:
    """A10."""
    own = rewards_of("q", TEXTS)
    samples = await scored(address, "q")
    assert [sample.reward for sample in samples] == [own[0], sum(own) / 3, own[1], own[2]]
    assert [sample.remove_sample for sample in samples] == [False, True, False, False]


async def test_a_group_without_rewards_is_removed(address: str) -> None:
    """A5, A10."""
    samples = await scored(address, f"one that {REFUSED}")
    assert [(sample.reward, sample.remove_sample) for sample in samples] == [(0.0, True)] * 4
