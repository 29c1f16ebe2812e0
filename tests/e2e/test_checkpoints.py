"""Training runs that crash and continue, with real processes (C1-C25): for each member, every outcome that a caller
recorded in, or that was exported by, the checkpoint that was restored is the one that every later caller gets."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import pytest_asyncio

from groupjudge.checkpoints import files

from .calling import Client, cancelled_after
from .conftest import Serve
from .groups import TOKEN, Group
from .serving import Server
from .test_compare import body as compare_body
from .training import BASE, Agent, Checkpoint, Controller, Outcome, Run, TrainingJudge, agents_of, gather


@pytest_asyncio.fixture(loop_scope="session")
async def trainer() -> AsyncIterator[TrainingJudge]:
    async with TrainingJudge() as judge:
        yield judge


@pytest.fixture
def run(trainer: TrainingJudge, tmp_path: Path) -> Run:
    return Run(trainer, tmp_path)


def ill(name: str, epoch: int, size: int = 4) -> Group:
    """A group whose judge fails in one epoch."""
    return Group(name, size, note=f"falls ill in epoch {epoch}.")


async def begun(client: Client, *groups: Group) -> list[Agent]:
    """Agents whose groups have their outcomes, all recorded, nobody closed."""
    agents = agents_of(*groups)
    await gather(*(agent.seed(client) for agent in agents))
    await gather(*(agent.verify(client) for agent in agents))
    return agents


def forgetful(agents: list[Agent]) -> list[Agent]:
    """The same agents, who never got their replies."""
    for agent in agents:
        agent.step, agent.outcome = min(agent.step, 1), None
    return agents


async def told(agent: Agent, client: Client) -> Outcome:
    """What a later caller gets."""
    return Outcome.of(await agent.ask(client))


RETENTION = {
    "usual": {},
    "by count": {"retention.max_results": 1, "retention.max_attempt_records": 1},
    "by age": {"retention.ttl_s": 0.05},
}


@pytest.mark.parametrize("retention", RETENTION)
@pytest.mark.parametrize("cycles", [1, 2])
async def test_members_whose_siblings_are_done_get_their_own_outcomes_after_a_crash(
    run: Run, trainer: TrainingJudge, retention: str, cycles: int
) -> None:
    """C16, C17, C18, C21, C22: rewards and a judge failure, after one checkpoint and crash or two, whatever is evicted
    meanwhile; nobody asks the judge again, and nobody waits for siblings that have ended."""
    run.sets = RETENTION[retention]
    groups = [Group("good"), ill("bad", 0)]
    async with run.life() as (server, controller):
        agents = await begun(server.client, *groups)
        expected = {agent.key: agent.outcome for agent in agents}
        await gather(*(agent.close(server.client) for agent in agents if agent.slot < 2))
        forgetful([agent for agent in agents if agent.slot == 3])
        await gather(*(agent.go_on(server.client) for agent in agents_of(Group("later"))))
        checkpoint = await controller.checkpoint(agents)
    assert len({outcome for key, outcome in expected.items() if key.startswith("good")}) == 4
    assert all(outcome and outcome.is_masked for key, outcome in expected.items() if key.startswith("bad"))
    asked = trainer.asked.copy()
    for cycle in range(1, cycles + 1):
        async with run.life() as (server, controller):
            restored = await controller.restore(checkpoint)
            agents = checkpoint.later()
            assert restored == sorted(agent.key for agent in agents if agent.step < 3)
            assert [agent.attempt for agent in agents if agent.step < 3] == [cycle] * 4
            await controller.resume()
            await gather(*(agent.go_on(server.client) for agent in agents_of(Group(f"later{cycle}"))))
            if cycle < cycles:
                checkpoint = await controller.checkpoint(agents)
                continue
            for agent in agents:
                if agent.step < 3:
                    assert await told(agent, server.client) == expected[agent.rollout_id]
            await gather(*(agent.go_on(server.client) for agent in agents))
            assert {agent.rollout_id: agent.outcome for agent in agents} == expected
    assert all(trainer.asked[group.name] == asked[group.name] for group in groups)


async def test_what_waits_while_a_checkpoint_is_open(run: Run, trainer: TrainingJudge) -> None:
    """C9, C15: seeds and closes wait for the resume; a verify is admitted, judged and held; none of it is in the
    commit, so that after a crash everybody begins again."""
    async with run.life() as (server, controller):
        client = server.client
        agents = agents_of(Group("g"), Group("h", 2))
        first, others = agents[:4], agents[4:]
        await gather(*(agent.seed(client) for agent in [*first, others[0]]))
        await controller.prepare()
        calls = [asyncio.ensure_future(agent.verify(client)) for agent in first]
        waiting = [asyncio.ensure_future(others[1].seed(client)), asyncio.ensure_future(others[0].close(client))]
        async with cancelled_after([*calls, *waiting]):
            await trainer.until(lambda: trainer.asked["g"] == 4 and trainer.in_flight == 0)
            assert (await client.group("g"))["phase"] in ("judging", "held")  # type: ignore[index]
            checkpoint = await controller.commit(agents)
            assert (await controller.status())["report"]["counts"] == {"inflight": 0, "sessions": 5}
            assert [each.done() for each in (*calls, *waiting)] == [False] * 6
            _, records = files.read(checkpoint.directory, "groupjudge")
            assert [record.state for record in records] == [{}] * 5
            await controller.resume()
            await asyncio.gather(*calls, *waiting)
    async with run.life() as (server, controller):
        await controller.restore(checkpoint)
        await controller.resume()
        again = checkpoint.later()
        await gather(*(agent.go_on(server.client) for agent in again))
        assert all(agent.outcome for agent in again)
        assert trainer.asked["g"] == 8


async def test_a_verify_without_a_close_to_follow_is_in_the_checkpoint_that_is_open(run: Run) -> None:
    """C2: and in no later one."""
    async with run.life() as (server, controller):
        client = server.client
        agents = await begun(client, Group("g", 2))
        await controller.prepare()
        reply = await agents[0].post(client, "/verify", agents[0].group.body(0))
        assert Outcome.of(reply) == agents[0].outcome
        first = await controller.commit(agents)
        await controller.resume()
        second = await controller.checkpoint(agents)
        sessions = [len(files.read(each.directory, "groupjudge")[1]) for each in (first, second)]
        assert sessions == [2, 1]


async def test_sessions_left_out_of_a_commit_and_retired_ones(run: Run, trainer: TrainingJudge) -> None:
    """C17, C23, C24: who was left out is no part of the restored group, who is retired is refused; a group whose last
    member goes can form anew, and is judged anew."""
    async with run.life() as (server, controller):
        agents = await begun(server.client, Group("g", 3), Group("h", 2))
        expected = {agent.rollout_id: agent.outcome for agent in agents}
        checkpoint = await controller.checkpoint(agents, scope=[*agents[:2], *agents[3:]])
    async with run.life() as (server, controller):
        client = server.client
        restored = await controller.restore(checkpoint)
        assert restored == ["g.0-a1", "g.1-a1", "h.0-a1", "h.1-a1"]
        agents = checkpoint.later()
        gone = [agents[1], *agents[3:]]
        retired = await controller.done("retire", episode_ids=[agent.episode for agent in gone])
        assert retired == {"retired": ["g.1-a1", "h.0-a1", "h.1-a1"]}
        await controller.resume()
        assert (await agents[1].ask(client)).said == (409, "stale_attempt")
        assert (await agents[1].post(client, "/seed_session")).said == (409, "stale_attempt")
        assert (await agents[1].post(client, "/compare")).said == (409, "stale_attempt")
        assert (await agents[1].post(client, "/close_session")).status == 200
        assert (await agents[2].ask(client)).said == (409, "group_closed")
        assert await told(agents[0], client) == expected["g.0"]
        controller.fresh_id()
        assert await controller.done("forget", rollout_ids=["g.1"]) == {"forgotten": ["g.1"]}
        assert (await agents[1].ask(client)).said == (409, "group_closed")
        again = [Agent(agent.group, agent.slot, attempt=2) for agent in agents[3:]]
        await gather(*(agent.go_on(client) for agent in again))
        assert trainer.asked["h"] == 4
        assert [agent.outcome for agent in again] != [expected["h.0"], expected["h.1"]]


async def test_retiring_waits_for_a_comparison_too(run: Run, trainer: TrainingJudge) -> None:
    """C24: `/compare` is a request of its episode like any other."""
    async with run.life() as (server, controller):
        agents = agents_of(Group("g", 2))
        trainer.hold()
        call = asyncio.ensure_future(agents[0].post(server.client, "/compare", compare_body(agents[0].group)))
        async with cancelled_after([call]):
            await trainer.until(lambda: trainer.in_flight > 0)
            controller.fresh_id()
            late = await controller.call("retire", deadline_ts=time.time() + 0.05, episode_ids=[agents[0].episode])
            assert late.json["error"]["code"] == "deadline_exceeded"
            assert "g.0" in late.json["error"]["detail"]
            trainer.let_go()
            assert (await call).status == 200
            assert await controller.done("retire", episode_ids=[agents[0].episode]) == {"retired": ["g.0"]}


async def test_nobody_reads_or_ends_anothers_outcome(run: Run) -> None:
    """C2: with its cookie under another prefix, a cookie of one's own making, or none; retry and close alike."""
    async with run.life() as (server, controller):
        client = server.client
        agents = await begun(client, Group("g", 2))
        owner, other = agents
        forged = owner.cookie.rpartition(".")[0] + "." + other.cookie.rpartition(".")[2]
        stranger = Agent(Group("elsewhere", 2), 0)
        for cookie in (owner.cookie, forged, "", "groupjudge_session=x"):
            stranger.cookie = cookie
            await stranger.post(client, "/close_session")
            conflict = await stranger.post(client, "/verify", owner.group.body(0, response={"output": []}))
            assert conflict.said == (409, "answer_conflict")
            await stranger.seed(client)
            assert stranger.cookie != owner.cookie
        owner_again = Agent(owner.group, 0, cookie=forged)
        await owner_again.post(client, "/close_session")
        checkpoint = await controller.checkpoint(agents)
        _, records = files.read(checkpoint.directory, "groupjudge")
        kept = {record.episode.key: record.state for record in records}
        assert kept["g.0"]["reward"] == owner.outcome.reward  # type: ignore[union-attr]
        assert kept["g.1"]["reward"] == other.outcome.reward  # type: ignore[union-attr]
        assert kept["elsewhere.0"] == {}


