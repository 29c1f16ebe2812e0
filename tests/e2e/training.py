"""A small training run against a real server: agents that seed, verify and close, a controller that checkpoints all of
them, and a judge that never says the same twice, so that an outcome that was made anew is not taken for the saved one.

    async with TrainingJudge() as judge, run.life() as server: ...
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from signal import SIGKILL
from typing import Any

from tests.support.judges import Received, StubJudge, http, responses
from tests.support.judges import Reply as JudgeReply

from .calling import Client, Reply
from .groups import JUDGE_WORD, TOKEN, Group, shown
from .serving import Server, serving

BASE = "/ng-control/v1/checkpoint"
SOON_S = 60.0


class TrainingJudge(StubJudge):
    """Its verdicts hang on both answers and on the epoch, which a test changes when a server starts. Answers that say
    `falls ill in epoch N` make it fail in that epoch and in no other."""

    def __init__(self) -> None:
        super().__init__(by=self._say)
        self.epoch = 0
        self.asked: Counter[str] = Counter()
        """How often it was asked about answers of each group."""

    def _say(self, request: Received) -> JudgeReply:
        if request.method != "POST":
            return http(404)
        _, first, second = shown(request)
        self.asked[first.split(" of ")[1].partition(";")[0]] += 1
        if f"falls ill in epoch {self.epoch}." in first:
            return http(400, f"{JUDGE_WORD}: no, not in epoch {self.epoch}")
        digest = hashlib.sha256(f"{self.epoch} {first} {second}".encode()).digest()
        scores = [1 + int.from_bytes(digest[at : at + 4]) % 4001 / 1000 for at in (0, 4)]
        return responses(json.dumps({"score_1": scores[0], "score_2": scores[1], "ranking": 3}))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a `/verify` told its caller."""

    reward: float
    is_masked: bool
    reason: str | None

    @classmethod
    def of(cls, reply: Reply) -> Outcome:
        assert reply.status == 200, reply
        said = reply.json
        return cls(said["reward"], said["mask_sample"], said["failure_reason"])


