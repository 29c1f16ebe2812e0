"""Sessions whose members were left with the server, in runs that are checkpointed (A2, C2, C15, C16)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .calling import Connection, Reply, cancelled_after, request, until
from .groups import Group
from .training import Agent, Controller, Run, TrainingJudge, agents_of, gather


@pytest_asyncio.fixture(loop_scope="session")
async def trainer() -> AsyncIterator[TrainingJudge]:
    async with TrainingJudge() as judge:
        yield judge


@pytest.fixture
def run(trainer: TrainingJudge, tmp_path: Path) -> Run:
    return Run(trainer, tmp_path)


async def leave(agent: Agent, controller: Controller, **headers: str) -> None:
    """Leave the agent's member with the server."""
    reply = await agent.post(
        controller.client, "/verify", agent.group.body(agent.slot), Prefer="respond-async", **headers
    )
    assert reply.status == 202, reply


async def fetch(agent: Agent, controller: Controller, wait: float = 0, **headers: str) -> Reply:
    """Ask for the outcome in the agent's session."""
    group = agent.group
    path = f"/ng-rollout/{agent.key}/v1/groups/{group.name}/{group.attempt}/{agent.slot}?wait={wait}"
    return await controller.client.get(path, {"Cookie": agent.cookie, **headers})


async def sessions(controller: Controller) -> int:
    """How many sessions are open."""
    await controller.prepare()
    counts = (await controller.status())["report"]["counts"]
    await controller.resume()
    return counts["sessions"]


async def left(controller: Controller, group: Group, **headers: str) -> list[Agent]:
    """Agents with open sessions, whose members were left with the server."""
    agents = agents_of(group)
    await gather(*(agent.seed(controller.client) for agent in agents))
    await gather(*(leave(agent, controller, **headers) for agent in agents))
    return agents


async def test_the_session_ends_with_the_reply_that_delivers_its_outcome(run: Run) -> None:
    """C2, A2: not with the 202, and not with a request of somebody else: another session, none, or a HEAD."""
    async with run.life() as (server, controller):
        agents = await left(controller, Group("g"))
        first, second, *_ = agents
        assert await sessions(controller) == 4
        assert (await fetch(first, controller, 60)).json["reward"] > 0
        assert await sessions(controller) == 3
        path = f"/v1/groups/g/0/{second.slot}"
        assert (await controller.client.get(path)).status == 200
        assert (await controller.client.get(f"/ng-rollout/{second.key}{path}")).status == 200
        others = f"/ng-rollout/{agents[2].key}{path}"
        assert (await controller.client.get(others, {"Cookie": agents[2].cookie})).status == 200
        async with Connection(server.port) as connection:
            headers = {"Cookie": second.cookie}
            await connection.send(request("HEAD", f"/ng-rollout/{second.key}{path}", headers=headers))
            assert (await connection.reply(to_head=True)).status == 200
        assert await sessions(controller) == 3
        await gather(*(fetch(agent, controller) for agent in agents))
        assert await sessions(controller) == 0


@pytest.mark.parametrize("when", ["leaving", "fetching"])
async def test_a_session_whose_close_follows_stays_until_then(run: Run, when: str) -> None:
    """C2, A2: whichever of the two requests said so."""
    header = {"x-ng-close-follows": "1"}
    async with run.life() as (_, controller):
        agents = await left(controller, Group("g"), **(header if when == "leaving" else {}))
        await gather(*(fetch(agent, controller, 60, **(header if when == "fetching" else {})) for agent in agents))
        assert await sessions(controller) == 4
        await gather(*(agent.close(controller.client) for agent in agents))
        assert await sessions(controller) == 0


async def test_a_held_outcome_stays_pending(run: Run, trainer: TrainingJudge) -> None:
    """C15, A2: until the resume; meanwhile the request is admitted and told so."""
    async with run.life() as (_, controller):
        trainer.hold()
        agents = await left(controller, Group("g"))
        await trainer.until(lambda: trainer.in_flight == 4)
        await controller.prepare()
        trainer.let_go()

        async def is_held() -> bool:
            group = await controller.client.group("g")
            return group is not None and group["phase"] == "held"

        await until(is_held)
        assert (await fetch(agents[0], controller, 0.05)).status == 202
        await controller.commit(agents)
        assert (await fetch(agents[0], controller)).status == 202
        await controller.resume()
        assert (await fetch(agents[0], controller)).status == 200
        assert await sessions(controller) == 3


async def test_an_outcome_that_nobody_has_fetched_survives_a_crash(run: Run, trainer: TrainingJudge) -> None:
    """C16, C21, C22, A2: each member's own outcome is fetched after the restore, and the judge is not asked again;
    those that were restored and not fetched are replayed as before."""
    async with run.life() as (server, controller):
        agents = await left(controller, Group("g"))
        async with server.client:
            expected = [(await controller.client.get(f"/v1/groups/g/0/{n}?wait=60")).json["reward"] for n in range(4)]
        checkpoint = await controller.checkpoint(agents)
        assert len(checkpoint.agents) == 4
    asked = trainer.asked.copy()
    async with run.life() as (_, controller):
        await controller.restore(checkpoint)
        await controller.resume()
        agents = checkpoint.later()
        told = [await fetch(agent, controller) for agent in agents[:2]]
        assert [reply.json["reward"] for reply in told] == expected[:2]
        assert await sessions(controller) == 2
        replays = [await agent.ask(controller.client) for agent in agents]
        assert [reply.json["reward"] for reply in replays] == expected
    assert trainer.asked == asked


async def test_a_retired_episode_may_not_ask(run: Run) -> None:
    """C24, A1, A2: neither for an outcome nor for a whole group."""
    async with run.life() as (_, controller):
        agent = agents_of(Group("g"))[0]
        await agent.seed(controller.client)
        await leave(agent, controller)
        controller.fresh_id()
        await controller.done("retire", episode_ids=[agent.episode])
        reply = await fetch(agent, controller)
        assert reply.said == (409, "stale_attempt")
        whole = {"question": "q", "answers": ["A", "B"], "id": "h"}
        reply = await agent.post(controller.client, "/v1/judge", json.dumps(whole).encode())
        assert reply.said == (409, "stale_attempt")
        assert await controller.client.group("h") is None


async def test_a_whole_group_ends_no_session_and_is_waited_for(run: Run, trainer: TrainingJudge) -> None:
    """C2, C24, A1: only a `/verify` and a close end one; who retires the episode waits for the group's caller."""
    async with run.life() as (_, controller):
        agent = agents_of(Group("g"))[0]
        await agent.seed(controller.client)
        body = {"question": "q", "answers": [f"{n} of h;" for n in range(2)], "id": "h"}
        trainer.hold()
        judged = asyncio.ensure_future(agent.post(controller.client, "/v1/judge", json.dumps(body).encode()))
        async with cancelled_after([judged]):
            await trainer.until(lambda: trainer.in_flight > 0)
            controller.fresh_id()
            retired = await controller.call("retire", episode_ids=[agent.episode], deadline_ts=time.time() + 0.2)
            assert retired.json["error"]["code"] == "deadline_exceeded"
            await controller.done("forget", rollout_ids=[agent.rollout_id])
            trainer.let_go()
            assert len((await judged).json["rewards"]) == 2
        assert await sessions(controller) == 1