async def test_the_control_plane_has_its_own_token_and_is_behind_no_prefix(run: Run) -> None:
    """C5: the server's own guards everything else; neither of the two is logged."""
    run.sets = {"server.auth_token": f"{TOKEN}-of-the-server"}
    async with run.life() as (server, controller):
        client = server.client
        assert (await controller.status())["phase"] == "idle"
        server_token = {"Authorization": f"Bearer {TOKEN}-of-the-server"}
        for headers in ({}, server_token, {"Authorization": f"Bearer {TOKEN}x"}):
            reply = await client.get(f"{BASE}/status", headers)
            assert (reply.status, reply.json["error"]["code"]) == (401, "unauthorized")
            assert TOKEN not in reply.body.decode()
        assert (await client.get(f"/ng-rollout/r{BASE}/status", server_token)).said == (404, "not_found")
        assert (await client.get("/v1/groups", {"Authorization": f"Bearer {TOKEN}"})).status == 401
        await server.stop()
        server.check_log()


async def test_without_checkpoints_there_is_no_control_plane(server: Server) -> None:
    """C5, C3: and no promise that a verify may be replayed."""
    for method in ("status", "prepare", "resume"):
        reply = await server.client.post(f"{BASE}/{method}", b"{}", {"Authorization": f"Bearer {TOKEN}"})
        assert reply.said == (404, "not_found")
    assert (await server.client.get(f"{BASE}/status")).status == 404
    assert "x-ng-checkpoint-verify" not in (await server.client.post("/seed_session", b"")).headers