@dataclass
class Agent:
    """One member's caller. `step` is what it has done: 0 nothing, 1 seeded, 2 verified and recorded, 3 closed."""

    group: Group
    slot: int
    attempt: int = 0
    step: int = 0
    cookie: str = ""
    outcome: Outcome | None = None

    @property
    def rollout_id(self) -> str:
        return f"{self.group.name}.{self.slot}"

    @property
    def key(self) -> str:
        return self.rollout_id + (f"-a{self.attempt}" if self.attempt else "")

    @property
    def episode(self) -> dict[str, Any]:
        return {"rollout_id": self.rollout_id, "attempt": self.attempt}

    async def post(self, client: Client, path: str, body: bytes = b"", **headers: str) -> Reply:
        fields = {"Cookie": self.cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await client.post(f"/ng-rollout/{self.key}{path}", body, fields)

    async def seed(self, client: Client) -> None:
        reply = await self.post(client, "/seed_session")
        assert reply.status == 200, reply
        assert reply.headers["x-ng-checkpoint-verify"] == "replay"
        self.cookie = reply.headers["set-cookie"].partition(";")[0]
        self.step = max(self.step, 1)

    async def ask(self, client: Client) -> Reply:
        """Send the member; nothing is recorded."""
        return await self.post(client, "/verify", self.group.body(self.slot), x_ng_close_follows="1")

    async def verify(self, client: Client) -> None:
        outcome = Outcome.of(await self.ask(client))
        assert self.outcome in (None, outcome), (self.outcome, outcome)
        self.outcome, self.step = outcome, 2

    async def close(self, client: Client) -> None:
        assert (await self.post(client, "/close_session")).status == 200
        self.step = 3

    async def next_step(self, client: Client) -> None:
        await (self.seed, self.verify, self.close)[self.step](client)

    async def go_on(self, client: Client) -> None:
        """To the end."""
        while self.step < 3:
            await self.next_step(client)


def agents_of(*groups: Group) -> list[Agent]:
    return [Agent(group, slot) for group in groups for slot in range(group.size)]


@dataclass
class Checkpoint:
    """One that was committed: where it lies, and what each agent remembers in it."""

    directory: Path
    agents: list[Agent]

    def later(self) -> list[Agent]:
        """The agents as they go on after a restore, unfinished ones in their next attempt."""
        return [replace(agent, attempt=agent.attempt + (agent.step < 3)) for agent in self.agents]


class Controller:
    """Drives the control plane of one server. Each checkpoint has an id of its own."""

    _ids = count()

    def __init__(self, client: Client, root: Path) -> None:
        self.client = client
        self.root = root
        self.id = ""

    async def call(self, name: str, **fields: Any) -> Reply:
        body = {"checkpoint_id": self.id, "deadline_ts": time.time() + SOON_S, **fields}
        return await self.client.post(f"{BASE}/{name}", json.dumps(body).encode(), {"Authorization": f"Bearer {TOKEN}"})

    async def done(self, name: str, **fields: Any) -> dict[str, Any]:
        """A call that must succeed."""
        reply = await self.call(name, **fields)
        assert reply.status == 200, reply
        return reply.json

    async def status(self) -> dict[str, Any]:
        reply = await self.client.get(f"{BASE}/status", {"Authorization": f"Bearer {TOKEN}"})
        assert reply.status == 200, reply
        return reply.json

    def fresh_id(self) -> str:
        self.id = f"ck{next(self._ids)}"
        return self.id

    async def prepare(self) -> None:
        self.fresh_id()
        reply = await self.done("prepare")
        assert reply["phase"] == "prepared"
        assert reply["report"]["ready"]

    async def commit(self, agents: list[Agent], scope: list[Agent] | None = None) -> Checkpoint:
        """What the agents remember is taken while the checkpoint is open."""
        directory = self.root / self.id
        checkpoint = Checkpoint(directory, [replace(agent) for agent in agents])
        episodes = None if scope is None else [agent.episode for agent in scope]
        reply = await self.done("commit", checkpoint_dir=str(directory), episode_ids=episodes)
        assert reply["phase"] == "committed"
        assert await self.done("commit", checkpoint_dir=str(directory), episode_ids=episodes) == reply
        return checkpoint

    async def resume(self) -> None:
        assert (await self.done("resume"))["phase"] == "idle"

    async def checkpoint(self, agents: list[Agent], scope: list[Agent] | None = None) -> Checkpoint:
        """A whole one."""
        await self.prepare()
        made = await self.commit(agents, scope)
        await self.resume()
        return made

    async def restore(self, checkpoint: Checkpoint, agents: list[Agent] | None = None) -> list[str]:
        """Restore (default: all unfinished agents) without a resume; the keys that came back."""
        self.fresh_id()
        wanted = [agent for agent in checkpoint.agents if agent.step < 3] if agents is None else agents
        episodes = [agent.episode for agent in wanted]
        reply = await self.done("restore", checkpoint_dir=str(checkpoint.directory), episode_ids=episodes)
        assert reply["phase"] == "restored"
        return reply["restored"]


@dataclass
class Run:
    """Servers one after the other on one state."""

    judge: TrainingJudge
    folder: Path
    sets: dict[str, object] = field(default_factory=dict)
    lives: int = 0

    @asynccontextmanager
    async def life(self) -> AsyncIterator[tuple[Server, Controller]]:
        """A fresh server, which is killed at the end, and a controller of it."""
        self.judge.epoch = self.lives
        self.lives += 1
        sets = {
            "judge.base_url": self.judge.base_url,
            "judge.retries": 0,
            "judge.params": {},
            "group.collection_timeout_s": 600,
            "checkpoint.enabled": True,
            "checkpoint.auth_token": TOKEN,
            "checkpoint.root_dir": str(self.folder),
            "session.state_dir": str(self.folder / "state"),
            **self.sets,
        }
        async with serving(sets, self.folder / f"log{self.lives}") as server:
            yield server, Controller(server.client, self.folder / "checkpoints")
            if server.process.poll() is None:
                await server.stop(SIGKILL)


async def gather(*calls: Any) -> None:
    """All at once; none is left behind where one fails."""
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)
