"""Training runs that crash: agents, a controller and a server on one virtual clock, from one seed.

After a crash a fresh process restores a checkpoint, and every agent goes on from what it remembered in it. A trainer's
group is one question; an agent brings one answer to it in a session of its episode.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from groupjudge.checkpoints.records import Episode
from groupjudge.core.book import Limits
from groupjudge.model import Arrival, Fingerprint, GroupId, JudgeFailure, Outcome, Rewarded

from .controller import DONE, Checkpoint, Controller
from .ledger import Ledger, Member, Request, demand
from .process import Kinds, Process, Reply, Weather, cookie_of
from .surroundings import simulated
from .virtual import VirtualLoop

NEW, SEEDED, RECORDED = range(DONE)
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass(frozen=True)
class Customs:
    """How the run goes: seconds, and likelihoods from 0 to 1."""

    groups_each_s: float = 1.0
    spread_s: float = 4.0
    by_member_id: float = 0.1
    careless: float = 0.15
    leaves: float = 0.2
    asks_twice: float = 0.2
    forgets_cookie: float = 0.03
    other_cookie: float = 0.05
    lingers_s: float = 20.0
    abandons: float = 0.02
    checkpoint_each_s: float = 30.0
    retire_each_s: float = 60.0
    life_s: float = 120.0
    jumps: float = 0.0


@dataclass
class Agent:
    """One member's caller, with what it remembers. `careful`: it says that its close follows. `protected`: a checkpoint
    that knows of its siblings' outcomes must know of its own. `closes`: it has sent its close, and asks no more."""

    name: str
    slot: int
    careful: bool
    attempt: int = 0
    step: int = NEW
    session: str | None = None
    outcome: Outcome | None = None
    protected: bool = True
    closes: bool = False

    @property
    def episode(self) -> Episode:
        return Episode(self.name, self.attempt)


@dataclass
class Group:
    name: str
    size: int
    by_id: bool
    attempt: int = 0
    agents: list[Agent] = field(default_factory=list)

    def copy(self) -> Group:
        return replace(self, agents=[replace(agent) for agent in self.agents])

    def member(self, agent: Agent) -> Member:
        return Member(GroupId(self.name), self.attempt, f"member {agent.slot}" if self.by_id else agent.slot)

    @property
    def is_done(self) -> bool:
        return all(agent.step == DONE for agent in self.agents)


