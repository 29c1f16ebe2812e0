"""Many groups at once under callers that retry, drop, dispatch twice and dispatch anew: every reward is the right one,
and every pair is judged once (L24)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace

import pytest

from .calling import Client, Reply
from .groups import Group, TextJudge
from .serving import Server

IN_FLIGHT = 40
HELD = ("groupjudge_waiting_callers", "groupjudge_judging_groups", "groupjudge_held_answers")


@dataclass
class Trainer:
    """Dispatches groups as trainers do, out of one seed, and keeps every reply with what it answers."""

    client: Client
    random: random.Random

    def __post_init__(self) -> None:
        self.replies: list[tuple[Group, int, Reply]] = []
        self.at_work = asyncio.Semaphore(IN_FLIGHT)

    async def dispatch(self, group: Group) -> None:
        """One group until all its members have a reward: with some probability superseded on the way."""
        async with self.at_work:
            if self.random.random() < 0.2:
                await self.abandon(group)
                group = replace(group, attempt=group.attempt + self.random.randint(1, 3))
            order = self.random.sample(range(group.size), group.size)
            await asyncio.gather(*(self.member(group, slot) for slot in order))
        if self.random.random() < 0.1:
            slot = self.random.randrange(group.size)
            self.keep(group, slot, await self.client.verify(group.body(slot)))

    async def abandon(self, group: Group) -> None:
        """Send some members, or all of them, and leave for a newer attempt in the middle of it."""
        some = self.random.sample(range(group.size), self.random.randint(1, group.size))
        callers = [self.client.caller(group.body(slot)) for slot in some]
        for _ in range(self.random.randrange(30)):
            await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    async def member(self, group: Group, slot: int) -> None:
        """Send one member, perhaps twice at once, perhaps after calls that were dropped."""
        minimal = self.random.random() < 0.8
        while self.random.random() < 0.1:
            dropped = self.client.caller(group.body(slot), minimal=minimal)
            for _ in range(self.random.randrange(20)):
                await asyncio.sleep(0)
            dropped.cancel()
            await asyncio.gather(dropped, return_exceptions=True)
        callers = [
            self.client.verify(group.body(slot), minimal=minimal) for _ in range(1 + (self.random.random() < 0.1))
        ]
        for reply in await asyncio.gather(*callers):
            self.keep(group, slot, reply)

    def keep(self, group: Group, slot: int, reply: Reply) -> None:
        self.replies.append((group, slot, reply))


@pytest.mark.parametrize("seed", [20_260])
async def test_five_hundred_groups_of_sixteen(server: Server, judge: TextJudge, seed: int) -> None:
    """L24, L1-L11, J14: checked against what the judge's verdicts come to."""
    trainer = Trainer(server.client, random.Random(seed))
    groups = [Group(f"many {seed} {number}", 16, attempt=number % 3) for number in range(500)]
    before = [await server.client.metric(name) for name in HELD]
    await asyncio.gather(*map(trainer.dispatch, groups))
    rewards: dict[tuple[str, int], list[float]] = {}
    for group, slot, reply in trainer.replies:
        assert reply.status == 200, reply
        key = (group.name, group.attempt)
        expected = rewards[key] = rewards.get(key) or group.rewards()
        said = reply.json
        assert said["reward"] == expected[slot]
        assert (said["_ng_group_id"], said["_ng_group_attempt"], said["_ng_rollout_index"]) == (*key, slot)
        if "response" in said:
            assert said["response"] == group.fields(slot)["response"]
    assert len(rewards) == 500
    assert len(trainer.replies) > 8000
    newest = [Group(name, 16, attempt) for name, attempt in rewards]
    assert {group.name for group in newest} == {group.name for group in groups}
    for group in newest:
        assert judge.asked_of(group) == dict.fromkeys(group.pairs(), 1)
    older = {pair: often for pair, often in judge.pairs.items() if f" of many {seed} " in pair[0]}
    assert set(older.values()) == {1}
    assert [await server.client.metric(name) for name in HELD] == before