async def test_a_key_that_would_end_with_the_process_is_said(serve: Serve) -> None:
    """H12: cookies of restored sessions would be unknown."""
    sets = {"checkpoint.enabled": True, "checkpoint.auth_token": TOKEN}
    async with serve(sets) as server:
        assert server.events()[0]["event"] == "session_key_is_not_kept"


@pytest.mark.parametrize("trial", range(2))
async def test_a_server_that_is_killed_while_it_writes_leaves_no_manifest_or_a_whole_checkpoint(
    run: Run, trial: int
) -> None:
    """C12: thousands of sessions make the write long; the checkpoint before it can still be restored."""
    rng = random.Random(trial)
    async with run.life() as (server, controller):
        client = server.client
        agents = await begun(client, Group("g", 2))
        crowd = [Agent(Group(f"crowd{number}", 2), 0) for number in range(1000)]
        for at in range(0, len(crowd), 50):
            await gather(*(agent.seed(client) for agent in crowd[at : at + 50]))
        before = await controller.checkpoint(agents, scope=agents)
        await controller.prepare()
        directory = controller.root / controller.id
        committing = asyncio.ensure_future(controller.call("commit", checkpoint_dir=str(directory), episode_ids=None))
        async with cancelled_after([committing]):
            while not list((directory / "gym" / "resources").glob("*/.*.tmp")) and not committing.done():  # noqa: ASYNC110 -- in another process
                await asyncio.sleep(0)
            await asyncio.sleep(rng.random() * 0.01)
            await server.stop(SIGKILL)
    manifest = files.directory_of(directory, "groupjudge") / files.MANIFEST
    if manifest.exists():
        assert len(files.read(directory, "groupjudge")[1]) == 1002
    async with run.life() as (server, controller):
        assert await controller.restore(before) == ["g.0-a1", "g.1-a1"]
        await controller.resume()
        for agent in before.later():
            assert await told(agent, server.client) == agent.outcome


