"""Taking part in a run's checkpoints (C5-C25): what each control call does, once the control plane has admitted it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from groupjudge.answers.fingerprint import SCHEME
from groupjudge.checkpoints import files
from groupjudge.checkpoints.records import Episode, SessionRecord
from groupjudge.core.backing import SessionId
from groupjudge.core.snapshot import restored as restored_members
from groupjudge.core.snapshot import to_state
from groupjudge.errors import GroupJudgeError, InvalidCheckpoint
from groupjudge.service.control import ControlError, ControlPlane, Reply
from groupjudge.service.host import Host
from groupjudge.service.sessions import SessionTable
from groupjudge.service.visits import OpenEpisodes

log = structlog.get_logger(__name__)

SLICE = 256
"""Sessions that are looked at in one go: a millisecond or two of the loop (C26)."""

Scope = frozenset[Episode] | None
"""The episodes that a commit or restore is about; None: all."""


class Participant:
    """The server as a participant. Times of calls are Unix seconds (`deadline_ts`); inside they are the loop's."""

    def __init__(
        self,
        instance: str,
        root_dir: str | None,
        plane: ControlPlane,
        host: Host,
        table: SessionTable,
        episodes: OpenEpisodes,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._instance = instance
        self._root_dir = root_dir
        self._plane = plane
        self._host = host
        self._table = table
        self._episodes = episodes
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._work: dict[str, asyncio.Task[Reply]] = {}
        self._lease: asyncio.TimerHandle | None = None

    # -- the calls -------------------------------------------------------------------------------------------------

    def status(self) -> Reply:
        """Where this participant stands."""
        lease = self._plane.lease_until
        return {
            "kind": files.KIND,
            "instance": self._instance,
            "phase": self._plane.phase.value,
            "checkpoint_id": self._plane.checkpoint_id,
            "lease_expires_at": None if lease is None else self._as_wall(lease),
            "report": self._report(),
            "mode": "exported",
            "verify": "replay",
            "sessions": len(self._table),
        }

    def prepare(self, checkpoint_id: str, deadline_ts: float) -> Reply:
        """Close admission and hold outcomes. Nothing here has to be waited for (see `OpenEpisodes`)."""
        reply = self._plane.prepare(checkpoint_id, self._as_loop(deadline_ts))
        if reply is None:
            self._episodes.begin()
            self._host.hold()
            reply = self._plane.ready(checkpoint_id, {"report": self._report()})
        self._watch_lease()
        return reply

    async def commit(self, checkpoint_id: str, deadline_ts: float, checkpoint_dir: str, scope: Scope) -> Reply:
        """Export the sessions in scope and write them; a repeated call waits for the one that is writing."""
        directory = files.inside(checkpoint_dir, self._root_dir)
        asked = ("commit", str(directory), scope)
        reply = self._plane.commit(checkpoint_id, self._as_loop(deadline_ts), self._loop.time(), asked)
        self._watch_lease()
        if reply is not None:
            return reply
        work = partial(self._write, checkpoint_id, directory, scope)
        return await self._once("commit", checkpoint_id, self._as_loop(deadline_ts), work)

    async def restore(self, checkpoint_id: str, deadline_ts: float, checkpoint_dir: str, scope: Scope) -> Reply:
        """Read a checkpoint and take its sessions and outcomes up (C19-C21)."""
        directory = files.inside(checkpoint_dir, self._root_dir)
        asked = ("restore", str(directory), scope)
        is_fresh = self._plane.checkpoint_id is None
        reply = self._plane.restore(checkpoint_id, self._as_loop(deadline_ts), self._loop.time(), asked)
        if is_fresh and self._table.has_served:
            self._plane.restore_failed(checkpoint_id)
            raise ControlError("invalid_phase", "this process has served sessions: restore into a fresh one")
        self._watch_lease()
        if reply is not None:
            return reply
        work = partial(self._install, checkpoint_id, directory, scope)
        return await self._once("restore", checkpoint_id, self._as_loop(deadline_ts), work)

    def resume(self, checkpoint_id: str) -> Reply:
        """End or abort a checkpoint, or begin work after a restore."""
        was_active = self._plane.checkpoint_id
        reply = self._plane.resume(checkpoint_id)
        if was_active is not None and self._plane.checkpoint_id is None:
            self._go_on()
        return reply

    def renew(self, checkpoint_id: str, deadline_ts: float) -> Reply:
        """Extend the lease."""
        lease = self._plane.renew(checkpoint_id, self._as_loop(deadline_ts))
        self._watch_lease()
        return {"lease_expires_at": self._as_wall(lease)}

    async def retire(self, checkpoint_id: str, deadline_ts: float, episodes: frozenset[Episode]) -> Reply:
        """Refuse episodes from now on, wait for their requests in flight, and free their sessions (C24)."""
        deadline = self._as_loop(deadline_ts)
        self._plane.admits_retirement(checkpoint_id, deadline)
        self._watch_lease()
        self._table.retire(episodes)
        if not await self._episodes.until(lambda: not self._table.in_flight(episodes), deadline):
            busy = ", ".join(sorted(episode.key for episode in self._table.in_flight(episodes))[:10])
            raise ControlError("deadline_exceeded", f"requests of these episodes are still in flight: {busy}")
        for session in self._table.retired_sessions(episodes):
            self._drop(session)
        return {"retired": _keys(episodes)}

    def forget(self, checkpoint_id: str, deadline_ts: float, rollout_ids: Iterable[str]) -> Reply:
        """Refuse nothing of these rollouts any more."""
        self._plane.admits_retirement(checkpoint_id, self._as_loop(deadline_ts))
        self._watch_lease()
        forgotten = sorted(set(rollout_ids))
        self._table.forget(forgotten)
        return {"forgotten": forgotten}

    async def close(self) -> None:
        """Give up what is still being written or read."""
        if self._lease is not None:
            self._lease.cancel()
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    # -- commit ----------------------------------------------------------------------------------------------------

    async def _write(self, checkpoint_id: str, directory: Path, scope: Scope) -> Reply:
        try:
            records = await self._export(scope)
            manifest = await asyncio.to_thread(
                files.write, directory, self._instance, checkpoint_id, records, lambda: self._is_over(checkpoint_id)
            )
        except GroupJudgeError as error:
            log.warning("commit_failed", code=error.code)
            self._plane.write_failed(checkpoint_id)
            raise
        reply = {"manifest": manifest.as_dict(), "episode_ids": _keys(record.episode for record in records)}
        reply = self._plane.committed(checkpoint_id, reply)
        self._drop_left_out(scope)
        log.info("committed", sessions=len(records))
        return reply

    async def _export(self, scope: Scope) -> list[SessionRecord]:
        """The records of the open sessions in scope, a slice at a time; one that ended meanwhile is left out."""
        records: list[SessionRecord] = []
        for number, (session, entry) in enumerate(self._table, 1):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            if self._table.is_open(session) and (scope is None or entry.episode in scope):
                records.append(SessionRecord(session, entry.episode, self._state(session)))
        return records

    def _state(self, session: SessionId) -> Mapping[str, Any]:
        member = self._host.exported(session)
        return {} if member is None else to_state(member, SCHEME)

    def _is_over(self, checkpoint_id: str) -> bool:
        """Whether a write is to publish nothing more; asked from its thread."""
        return self._plane.checkpoint_id != checkpoint_id

    def _drop_left_out(self, scope: Scope) -> None:
        """C23: restored sessions that the commit left out and no request has used are gone."""
        for session, entry in self._table:
            if scope is not None and entry.restored and not entry.used and entry.episode not in scope:
                self._drop(session)

    # -- restore ---------------------------------------------------------------------------------------------------

    async def _install(self, checkpoint_id: str, directory: Path, scope: Scope) -> Reply:
        self._episodes.begin()
        try:
            manifest, records = await asyncio.to_thread(files.read, directory, self._instance)
            if self._is_over(checkpoint_id):
                raise ControlError("stale_checkpoint", "the checkpoint was resumed while it was read")
            episodes = self._take_up(manifest, records, scope)
        except BaseException:
            if not self._is_over(checkpoint_id):
                self._plane.restore_failed(checkpoint_id)
                self._go_on()
            raise
        log.info("restored", sessions=len(episodes))
        reply = {"source_checkpoint_id": manifest.checkpoint_id, "restored": _keys(episodes)}
        return self._plane.restored(checkpoint_id, reply)

    def _take_up(self, manifest: files.Manifest, records: list[SessionRecord], scope: Scope) -> list[Episode]:
        """Everything is checked before the first change."""
        states: list[tuple[SessionId, Mapping[str, Any], str]] = []
        seen: set[str] = set()
        for number, record in enumerate(records, 1):
            where = f"{manifest.records_file}, line {number}"
            if record.session_id in seen:
                raise InvalidCheckpoint(f"{where}: a session is there twice")
            seen.add(record.session_id)
            states.append((SessionId(record.session_id), record.state, where))
        members = restored_members(states, SCHEME)
        chosen = {record.session_id: _next(record.episode) for record in records if _is_in(record.episode, scope)}
        self._host.install([each for each in members if each.session in chosen])
        for session, episode in chosen.items():
            self._table.restore(SessionId(session), episode)
        return list(chosen.values())

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _once(
        self, name: str, checkpoint_id: str, deadline: float, work: Callable[[], Coroutine[Any, Any, Reply]]
    ) -> Reply:
        """Do the work, or wait for the same work that is being done. Neither a caller that leaves nor its deadline
        stops it: the same call may come again."""
        key = f"{name} {checkpoint_id}"
        task = self._work.get(key)
        if task is None:
            task = self._work[key] = asyncio.create_task(work())
            task.add_done_callback(lambda _: self._work.pop(key, None))
            task.add_done_callback(_seen)
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(task)
        except TimeoutError:
            raise ControlError("deadline_exceeded", f"the {name} is not done yet; send it again") from None

    def _drop(self, session: SessionId) -> None:
        if self._table.end(session):
            self._host.session_over(session, dropped=True)

    def _go_on(self) -> None:
        """Held outcomes are told first, then waiting requests go on (C15)."""
        self._host.release()
        self._episodes.resume()
        self._watch_lease()

    def _report(self) -> Reply:
        counts = {"inflight": 0, "sessions": len(self._table)}
        return {"ready": True, "blockers": [], "blocker_count": 0, "counts": counts, "restarts": []}

    def _watch_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None
        if (until := self._plane.lease_until) is not None:
            self._lease = self._loop.call_at(until, self._lease_over)

    def _lease_over(self) -> None:
        """C11: the controller is gone; go on without it."""
        gone = self._plane.expire(self._loop.time())
        if gone is None:
            self._watch_lease()
        else:
            log.warning("lease_expired", checkpoint=gone)
            self._go_on()

    def _as_loop(self, unix: float) -> float:
        return self._loop.time() + unix - self._wall()

    def _as_wall(self, at: float) -> float:
        return round(self._wall() + at - self._loop.time(), 3)


def _seen(task: asyncio.Task[Reply]) -> None:
    """Whoever asked may have left: the failure was logged where it happened."""
    if not task.cancelled():
        task.exception()


def _next(episode: Episode) -> Episode:
    return Episode(episode.rollout_id, episode.attempt + 1)


def _is_in(episode: Episode, scope: Scope) -> bool:
    return scope is None or episode in scope


def _keys(episodes: Iterable[Episode]) -> list[str]:
    return sorted({episode.key for episode in episodes})
