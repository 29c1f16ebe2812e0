"""The client against real servers: outcomes, errors, tries over a killed server, loops, threads, forks (A4)."""

from __future__ import annotations

import asyncio

import pytest

from groupjudge import AsyncClient, Client, DeadlinePassed, JudgeFailure, Refusal, Rewarded
from groupjudge.errors import AnswerConflict

from .calling import cancelled_after
from .groups import REJECTED, Group, question
from .serving import Server


def where(group: Group, slot: int) -> dict[str, object]:
    """How a call names a member of the group."""
    return {"group_id": group.name, "attempt": group.attempt, "size": group.size, "slot": slot}


def calls(client: AsyncClient, group: Group) -> list[asyncio.Task[object]]:
    """A call for each member of a group."""
    asked = question(group.name)
    return [
        asyncio.ensure_future(client.verify(asked, group.text(slot), **where(group, slot)))
        for slot in range(group.size)
    ]


async def test_each_member_of_a_group_gets_its_reward(server: Server, group: Group) -> None:
    """A4: a reward is a value with the member's slot; asked again, it is the same one."""
    client = AsyncClient(server.address)
    async with cancelled_after(calls(client, group)) as tasks:
        outcomes = await asyncio.gather(*tasks)
    assert outcomes == [Rewarded(reward, slot) for slot, reward in enumerate(group.rewards())]
    again = await client.verify(question(group.name), group.text(2), **where(group, 2))
    assert again == outcomes[2]


async def test_the_blocking_client_gets_the_same(server: Server, group: Group) -> None:
    """A4: one client serves many threads."""
    client = Client(server.address)
    asked = question(group.name)
    threads = [asyncio.to_thread(client.verify, asked, group.text(n), **where(group, n)) for n in range(group.size)]
    outcomes = await asyncio.gather(*threads)
    assert [outcome.reward for outcome in outcomes] == group.rewards()


async def test_a_judge_failure_is_a_value_without_a_reward(server: Server, group: Group) -> None:
    """A4, A5: no reward is not a reward of 0."""
    bad = Group(group.name, note=REJECTED)
    async with cancelled_after(calls(AsyncClient(server.address), bad)) as tasks:
        outcomes = await asyncio.gather(*tasks)
    assert [type(outcome) for outcome in outcomes] == [JudgeFailure] * 4
    assert [outcome.reward for outcome in outcomes] == [None] * 4
    assert [outcome.slot for outcome in outcomes] == [0, 1, 2, 3]


async def test_a_refusal_is_raised_by_its_class(server: Server, group: Group) -> None:
    """A4: the state does not admit it, so it is not tried again."""
    client = AsyncClient(server.address)
    async with cancelled_after([asyncio.ensure_future(client.verify("q", "A", **where(group, 0)))]):
        await server.client.until_members(group.name, 1)
        with pytest.raises(AnswerConflict, match="already holds another answer") as raised:
            await client.verify("q", "B", **where(group, 0))
    assert isinstance(raised.value, Refusal)


async def test_nobody_there_until_the_deadline(group: Group) -> None:
    """A4: the error names what it met."""
    client = AsyncClient("http://127.0.0.1:9", deadline_s=0.5)
    with pytest.raises(DeadlinePassed, match="ConnectionRefusedError"):
        await client.verify("q", "A", **where(group, 0))