async def test_a_broken_checkpoint_is_refused_and_the_server_serves_on(run: Run) -> None:
    """C8, C19, C25: the file and the reason are named; the server can restore another one, or begin afresh."""
    async with run.life() as (server, controller):
        agents = await begun(server.client, Group("g", 2))
        good = await controller.checkpoint(agents)
        bad = await controller.checkpoint(agents)
    (records,) = files.directory_of(bad.directory, "groupjudge").glob("*.jsonl")
    records.write_bytes(records.read_bytes().replace(b'"slot":1', b'"slot":0'))
    async with run.life() as (server, controller):
        controller.fresh_id()
        for directory, why in (
            (bad.directory, records.name),
            (run.folder / "x", "manifest.json"),
            (Path("/"), "root_dir"),
        ):
            reply = await controller.call("restore", checkpoint_dir=str(directory), episode_ids=[])
            assert (reply.status, reply.json["error"]["code"]) == (422, "invalid_checkpoint_state")
            assert why in reply.json["error"]["detail"]
        assert (await server.client.groups()) == []
        assert await controller.restore(good) == ["g.0-a1", "g.1-a1"]
        await controller.resume()
        for agent in good.later():
            assert await told(agent, server.client) == agent.outcome


async def test_a_controller_that_vanishes_is_not_waited_for(run: Run) -> None:
    """C11: when the lease runs out, held callers are told and waiting ones go on."""
    run.sets = {"checkpoint.lease_grace_s": 0.3}
    async with run.life() as (server, controller):
        agents = agents_of(Group("g", 2))
        await gather(*(agent.seed(server.client) for agent in agents))
        controller.fresh_id()
        await controller.done("prepare", deadline_ts=time.time())
        await gather(*(agent.go_on(server.client) for agent in agents))
        assert all(agent.outcome for agent in agents)
        reply = await controller.call("prepare")
        assert (reply.status, reply.json["error"]["code"]) == (409, "stale_checkpoint")


# -- random runs -----------------------------------------------------------------------------------------------------


def told_in(state: dict[str, Any]) -> Outcome:
    """What an exported session was told."""
    return Outcome(state.get("reward", 0.0), "reward" not in state, state.get("failure_reason"))


