"""The reward manager for verl, on rows that look like verl's (A5, A8)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of

from groupjudge import Refusal
from groupjudge.integrations.verl import GroupRewardManager, NoReward

from .conftest import REFUSED

TEXTS = ["one", "two", "three"]


class Ids(list[int]):
    """A row of a tensor, as far as the manager looks at it."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Ids(found) if isinstance(key, slice) else found

    def sum(self) -> int:
        return sum(self)


class Tokenizer:
    """A character is a token."""

    def decode(self, ids: Ids, *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(map(chr, ids))


def config(address: str, n: int = 3, val_n: int = 2, **own: Any) -> SimpleNamespace:
    rollout = SimpleNamespace(n=n, val_kwargs=SimpleNamespace(n=val_n))
    reward = {"reward_kwargs": {"groupjudge": {"base_url": address, **own}}}
    return SimpleNamespace(reward=reward, actor_rollout_ref=SimpleNamespace(rollout=rollout))


def manager(address: str, **settings: Any) -> GroupRewardManager:
    return GroupRewardManager(config(address, **settings), Tokenizer(), None, reward_router_address=None)


def row(text: str, uid: str, *, prompt: str = "q", padding: int = 2, **fields: Any) -> SimpleNamespace:
    ids = [*map(ord, text)]
    batch = {
        "responses": Ids([*ids, *[ord("#")] * padding]),
        "attention_mask": Ids([1, 1, *[1] * len(ids), *[0] * padding]),  # the prompt's two tokens come first
    }
    non_tensor = {"uid": uid, "raw_prompt": [{"role": "user", "content": prompt}], **fields}
    return SimpleNamespace(batch=batch, non_tensor_batch=non_tensor)


async def scored(managers: list[GroupRewardManager], rows: list[Any]) -> list[dict[str, Any]]:
    """Each row by one of the workers, in no order."""
    calls = [managers[place % len(managers)].run_single([one]) for place, one in enumerate(rows)]
    return await asyncio.gather(*calls)


async def test_members_of_a_group_meet_though_they_are_scored_by_other_workers(address: str) -> None:
    """A8: `uid` is the group, `session_id` the slot."""
    rows = [row(text, "meet", session_id=slot) for slot, text in enumerate(TEXTS)]
    said = await scored([manager(address), manager(address)], rows)
    assert [one["reward_score"] for one in said] == rewards_of("q", TEXTS)
    assert [one["reward_extra_info"] for one in said] == [{"groupjudge_left_out": 0.0}] * 3
    again = await scored([manager(address)], rows)
    assert again == said, "what a padded batch submits twice is the same member"


async def test_without_a_session_each_call_is_a_member_of_its_own(address: str) -> None:
    """A8, A3: equal answers too."""
    said = await scored([manager(address, n=2)], [row("same", "free"), row("same", "free")])
    assert sorted(one["reward_score"] for one in said) == sorted(rewards_of("q", ["same", "same"]))
    with pytest.raises(ValueError, match=r"more than 2 samples with uid 'free'.*multiple of") as raised:
        await manager(address, n=2).run_single([row("one more", "free")])
    assert isinstance(raised.value.__cause__, Refusal)


async def test_the_last_row_counts(address: str) -> None:
    """A8: the rows before it are earlier parts of the same sample."""
    rows = [[row("draft", "last"), row(text, "last", session_id=slot)] for slot, text in enumerate(TEXTS)]
    said = await asyncio.gather(*(manager(address).run_single(data) for data in rows))
    assert [one["reward_score"] for one in said] == rewards_of("q", TEXTS)


async def test_prompts_may_hold_images(address: str) -> None:
    """A8, J21: as verl's data set puts them there; the judge is shown that there is one."""
    parts = [{"type": "image", "bytes": b"PNG", "image": object()}, {"type": "text", "text": "q"}]
    prompt = [{"role": "user", "content": parts}]
    rows = [row(text, "images", session_id=slot, raw_prompt=prompt) for slot, text in enumerate(TEXTS)]
    said = await scored([manager(address)], rows)
    assert [one["reward_score"] for one in said] == rewards_of("[image]q", TEXTS)


async def test_a_sequence_beside_longer_ones_is_judged_whole(address: str) -> None:
    """A8: verl pads the mask to the longest sequence of a sample, so that its end is not below the response; the length
    is told apart."""
    rows = [row(text, "beside", session_id=slot, response_len=len(text)) for slot, text in enumerate(TEXTS)]
    for one in rows:
        one.batch["attention_mask"] = Ids([*one.batch["attention_mask"], *[0] * 9])
    said = await scored([manager(address)], rows)
    assert [one["reward_score"] for one in said] == rewards_of("q", TEXTS)


async def test_a_group_without_rewards_has_no_advantage_and_a_flag(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A5, A8: all members get the same number, every sample has the same keys, and one warning says so."""
    rows = [row(text, "bad", prompt=f"one that {REFUSED}", session_id=slot) for slot, text in enumerate(TEXTS)]
    with caplog.at_level(logging.WARNING):
        said = await scored([manager(address, no_reward=2.5)], rows)
    assert said == [{"reward_score": 2.5, "reward_extra_info": {"groupjudge_left_out": 1.0}}] * 3
    assert len([record for record in caplog.records if record.name == "groupjudge.integrations.verl"]) == 1
    with pytest.raises(NoReward):
        await manager(address, no_reward=None).run_single([rows[0]])


async def test_a_validation_row_may_have_a_group_of_another_size(address: str) -> None:
    """A8: verl's data sets say of each row which split it is of."""
    rows = [row(text, "val", session_id=slot, extra_info={"split": "test"}) for slot, text in enumerate(TEXTS[:2])]
    said = await scored([manager(address)], rows)
    assert [one["reward_score"] for one in said] == rewards_of("q", TEXTS[:2])


async def test_what_is_missing_is_said(address: str) -> None:
    """A8: a sample without its group or its question, a setting that nobody knows."""
    lost = row("one", "x")
    del lost.non_tensor_batch["uid"]
    with pytest.raises(ValueError, match="no `uid`"):
        await manager(address).run_single([lost])
    mute = row("one", "x")
    del mute.non_tensor_batch["raw_prompt"]
    with pytest.raises(ValueError, match="return_raw_chat"):
        await manager(address).run_single([mute])
    with pytest.raises(ValueError, match="unknown \\['url'\\]"):
        manager(address, url="x")


async def test_a_group_of_one_is_left_out(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5, L9: the default score is no judgement: the flag and one warning say so, in training and validation."""
    one = manager(address, n=1, val_n=1)
    for split in ("train", "test"):
        data = [row("a", f"alone-{split}", session_id=0, extra_info={"split": split})]
        told = await one.run_single(data)
        assert told == {"reward_score": 3.0, "reward_extra_info": {"groupjudge_left_out": 1.0}}
        with pytest.raises(NoReward, match="group of one"):
            await manager(address, n=1, val_n=1, no_reward=None).run_single(data)
    assert caplog.text.count("group of one") == 1


@pytest.mark.parametrize("value", ["x", "3", True, float("nan"), float("inf"), [1]])
def test_a_number_for_no_reward_is_checked_at_the_start(address: str, value: object) -> None:
    """A8: not when the first judge fails."""
    with pytest.raises(ValueError, match="no_reward must be a finite number"):
        manager(address, no_reward=value)


async def test_two_samples_with_one_session_id_are_named(address: str) -> None:
    """A8: by what verl calls them, as soon as the second comes."""
    rows = [row(text, "twice", session_id=0) for text in ("one", "two")]
    first, second = (asyncio.ensure_future(manager(address).run_single([one])) for one in rows)
    done, waiting = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    (refused,) = done
    (other,) = waiting
    other.cancel()
    with pytest.raises(ValueError, match="uid 'twice' and session_id 0"):
        await refused
    with suppress(asyncio.CancelledError):
        await other