class Run:
    """From one seed."""

    def __init__(self, seed: int, kinds: Kinds | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.kinds = kinds or Kinds()
        self.weather = _weather(rng)
        self.customs = _customs(rng)
        self.limits = _limits(rng)
        self.loop = VirtualLoop(rng, self.weather.thread_s)
        self.ledger = Ledger(self.loop.time)
        self.told, self.refused = Counter[str](), Counter[str]()
        self.groups: list[Group] = []
        self.ended: list[Episode] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.others: list[asyncio.Task[Any]] = []
        self.checkpoints: list[Checkpoint] = []
        self.lives = self.restores = self.names = 0
        self.trace = 0
        self.stopped = self.jumped = False
        self.process: Process

    def run(self, events: int) -> int:
        """Until so much has happened and everything has come to rest; how much it was."""
        world = simulated(self.rng, self.weather.disk_fails, self.kinds.publication)
        with tempfile.TemporaryDirectory(dir=SHM) as root, world, self.loop.running():
            self.root = Path(root).resolve()
            try:
                while self.loop.count < events:
                    self._live(events)
                self._come_to_rest()
            finally:
                self._leave_nothing()
        return self.loop.count

    def _leave_nothing(self) -> None:
        """What is left of killed processes, or of all where something went wrong, ends here, and is not heard."""
        self.process.alive = False
        for task in asyncio.all_tasks(self.loop):
            with suppress(Exception):
                cast(Coroutine[Any, Any, Any], task.get_coro()).close()

    # -- lives -------------------------------------------------------------------------------------------------------

    def _live(self, events: int) -> None:
        """One process, from its start to its crash."""
        checkpoint = self._begin()
        ends = self.loop.now + self.rng.expovariate(1 / self.customs.life_s)
        self.spawn(self._life(checkpoint))
        while self.loop.now < ends and self.loop.count < events:
            self.loop.run(500, until=lambda: self.loop.now >= ends)
            self._look()
        if self.loop.count < events:
            self._crash()

    def _begin(self) -> Checkpoint | None:
        """A fresh process, and who remembers what."""
        checkpoint = None
        if self.checkpoints and self.rng.random() < 0.95:
            checkpoint = self.rng.choice(self.checkpoints[-2:] + self.checkpoints[-1:] * 3)
        self.groups = [] if checkpoint is None else [group.copy() for group in checkpoint.groups]
        recorded = {
            group.member(agent): agent.outcome
            for group in self.groups
            for agent in group.agents
            if agent.outcome is not None
        }
        checker = self.ledger.begin(recorded)
        parts = (self.loop, self.rng, self.ledger, checker, self.weather, self.limits)
        self.process = Process(*parts, self.root, self.kinds)
        self.ended = []
        self.lives += 1
        return checkpoint

    def _crash(self) -> None:
        self.process.crash()
        for task in [*self.tasks.values(), *self.others]:
            task.cancel()
        self.tasks, self.others = {}, []
        self.loop.run(1)
        self.ledger.look_at_commits()

    async def _life(self, checkpoint: Checkpoint | None) -> None:
        controller = Controller(self)
        if checkpoint is not None:
            await controller.restore(checkpoint)
        for group in self.groups:
            self.start(group)
        self.spawn(self._dispatch())
        self.spawn(controller.work())
        self.spawn(controller.meddle())

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> None:
        self.others = [task for task in self.others if not task.done()]
        self.others.append(self.loop.start(coro))

    def _look(self) -> None:
        """What must hold between any two events."""
        self.process.book.check()
        if not self.jumped:
            self.ledger.look_at_lease(self.process.plane.phase.value)
        self.jumped = False
        table, open_ones = {str(each.session) for each in self.process.table.entries()}, self.ledger.open_sessions()
        demand(table == open_ones, f"the table holds other sessions than those that are open: {table ^ open_ones}")

    def _come_to_rest(self) -> None:
        """Nobody new comes, and all go their way to the end: then nothing is left of them."""
        self.stopped = True
        self.loop.run(300_000, until=lambda: not self.tasks)
        demand(not self.tasks, "agents never came to an end")
        for task in self.others:
            task.cancel()
        self.others = []
        self.spawn(self._last_retirement())
        self.loop.run()
        checker, book = self.ledger.checker, self.process.book
        checker.over()
        book.check()
        demand(not len(self.process.table) and not self.ledger.sessions, "a session was never freed")
        demand(not len(book._memory.backings), "something is remembered of sessions that have ended")
        if self.limits.ttl_s is not None:
            demand(not list(book.groups()) and not list(book.records()), "something was retained for ever")
        self.ledger.look_at_commits()

    async def _last_retirement(self) -> None:
        """Sessions whose replies were lost are nobody's."""
        await self.process.control("resume", self.process.plane.checkpoint_id or "none", self.loop.now + 60)
        await asyncio.sleep(60)
        left = frozenset(each.episode for each in self.ledger.sessions.values())
        if left:
            reply = await self.process.control("retire", "last", self.loop.now + 60, left)
            demand(reply.status == 200, f"a retire failed: {reply}")

    # -- agents ------------------------------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        """New groups."""
        while not self.stopped:
            await asyncio.sleep(self.rng.expovariate(self.customs.groups_each_s))
            if len(self.groups) < 40 and not self.stopped:
                self.names += 1
                size, by_id = self.rng.choice((2, 2, 3, 4)), self.rng.random() < self.customs.by_member_id
                group = Group(f"g{self.names}", size, by_id)
                careless = self.customs.careless
                names = (f"{group.name}.{slot}" for slot in range(size))
                group.agents = [Agent(name, n, self.rng.random() >= careless) for n, name in enumerate(names)]
                self.groups.append(group)
                self.start(group)
            if self.rng.random() < self.customs.jumps:
                self.loop.jump(self.rng.random() ** 3 * 100)
                self.jumped = True

    def start(self, group: Group) -> None:
        for agent in group.agents:
            if agent.step < DONE and id(agent) not in self.tasks:
                self.tasks[id(agent)] = self.loop.start(self._agent(group, agent))
                self.tasks[id(agent)].add_done_callback(lambda task, agent=agent: self._over(agent, task))  # type: ignore[misc]

    def _over(self, agent: Agent, task: asyncio.Task[None]) -> None:
        if self.tasks.get(id(agent)) is task:
            del self.tasks[id(agent)]

    async def _agent(self, group: Group, agent: Agent) -> None:
        """From wherever it is to its end."""
        rng = self.rng
        await asyncio.sleep(rng.random() * self.customs.spread_s * (20 if rng.random() < 0.03 else 1))
        while agent.step < DONE:
            if agent.step == NEW:
                await self._seed(agent)
            elif agent.step == SEEDED:
                await self._verify(group, agent)
            else:
                await self._linger(group, agent)
            await asyncio.sleep(rng.random() * 0.2)
        if group.is_done and group in self.groups:
            self.groups.remove(group)

    async def _seed(self, agent: Agent) -> None:
        rng = self.rng
        patience = rng.random() * 3 if rng.random() < self.customs.leaves / 4 else None
        reply = await self.process.seed(agent.episode, self._some_cookie(agent), patience)
        if reply.status == 409:
            agent.attempt += 1  # the episode was retired: its next attempt begins
        elif reply.session is not None:
            agent.session, agent.step = reply.session, SEEDED

    def _some_cookie(self, agent: Agent) -> str | None:
        """Its own, if it has one; now and then another's or a forged one."""
        luck = self.rng.random()
        if luck < self.customs.other_cookie and (sessions := list(self.ledger.sessions)):
            if luck < self.customs.other_cookie / 3:
                return f"{agent.session}.forged"
            return cookie_of(self.rng.choice(sessions))
        return None if agent.session is None else cookie_of(agent.session)

    async def _verify(self, group: Group, agent: Agent) -> None:
        rng, customs = self.rng, self.customs
        patience = rng.random() * 8 if rng.random() < customs.leaves else None
        if rng.random() < customs.asks_twice / 3:
            self.spawn(self._ask(group, agent, rng.random() * 5))
        reply = await self._ask(group, agent, patience)
        if reply.status == 200:
            await asyncio.sleep(rng.random() * 0.1)
            self._record(group, agent, reply)
        elif reply.status:
            self._refused(group, agent, reply)
        else:
            await asyncio.sleep(rng.random() * 5)

    async def _ask(self, group: Group, agent: Agent, patience: float | None) -> Reply:
        """One `/verify`."""
        luck = self.rng.random()
        cookie = None if agent.session is None else cookie_of(agent.session)
        if luck < self.customs.forgets_cookie + self.customs.other_cookie:
            cookie = None if luck < self.customs.forgets_cookie else self._some_cookie(agent)
            own = agent.session is not None and cookie == cookie_of(agent.session)
            agent.protected = agent.protected and own
        session = None if cookie is None or cookie.endswith(".forged") else cookie.rpartition(".")[0]
        request = Request(agent.episode, session, agent.protected and agent.careful, agent.careful)
        reply = await self.process.verify(self._arrival(group, agent), request, cookie, patience)
        if reply.status:
            if reply.status == 200:
                self.told["JudgeFailure" if reply.said["mask_sample"] else "Rewarded"] += 1
            self.trace = (self.trace * 31 + int(reply.said.get("reward", 0)) * 7 + agent.slot) % (2**61 - 1)
        return reply

    def _arrival(self, group: Group, agent: Agent) -> Arrival:
        self.ledger.serials += 1
        question = group.name.encode().ljust(32)
        answer = f"{group.name} #{group.attempt} {agent.slot}".encode().ljust(32)
        slot, name = (None, f"member {agent.slot}") if group.by_id else (agent.slot, None)
        named = (GroupId(group.name), group.attempt, group.size, slot, Fingerprint(question), Fingerprint(answer))
        return Arrival(*named, self.ledger.serials, group.name, name)

    def _record(self, group: Group, agent: Agent, reply: Reply) -> None:
        """The outcome is the agent's from now on, and must be what a sibling's run made. Who has no session any more
        may meet a group that formed anew (C23), or after retention had let go of it (L14)."""
        said = reply.said
        outcome = JudgeFailure(said["failure_reason"]) if said["mask_sample"] else Rewarded(said["reward"])
        forgotten = not agent.protected and agent.outcome not in (None, outcome)
        if (key := group.member(agent)[:2]) in self.ledger.anew or forgotten:
            self.ledger.may_form_anew(key)
            self.ledger.anew.discard(key)
            for each in group.agents:
                each.outcome = None
        demand(agent.outcome in (None, outcome), "an agent was told two outcomes")
        self.ledger.recorded_by(group.member(agent), outcome, [a.outcome for a in group.agents])
        agent.outcome, agent.step = outcome, max(agent.step, RECORDED)

    def _refused(self, group: Group, agent: Agent, reply: Reply) -> None:
        code = reply.said["code"]
        self.refused[code] += 1
        demand(code not in ("answer_conflict", "question_mismatch", "size_mismatch", "internal"), f"refused: {reply}")
        if code == "stale_attempt":
            agent.attempt, agent.step, agent.session = agent.attempt + 1, NEW, None
            agent.protected = False
        elif code != "overloaded":
            self._again(group)

    def _again(self, group: Group) -> None:
        """The trainer sends the whole group again, in the sessions that are open."""
        if (self.stopped and group.attempt > 5) or self.rng.random() < self.customs.abandons:
            self.abandon(group)
            return
        group.attempt += 1
        for agent in group.agents:
            self._stop(agent)
            agent.outcome = None
            agent.protected, agent.closes = True, False
            agent.step = NEW if agent.session is None or agent.step == DONE else SEEDED
            if agent.step == NEW:
                agent.session = None
                agent.attempt += 1
        self.start(group)

    def _stop(self, agent: Agent) -> None:
        task = self.tasks.get(id(agent))
        if task is not None and task is not asyncio.current_task():
            del self.tasks[id(agent)]
            task.cancel()

    def abandon(self, group: Group) -> None:
        for agent in group.agents:
            self._stop(agent)
            agent.step = DONE
            self.ended.append(agent.episode)
        if group in self.groups:
            self.groups.remove(group)

    async def _linger(self, group: Group, agent: Agent) -> None:
        """Recorded, not closed: it may ask again, and another process of its own closes late."""
        rng = self.rng
        await asyncio.sleep(rng.random() ** 2 * self.customs.lingers_s)
        if rng.random() < self.customs.asks_twice and agent.careful and not agent.closes:
            reply = await self._ask(group, agent, None)
            if reply.status == 200:
                self._record(group, agent, reply)
            return
        agent.closes = True
        if agent.careful or rng.random() < 0.5:
            reply = await self.process.close(agent.episode, self._own_cookie(agent))
            if not reply.status:
                return
        agent.step = DONE
        self.ended.append(agent.episode)

    @staticmethod
    def _own_cookie(agent: Agent) -> str | None:
        return None if agent.session is None else cookie_of(agent.session)


def _limits(rng: random.Random) -> Limits:
    counts = [1, 2, 10, 4096]
    return Limits(
        collection_timeout_s=rng.choice([30.0, 300.0]),
        judging_timeout_s=rng.choice([10.0, 100.0]),
        ttl_s=rng.choice([None, 1.0, 60.0, 600.0]),
        max_results=rng.choice(counts),
        max_attempt_records=rng.choice(counts),
    )


def _weather(rng: random.Random) -> Weather:
    return Weather(
        judge_s=rng.choice([0.1, 2.0, 20.0]),
        disk_fails=rng.choice([0.0, 0.01, 0.05]),
        thread_s=rng.choice([0.001, 0.2, 2.0]),
        lease_grace_s=rng.choice([1.0, 10.0, 60.0]),
    )


def _customs(rng: random.Random) -> Customs:
    return Customs(
        groups_each_s=rng.choice([0.2, 1.0, 5.0]),
        spread_s=rng.choice([0.0, 1.0, 4.0]),
        careless=rng.choice([0.0, 0.15, 1.0]),
        leaves=rng.choice([0.0, 0.2, 0.5]),
        lingers_s=rng.choice([1.0, 20.0, 200.0]),
        checkpoint_each_s=rng.choice([5.0, 30.0]),
        life_s=rng.choice([20.0, 120.0, 500.0]),
        jumps=rng.choice([0.0, 0.0, 0.02]),
    )