class Adventure:
    """A run whose agents, checkpoints and crashes come as a seed has it."""

    def __init__(self, seed: int, run: Run, judge: TrainingJudge) -> None:
        self.rng = random.Random(seed)
        self.run = run
        self.judge = judge
        run.sets = self.rng.choice(list(RETENTION.values()))
        sizes = [self.rng.randint(2, 4) for _ in range(6)]
        self.agents = agents_of(*(ill(f"s{seed}g{n}", n % 3, size) for n, size in enumerate(sizes)))
        self.last: Checkpoint | None = None
        self.exported: dict[str, dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()
        self.settled_groups: set[str] = set()
        self.known: dict[str, Outcome] = {}

    async def go(self, lives: int) -> None:
        for number in range(lives):
            async with self.run.life() as (server, controller):
                if self.last is None:
                    self.agents = [replace(agent, step=0, cookie="", outcome=None) for agent in self.agents]
                else:
                    await self.come_back(controller)
                await self.live(server, controller, None if number == lives - 1 else self.rng.randint(40, 80))
                self.check_what_was_told()
        assert all(agent.outcome for agent in self.agents)

    async def come_back(self, controller: Controller) -> None:
        assert self.last is not None
        await self.insistently(controller, "restore", self.last)
        self.agents = self.last.later()
        if self.rng.random() < 0.5:
            assert (await controller.call("prepare")).json["error"]["code"] == "invalid_phase"
        await controller.resume()
        states = {rollout_id: told_in(state) for rollout_id, state in self.exported.items() if state}
        recorded = {agent.rollout_id: agent.outcome for agent in self.agents if agent.outcome is not None}
        assert all(recorded.get(rollout_id, outcome) == outcome for rollout_id, outcome in states.items())
        self.known = states | recorded
        self.settled_groups = {agent.group.name for agent in self.agents if agent.rollout_id in self.known}
        self.asked = self.judge.asked.copy()

    async def insistently(self, controller: Controller, name: str, checkpoint: Checkpoint) -> None:
        """Twice, sometimes: the reply to the first was lost."""
        before = controller.id
        keys = await controller.restore(checkpoint)
        if self.rng.random() < 0.5:
            episodes = [agent.episode for agent in checkpoint.agents if agent.step < 3]
            again = await controller.done(name, checkpoint_dir=str(checkpoint.directory), episode_ids=episodes)
            assert again["restored"] == keys
        assert controller.id != before

    async def live(self, server: Server, controller: Controller, moves: int | None) -> None:
        """So many moves, then a crash whatever is going on; None: until all are done."""
        busy: dict[int, asyncio.Task[None]] = {}
        async with cancelled_after([]) as tasks:
            while moves is None or moves > 0:
                moves = None if moves is None else moves - 1
                idle = [n for n, a in enumerate(self.agents) if a.step < 3 and n not in busy]
                if idle and self.rng.random() < 0.92:
                    number = self.some_agent(idle)
                    busy[number] = asyncio.ensure_future(self.step(self.agents[number], server.client))
                    tasks.append(busy[number])
                elif self.rng.random() < 0.8:
                    if await self.try_checkpoint(server, controller, may_crash=moves is not None):
                        return
                elif not idle and not busy:
                    return
                await asyncio.sleep(self.rng.random() * 0.01)
                for number, task in [(n, t) for n, t in busy.items() if t.done()]:
                    del busy[number]
                    task.result()
            await server.stop(SIGKILL)

    def some_agent(self, idle: list[int]) -> int:
        """Few are in a hurry to close, and the groups that came first go first."""
        weights = [(1 if self.agents[number].step == 2 else 12) / (1 + number) for number in idle]
        return self.rng.choices(idle, weights)[0]

    async def step(self, agent: Agent, client: Client) -> None:
        """The agent's next; sometimes the reply to a verify is lost, and it will ask again."""
        if agent.step == 1 and self.rng.random() < 0.3:
            assert (await agent.ask(client)).status == 200
        else:
            await agent.next_step(client)

    async def try_checkpoint(self, server: Server, controller: Controller, *, may_crash: bool) -> bool:
        """A checkpoint, an aborted one, or one that a crash ends; says whether the server has crashed."""
        await controller.prepare()
        await asyncio.sleep(self.rng.random() * 0.02)
        if self.rng.random() < 0.2:
            await controller.resume()
            return False
        if may_crash and self.rng.random() < 0.2:
            directory = controller.root / controller.id
            lost = asyncio.ensure_future(controller.call("commit", checkpoint_dir=str(directory), episode_ids=None))
            async with cancelled_after([lost]):
                await asyncio.sleep(self.rng.random() * 0.02)
                await server.stop(SIGKILL)
            return True
        unfinished = [agent for agent in self.agents if agent.step < 3]
        scope = unfinished if self.rng.random() < 0.5 else None
        self.last = await controller.commit(self.agents, scope)
        _, records = files.read(self.last.directory, "groupjudge")
        self.exported = {record.episode.rollout_id: dict(record.state) for record in records}
        if may_crash and self.rng.random() < 0.4:
            await server.stop(SIGKILL)
            return True
        await controller.resume()
        return False

    def check_what_was_told(self) -> None:
        """Whoever has an outcome that the restored checkpoint knew has that one, and the judge was not asked again."""
        assert all(self.judge.asked[name] == self.asked[name] for name in self.settled_groups)
        for agent in self.agents:
            if agent.outcome is not None and agent.rollout_id in self.known:
                assert agent.outcome == self.known[agent.rollout_id]


@pytest.mark.parametrize("seed", range(5))
async def test_a_run_that_crashes_now_and_then(run: Run, trainer: TrainingJudge, seed: int) -> None:
    """C1-C25: whatever happens when, nobody loses or changes an outcome that a checkpoint holds, and all come to an end
    long before the collection deadline."""
    await Adventure(seed, run, trainer).go(lives=4)
