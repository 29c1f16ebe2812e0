"""The controller of a simulated training run: checkpoints, restores, retirements, and what goes wrong on its side."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupjudge.checkpoints.records import Episode

from .ledger import demand
from .process import Reply

if TYPE_CHECKING:
    from .training import Group, Run

DONE = 3


@dataclass(frozen=True)
class Checkpoint:
    """One that was committed, and what everybody remembered while it was open."""

    directory: Path
    scope: frozenset[Episode] | None
    groups: list[Group]


class Controller:
    """It repeats, reorders and abandons its calls."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def _soon(self) -> float:
        return self.run.loop.now + 60

    def _fresh_id(self) -> str:
        self.run.names += 1
        return f"ck{self.run.names}"

    async def _call(self, name: str, checkpoint_id: str, *args: Any) -> Reply:
        """A call that may be repeated, or whose caller may give up waiting (then: LOST)."""
        rng = self.run.rng
        deadline = self.run.loop.now + rng.choice((0.05, 5, 60, 60))
        if rng.random() < 0.2:
            self.run.spawn(self.run.process.control(name, checkpoint_id, deadline, *args))
            await asyncio.sleep(rng.random() * 0.2)
        if rng.random() < 0.05:
            self.run.spawn(self.run.process.control(name, checkpoint_id, deadline, *args))
            return Reply(0, {})
        return await self.run.process.control(name, checkpoint_id, deadline, *args)

    async def _until_done(self, name: str, checkpoint_id: str, *args: Any) -> Reply:
        """The same call until it says yes or no for good."""
        for _ in range(20):
            reply = await self._call(name, checkpoint_id, *args)
            if reply.status and reply.said.get("code") not in ("deadline_exceeded", "write_failed"):
                return reply
            await asyncio.sleep(self.run.rng.random())
        return reply

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Until it stands, then until it is resumed; some agents do not wait for that."""
        rng, name = self.run.rng, self._fresh_id()
        unfinished = [agent for group in self.run.groups for agent in group.agents if agent.step < DONE]
        scope = None if rng.random() < 0.5 else frozenset(agent.episode for agent in unfinished)
        if rng.random() < 0.1:
            await self._restore_a_broken_copy(checkpoint)
        reply = await self._until_done("restore", name, checkpoint.directory, scope)
        while reply.said.get("code") == "stale_checkpoint":  # its lease was over before it was read
            name = self._fresh_id()
            reply = await self._until_done("restore", name, checkpoint.directory, scope)
        demand(reply.status in (0, 200) or reply.said.get("code") == "invalid_phase", f"a restore failed: {reply}")
        demand(self.run.ledger.installed is not None, "a restore installed nothing")
        self.run.restores += 1
        for group in list(self.run.groups):
            self._go_on_from(group, checkpoint.scope)
        for group in self.run.groups:
            if rng.random() < 0.2:
                self.run.start(group)
        await asyncio.sleep(rng.random() * 3)
        await self._until_done("resume", name)

    def _go_on_from(self, group: Group, scope: frozenset[Episode] | None) -> None:
        """Unfinished episodes go on in their next attempt; a group with one that was left out is given up."""
        unfinished = [agent for agent in group.agents if agent.step < DONE]
        if scope is not None and any(agent.episode not in scope for agent in unfinished):
            self.run.groups.remove(group)
            return
        for agent in unfinished:
            agent.attempt += 1

    async def _restore_a_broken_copy(self, checkpoint: Checkpoint) -> None:
        """It is refused, and nothing is there of it."""
        copy = self.run.root / self._fresh_id()
        shutil.copytree(checkpoint.directory, copy)
        path = next(copy.rglob("*.jsonl"))
        data = bytearray(path.read_bytes())
        if data:
            data[self.run.rng.randrange(len(data))] ^= 1
            path.write_bytes(data)
            reply = await self.run.process.control_broken(self._fresh_id(), self._soon(), copy)
            demand(reply.said.get("code") == "invalid_checkpoint_state", f"a broken checkpoint was taken: {reply}")
            demand(
                not len(self.run.process.table) and not list(self.run.process.book.groups()),
                "a broken one left something",
            )

    async def work(self) -> None:
        """Checkpoints, retirements, and what a controller does wrong."""
        rng, customs = self.run.rng, self.run.customs
        while True:
            await asyncio.sleep(rng.expovariate(1 / customs.checkpoint_each_s))
            if rng.random() < customs.checkpoint_each_s / customs.retire_each_s:
                await self._retire()
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        rng, name = self.run.rng, self._fresh_id()
        reply = await self._call("prepare", name)
        if reply.status != 200:
            return
        await asyncio.sleep(rng.random() * rng.choice((0.1, 10)))
        if rng.random() < 0.1:
            return  # nobody resumes it: its lease will run out
        if rng.random() < 0.85:
            await self._commit(name)
        if rng.random() < 0.1:
            self.run.spawn(self.run.process.control("renew", name, self._soon()))
            await asyncio.sleep(rng.random() * 10)
        await self._until_done("resume", name)
        if rng.random() < 0.2:
            late = await self.run.process.control("prepare", name, self._soon())
            demand(late.status in (0, 409), f"a checkpoint that was resumed was opened again: {late}")

    async def _commit(self, name: str) -> None:
        """What everybody remembers is taken while the checkpoint is open."""
        rng, directory = self.run.rng, self.run.root / name
        groups = [group.copy() for group in self.run.groups]
        scope = None
        if rng.random() < 0.4:
            keep = [group for group in groups if rng.random() < 0.9]
            scope = frozenset(agent.episode for group in keep for agent in group.agents)
            self._left_out(scope)
        if rng.random() < 0.2:  # nobody waits for it, and a resume may come while it is written
            self.run.spawn(self.run.process.control("commit", name, self._soon(), directory, scope))
            await asyncio.sleep(rng.random() * 0.3)
            if rng.random() < 0.5:
                return
        reply = await self._until_done("commit", name, directory, scope)
        if reply.status == 200:
            self.run.checkpoints.append(Checkpoint(directory, scope, groups))
            for old in self.run.checkpoints[:-4]:
                shutil.rmtree(old.directory)
            self.run.checkpoints = self.run.checkpoints[-4:]

    def _left_out(self, scope: frozenset[Episode]) -> None:
        """Agents whose restored session goes with the commit have none any more."""
        for group in self.run.groups:
            for agent in group.agents:
                agent.protected = agent.protected and agent.episode in scope

    async def _retire(self) -> None:
        """Episodes that ended, and now and then some that did not: their agents are stopped before."""
        rng = self.run.rng
        if self.run.groups and rng.random() < 0.3:
            self.run.abandon(rng.choice(self.run.groups))
        if not self.run.ended:
            return
        ended, self.run.ended = frozenset(self.run.ended), []
        name = self._fresh_id()
        reply = await self._call("retire", name, ended)
        if reply.status != 200:
            self.run.ended += sorted(ended)
            return
        if rng.random() < 0.3:  # an agent that was not told
            await self.run.process.seed(rng.choice(sorted(ended)), None, None)
        if rng.random() < 0.5:
            await self._call("forget", name, sorted({each.rollout_id for each in ended}))

    async def meddle(self) -> None:
        """Calls that come late, twice, or from a controller that is not in charge."""
        rng = self.run.rng
        while True:
            await asyncio.sleep(rng.expovariate(1 / 40))
            name = f"ck{rng.randint(max(1, self.run.names - 30), self.run.names + 1)}"
            call = rng.choice(("prepare", "commit", "restore", "resume", "renew", "retire", "forget"))
            if name == self.run.process.plane.checkpoint_id or self.run.process.plane.checkpoint_id is None:
                call = rng.choice(("commit", "renew", "restore"))
            args: tuple[Any, ...] = ()
            if call in ("commit", "restore"):
                args = (self.run.root / f"meddled {name}", None)
            elif call == "retire":
                args = (frozenset((Episode("nobody"),)),)
            elif call == "forget":
                args = (["nobody"],)
            if call != "restore" or self.run.process.plane.checkpoint_id is not None:
                await self.run.process.control(call, name, self._soon(), *args)
