"""Taking part in a run's checkpoints (C5-C25): what each control call does, once the control plane has admitted it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import structlog

from groupjudge.answers.fingerprint import SCHEME
from groupjudge.checkpoints import files
from groupjudge.checkpoints.records import Episode, SessionRecord
from groupjudge.core.backing import SessionId
from groupjudge.core.memory import Restored
from groupjudge.core.snapshot import restored as restored_members
from groupjudge.errors import GroupJudgeError, InvalidCheckpoint, ShuttingDown
from groupjudge.service.control import ControlError, ControlPlane, Reply
from groupjudge.service.host import Host
from groupjudge.service.session_lines import SessionLines
from groupjudge.service.sessions import OpenSession, SessionTable, newest_attempts
from groupjudge.service.visits import OpenEpisodes

log = structlog.get_logger(__name__)

SLICE = 512
"""Sessions that are looked at in one go: a millisecond or two of the loop (C26)."""

LONGEST_S = 1e9
"""Deadlines further away than some 30 years, in either direction, count as that far."""
ASK_AGAIN_S = 0.002
RUN = 4096

T = TypeVar("T")
Scope = frozenset[Episode] | None
"""The episodes that a commit or restore is about; None: all."""


class ReadBack(NamedTuple):
    """A checkpoint that was read and verified: its sessions in scope with the episodes that they are bound to now."""

    checkpoint_id: str
    sessions: Mapping[SessionId, Episode]
    members: Sequence[Restored]


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
        self._lines = SessionLines(host)
        episodes.on_stay = self._lines.write
        self._loop = asyncio.get_running_loop()
        self._work: dict[str, asyncio.Task[Reply]] = {}
        self._publication = files.Publication()
        self._closed = False
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
        deadline = self._as_loop(deadline_ts)
        directory = await asyncio.to_thread(files.inside, checkpoint_dir, self._root_dir, self._instance)
        asked = ("commit", str(directory), scope)
        try:
            reply = self._plane.commit(checkpoint_id, deadline, self._loop.time(), asked)
        finally:
            self._watch_lease()
        if reply is not None:
            return reply
        return await self._once(
            "commit", checkpoint_id, deadline, partial(self._write, checkpoint_id, directory, scope)
        )

    async def restore(self, checkpoint_id: str, deadline_ts: float, checkpoint_dir: str, scope: Scope) -> Reply:
        """Read a checkpoint and take its sessions and outcomes up (C19-C21)."""
        deadline = self._as_loop(deadline_ts)
        directory = await asyncio.to_thread(files.inside, checkpoint_dir, self._root_dir, self._instance)
        asked = ("restore", str(directory), scope)
        is_first = self._plane.checkpoint_id is None
        try:
            reply = self._plane.restore(checkpoint_id, deadline, self._loop.time(), asked)
            if is_first and not self._table.is_fresh:
                self._plane.restore_failed(checkpoint_id)
                raise ControlError("invalid_phase", "this process has served sessions: restore into a fresh one")
        finally:
            self._watch_lease()
        if reply is not None:
            return reply
        self._episodes.begin()
        work = partial(self._install, checkpoint_id, directory, scope)
        return await self._once("restore", checkpoint_id, deadline, work)

    async def resume(self, checkpoint_id: str) -> Reply:
        """End or abort a checkpoint, or begin work after a restore. Nothing is published once it has replied."""
        while self._plane.checkpoint_id == checkpoint_id and not self._publication.stop():  # noqa: ASYNC110 -- a thread
            await asyncio.sleep(ASK_AGAIN_S)
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
        newest = newest_attempts(episodes)
        if not await self._episodes.until(lambda: not self._table.in_flight(newest), deadline):
            busy = ", ".join(sorted(episode.key[:100] for episode in self._table.in_flight(newest))[:10])
            raise ControlError("deadline_exceeded", f"requests of these episodes are still in flight: {busy}")
        self._plane.admits_retirement(checkpoint_id, deadline)  # a checkpoint may have been opened meanwhile
        await self._drop_all(self._table.sessions_of(newest), lambda entry: True)
        return {"retired": await asyncio.to_thread(_keys, episodes)}

    def forget(self, checkpoint_id: str, deadline_ts: float, rollout_ids: Iterable[str]) -> Reply:
        """Refuse nothing of these rollouts any more."""
        self._plane.admits_retirement(checkpoint_id, self._as_loop(deadline_ts))
        self._watch_lease()
        forgotten = sorted(set(rollout_ids))
        self._table.forget(forgotten)
        return {"forgotten": forgotten}

    async def close(self) -> None:
        """Give up what is still being written or read; who waits for it is told that the server stops."""
        self._closed = True
        self._publication.stop()
        if self._lease is not None:
            self._lease.cancel()
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    # -- commit ----------------------------------------------------------------------------------------------------

    def _write(self, checkpoint_id: str, directory: Path, scope: Scope) -> Coroutine[Any, Any, Reply]:
        """A new write, which a resume can stop from now on."""
        self._publication = files.Publication()
        return self._writing(checkpoint_id, directory, scope, self._publication)

    async def _writing(
        self, checkpoint_id: str, directory: Path, scope: Scope, publication: files.Publication
    ) -> Reply:
        pieces: SimpleQueue[bytes | None] = SimpleQueue()
        coming = iter(pieces.get, None)
        write = partial(files.write, directory, self._instance, checkpoint_id, coming, publication)
        writing = asyncio.create_task(asyncio.to_thread(write))
        writing.add_done_callback(_seen)
        try:
            found = await self._export(scope, pieces, publication)
            manifest, keys = await asyncio.gather(writing, asyncio.to_thread(_in_order, found))
        except GroupJudgeError as error:
            log.warning("commit_failed", checkpoint=checkpoint_id, code=error.code, why=str(error)[:300])
            self._plane.write_failed(checkpoint_id)
            raise
        reply = self._plane.committed(checkpoint_id, {"manifest": manifest.as_dict(), "episode_ids": keys})
        await self._drop_left_out(scope)
        log.info("committed", checkpoint=checkpoint_id, sessions=len(found))
        return reply

    async def _export(
        self, scope: Scope, pieces: SimpleQueue[bytes | None], publication: files.Publication
    ) -> list[str]:
        """Hand the lines of the open sessions in scope to the thread that writes, a slice at a time; the keys of their
        episodes. One that ended meanwhile is left out."""
        keys: list[str] = []
        try:
            for part in _slices(self._table.entries()):
                chosen = [each for each in part if each.is_open and (scope is None or each.episode in scope)]
                pieces.put("".join(self._lines.lines(chosen)).encode())
                keys += [each.key for each in chosen]
                await asyncio.sleep(0)
        except BaseException:
            publication.stop()
            raise
        finally:
            pieces.put(None)
        return keys

    async def _drop_left_out(self, scope: Scope) -> None:
        """C23: restored sessions that the commit left out and no request has used are gone."""
        if scope is not None:
            left_out = [each for each in self._table if each.restored and each.episode not in scope]
            await self._drop_all(left_out, lambda entry: not entry.used)

    # -- restore ---------------------------------------------------------------------------------------------------

    async def _install(self, checkpoint_id: str, directory: Path, scope: Scope) -> Reply:
        """Everything is checked before the first change."""
        try:
            found = await asyncio.to_thread(_read_back, directory, self._instance, scope)
            if self._plane.checkpoint_id != checkpoint_id:
                raise ControlError("stale_checkpoint", "the checkpoint was resumed while it was read")
            self._host.install(found.members)
            for session, episode in found.sessions.items():
                self._table.restore(session, episode)
        except BaseException as error:
            log.warning("restore_failed", checkpoint=checkpoint_id, error=type(error).__name__)
            if self._plane.checkpoint_id == checkpoint_id:
                self._plane.restore_failed(checkpoint_id)
                self._go_on()
            raise
        log.info("restored", checkpoint=checkpoint_id, sessions=len(found.sessions))
        reply = {"source_checkpoint_id": found.checkpoint_id, "restored": _keys(found.sessions.values())}
        return self._plane.restored(checkpoint_id, reply)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _once(
        self, name: str, checkpoint_id: str, deadline: float, work: Callable[[], Coroutine[Any, Any, Reply]]
    ) -> Reply:
        """Do the work, or wait for the same work that is being done. Neither a caller that leaves nor its deadline
        stops it: the same call may come again."""
        if self._closed:
            raise ShuttingDown("the server is stopping")
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
        except asyncio.CancelledError:
            if self._closed and task.cancelled():
                raise ShuttingDown("the server is stopping") from None
            raise
        finally:
            del task  # it holds the error that it raised, and that this frame

    async def _drop_all(self, entries: Sequence[OpenSession], is_over: Callable[[OpenSession], bool]) -> None:
        """Retired or deleted sessions, a slice at a time: each is asked about when its turn has come."""
        for part in _slices(entries):
            for entry in part:
                if is_over(entry) and self._table.end(entry.session):
                    self._host.session_over(entry.session, dropped=True)
            await asyncio.sleep(0)

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
        now, until = self._loop.time(), self._plane.lease_until
        if until is not None and until <= now and not self._publication.stop():
            self._lease = self._loop.call_later(ASK_AGAIN_S, self._lease_over)
        elif (gone := self._plane.expire(now)) is None:
            self._watch_lease()
        else:
            log.warning("lease_expired", checkpoint=gone)
            self._go_on()

    def _as_loop(self, unix: float) -> float:
        """C11: what remains until then, from now on."""
        return self._loop.time() + min(max(unix - self._wall(), -LONGEST_S), LONGEST_S)

    def _as_wall(self, at: float) -> float:
        return round(self._wall() + at - self._loop.time(), 3)


def _slices(every: Sequence[T]) -> Iterator[Sequence[T]]:
    return (every[at : at + SLICE] for at in range(0, len(every), SLICE))


def _seen(task: asyncio.Task[Any]) -> None:
    """Whoever asked may have left: the failure was logged where it happened."""
    if not task.cancelled():
        task.exception()


def _read_back(directory: Path, instance: str, scope: Scope) -> ReadBack:
    """In a thread: read a checkpoint and check all of it, within the scope or not. Raises InvalidCheckpoint."""
    manifest, records = files.read(directory, instance)
    states: list[tuple[SessionId, Mapping[str, Any], str]] = []
    seen: set[str] = set()
    for number, record in enumerate(records, 1):
        where = f"{manifest.records_file}, line {number}"
        if record.session_id in seen:
            raise InvalidCheckpoint(f"{where}: a session is there twice")
        seen.add(record.session_id)
        states.append((SessionId(record.session_id), record.state, where))
    members = restored_members(states, SCHEME)
    sessions = {SessionId(each.session_id): _next(each.episode) for each in _in(records, scope)}
    return ReadBack(manifest.checkpoint_id, sessions, [each for each in members if each.session in sessions])


def _in(records: Iterable[SessionRecord], scope: Scope) -> Iterable[SessionRecord]:
    return (record for record in records if scope is None or record.episode in scope)


def _next(episode: Episode) -> Episode:
    return Episode(episode.rollout_id, episode.attempt + 1)


def _keys(episodes: Iterable[Episode]) -> list[str]:
    return _in_order([episode.key for episode in episodes])


def _in_order(keys: Iterable[str]) -> list[str]:
    """Sorted, each once. In runs first: to sort very many at once would hold every other thread up."""
    keys = list(dict.fromkeys(keys))
    runs = (sorted(keys[at : at + RUN]) for at in range(0, len(keys), RUN))
    return sorted(chain.from_iterable(runs))
