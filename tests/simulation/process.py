"""One life of the server in the simulation: the real host, sessions, control plane and participant, without sockets.

What a client does with it goes through the methods of `Process`; each tells the ledger what passed at the edge.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from starlette.datastructures import Headers
from starlette.types import Scope

from groupjudge.checkpoints import files
from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Effect, Release, Settle, StartJudging, StopJudging
from groupjudge.core.memory import Restored
from groupjudge.errors import GroupJudgeError, JudgeFailed
from groupjudge.model import Arrival, GroupFailure, JudgeFailure, Judgement, Run, Ticket
from groupjudge.scoring import NotFinite
from groupjudge.service.bodies import Disconnected
from groupjudge.service.checkpointing import Participant
from groupjudge.service.control import ControlPlane
from groupjudge.service.control_routes import STATUS
from groupjudge.service.host import Host
from groupjudge.service.sessions import Cookies, SessionTable
from groupjudge.service.verify import Verify
from groupjudge.service.visits import Door, OpenEpisodes

from .ledger import INSTANCE, Ledger, LifeChecker, Request, demand
from .surroundings import Analyst, Reader, Wire
from .virtual import LIFE, VirtualLoop

COOKIES = Cookies("s" * 64)
WALL = 1_800_000_000.0


class Reply(NamedTuple):
    """What a client gets; status 0: the server is gone."""

    status: int
    said: dict[str, Any]
    session: str | None = None


LOST = Reply(0, {})


@dataclass(frozen=True)
class Kinds:
    """The parts that a test may exchange for broken ones."""

    book: type[Book] = Book
    table: type[SessionTable] = SessionTable
    plane: type[ControlPlane] = ControlPlane
    episodes: type[OpenEpisodes] = OpenEpisodes
    participant: type[Participant] = Participant
    publication: type[files.Publication] = files.Publication


@dataclass(frozen=True)
class Weather:
    """How likely things go wrong for a server, from 0 to 1, and how slow it is, in seconds."""

    judge_s: float = 2.0
    judge_sleeps: float = 0.02
    judge_fails: float = 0.08
    judge_errs: float = 0.02
    judge_never: float = 0.01
    clock_slips: float = 0.02
    reply_stalls: float = 0.05
    disk_fails: float = 0.01
    thread_s: float = 0.2
    lease_grace_s: float = 5.0


def watched(kind: type[Book]) -> type[Book]:
    """A book whose inputs and effects the checker hears."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        checker: LifeChecker

        def __init__(self, limits: Limits) -> None:
            super().__init__(limits)
            self.heard: list[Effect] = []

        def arrive(self, arrival: Arrival, now: float, session: SessionId | None = None) -> Ticket:
            checker = self.checker
            promised = checker.ledger.promised(arrival)
            try:
                ticket: Ticket = super().arrive(arrival, now, session)
            except GroupJudgeError as refusal:
                demand(not promised, f"an outcome that a checkpoint held was refused: {refusal}")
                raise
            checker.accepted(ticket, arrival)
            checker.ledger.brought(arrival, session)
            self._hear()
            if ticket in checker.open:
                checker.formed_anew(arrival)
            return ticket

        def leave(self, ticket: Ticket) -> None:
            if ticket in self.checker.open:
                self.checker.left(ticket)
            super().leave(ticket)

        def judged(self, run: Run, judgement: Judgement, now: float) -> None:
            self._reports(run, now)
            super().judged(run, judgement, now)

        def judging_failed(self, run: Run, why: JudgeFailure | GroupFailure, now: float) -> None:
            self._reports(run, now)
            super().judging_failed(run, why, now)

        def session_over(self, session: SessionId, *, dropped: bool, now: float) -> None:
            super().session_over(session, dropped=dropped, now=now)
            if dropped:
                self.checker.ledger.dropped_session(session)

        def install(self, members: list[Restored], now: float) -> None:
            super().install(members, now)
            self.checker.ledger.installs()

        def drain(self) -> list[Effect]:
            self._hear()
            self.checker.batch_over()
            effects, self.heard = self.heard, []
            return effects

        def _reports(self, run: Run, now: float) -> None:
            self.advance(now)
            self._hear()
            self.checker.judge_reports(run)

        def _hear(self) -> None:
            """What a deadline did comes before what the input does."""
            effects = super().drain()
            for effect in effects:
                kind = type(effect)
                if kind is Settle:
                    self.checker.settled(effect)
                elif kind is Release:
                    self.checker.released(effect)
                elif kind is StartJudging:
                    self.checker.judging_started(effect)
                elif kind is StopJudging:
                    self.checker.judging_stopped(effect.run)
            self.heard += effects

    return Watched


class Process:
    """From its start to its crash."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, ledger: Ledger, checker: LifeChecker, weather: Weather,
        limits: Limits, root: Path, kinds: Kinds,
    ) -> None:  # fmt: skip
        self.alive = True
        self._loop, self._rng, self._ledger, self._weather = loop, rng, ledger, weather
        self._clients: dict[asyncio.Future[Reply], None] = {}
        self._written: dict[str, list[Path]] = {}
        self._context = contextvars.copy_context()
        self._context.run(self._start, checker, limits, root, kinds)

    def _start(self, checker: LifeChecker, limits: Limits, root: Path, kinds: Kinds) -> None:
        LIFE.set(self)
        self.book = watched(kinds.book)(limits)
        self.book.checker = checker  # type: ignore[attr-defined]
        self.host = Host(self.book, self._judge, self, clock=self._clock)
        self.table = kinds.table()
        ledger, process = self._ledger, self

        class Begins(kinds.episodes):  # type: ignore[name-defined, misc]
            def begin(self) -> None:
                super().begin()
                ledger.is_busy = True

        self.episodes: OpenEpisodes = Begins(self.table, COOKIES, Door(), self._session_over)
        self.plane = kinds.plane(self._weather.lease_grace_s)

        class Watched(kinds.participant):  # type: ignore[name-defined, misc]
            def _write(self, checkpoint_id: str, directory: Path, scope: Any) -> Any:
                ledger.commit_begins(directory, scope)
                return super()._write(checkpoint_id, directory, scope)

            def _go_on(self) -> None:
                if not process.alive:
                    return  # what is left of a process that was killed
                ledger.resumed()
                super()._go_on()
                ledger.went_on()

        parts = (self.plane, self.host, self.table, self.episodes)
        self.participant: Participant = Watched(INSTANCE, str(root), *parts, wall=self.wall)
        self._verify = Verify(self.host, cast(Any, Reader()), cast(Any, Analyst()), self.episodes, cast(Any, self))

    # -- what the parts ask ------------------------------------------------------------------------------------------

    def wall(self) -> float:
        return WALL + self._loop.now

    def _clock(self) -> float:
        return self._loop.now - 0.5 if self._rng.random() < self._weather.clock_slips else self._loop.now

    def _session_over(self, session: SessionId) -> None:
        self.host.session_over(session, dropped=False)

    def group_ended(self, kind: str, seconds: float) -> None:
        """Nobody counts."""

    def rewarded(self, rewards: object) -> None:
        """Nobody counts."""

    def failed(self, group: str, attempt: int, why: str) -> None:
        """Nobody counts."""

    def read(self, size: int) -> None:
        """Nobody counts."""

    def replied(self, route: str, code: str) -> None:
        """Nobody counts."""

    async def _judge(self, topic: object, materials: Any) -> Judgement:
        """Each answer is worth its serial number."""
        rng, weather = self._rng, self._weather
        if rng.random() < weather.judge_never:
            await self._loop.create_future()
        await asyncio.sleep(rng.random() * weather.judge_s * (40 if rng.random() < weather.judge_sleeps else 1))
        luck = rng.random()
        if luck < weather.judge_fails:
            raise JudgeFailed(f"no verdict on {materials}", "ill")
        if luck < weather.judge_fails + weather.judge_errs:
            raise NotFinite("a reward is not finite")
        return Judgement(tuple(map(float, materials)), (), None)

    # -- a client's side ---------------------------------------------------------------------------------------------

    async def verify(self, arrival: Arrival, request: Request, cookie: str | None, patience: float | None) -> Reply:
        """Send a member and wait for its outcome, or so many seconds."""
        gone = self._loop.create_future()
        try:
            async with asyncio.timeout(patience):
                return await self._asked(self._serve(arrival, request, cookie, gone))
        except TimeoutError:
            return LOST
        finally:
            if self.alive and not gone.done():
                gone.set_result(None)

    async def seed(self, episode: Episode, cookie: str | None, patience: float | None) -> Reply:
        """A session."""
        gone = self._loop.create_future()
        try:
            async with asyncio.timeout(patience):
                return await self._asked(self._seed(episode, cookie, gone))
        except TimeoutError:
            return LOST
        finally:
            if self.alive and not gone.done():
                gone.set_result(None)

    async def close(self, episode: Episode, cookie: str | None) -> Reply:
        """The session is over."""
        return await self._asked(self._close(episode, cookie))

    async def control(self, name: str, checkpoint_id: str, deadline: float, *args: Any) -> Reply:
        """A control call; `deadline` is of the loop's time."""
        return await self._asked(self._control(name, checkpoint_id, deadline, args))

    async def control_broken(self, checkpoint_id: str, deadline: float, directory: Path) -> Reply:
        """A restore of a directory that nobody may take."""
        return await self._asked(self._broken(checkpoint_id, deadline, directory))

    def crash(self) -> None:
        """Nothing of it goes on; whoever waits is told so."""
        self.alive = False
        for client in self._clients:
            if not client.done():
                client.set_result(LOST)

    async def _asked(self, coro: Coroutine[Any, Any, Reply]) -> Reply:
        if not self.alive:
            coro.close()
            return LOST
        client: asyncio.Future[Reply] = self._loop.create_future()
        self._clients[client] = None
        self._loop.start(self._answered(coro, client), self._context.copy())
        try:
            return await client
        finally:
            del self._clients[client]

    async def _answered(self, coro: Coroutine[Any, Any, Reply], client: asyncio.Future[Reply]) -> None:
        reply = await coro
        await asyncio.sleep(self._rng.random() * 0.05)
        if not client.done():
            client.set_result(reply)

    # -- the server's side -------------------------------------------------------------------------------------------

    async def _serve(self, arrival: Arrival, request: Request, cookie: str | None, gone: asyncio.Future[None]) -> Reply:
        ledger, rng = self._ledger, self._rng
        serial = cast(int, arrival.material)
        retired = ledger.is_retired(request.episode)
        if not retired:
            request.session = ledger.used(request.session, request.episode)
            ledger.in_flight[serial] = request
        wire = Wire(arrival, gone, rng.random() * 3 if rng.random() < 0.1 else 0.0, rng.random() * self._stalls())
        await self._verify(_scope(request.episode, cookie, follows=request.follows), wire.receive, wire.send)
        demand(
            retired == (wire.code == "stale_attempt"), "a retired episode's request was let in, or another's refused"
        )
        if not retired:
            ledger.verify_ended(serial, told=wire.status == 200)
        return Reply(wire.status, wire.said)

    def _stalls(self) -> float:
        return 5.0 if self._rng.random() < self._weather.reply_stalls else 0.0

    async def _seed(self, episode: Episode, cookie: str | None, gone: asyncio.Future[None]) -> Reply:
        scope = _scope(episode, cookie, follows=False)
        try:
            given = await self.episodes.seed(scope, Headers(scope=scope), Wire(None, gone).receive)
        except Disconnected:
            return LOST
        except GroupJudgeError as error:
            demand((error.code == "stale_attempt") == self._ledger.is_retired(episode), f"a seed was refused: {error}")
            return Reply(409, {"code": error.code})
        session = _session_in(given)
        self._ledger.seeded(session, episode)
        self._ledger.used(session, episode)
        return Reply(200, {}, session)

    async def _close(self, episode: Episode, cookie: str | None) -> Reply:
        scope = _scope(episode, cookie, follows=False)
        await self.episodes.close(scope, Headers(scope=scope))
        session = cookie and cookie.rpartition(".")[0]
        if (named := self._ledger.used(session, episode)) is not None:
            demand(not self._ledger.is_busy, "a session was closed while a checkpoint is open")
            self._ledger.ended(named)
        return Reply(200, {})

    async def _control(self, name: str, checkpoint_id: str, deadline: float, args: tuple[Any, ...]) -> Reply:
        ledger = self._ledger
        call = cast(Callable[..., Any], getattr(self, f"_{name}"))
        ledger.extended(deadline + self._weather.lease_grace_s)
        try:
            return Reply(200, await call(checkpoint_id, deadline, *args))
        except GroupJudgeError as error:
            return _refused(error)
        finally:
            ledger.look_at_commits()

    async def _prepare(self, checkpoint_id: str, deadline: float) -> dict[str, Any]:
        reply = self.participant.prepare(checkpoint_id, WALL + deadline)
        self._ledger.prepared(deadline + self._weather.lease_grace_s)
        return reply

    async def _commit(self, checkpoint_id: str, deadline: float, directory: Path, scope: Any) -> dict[str, Any]:
        self._written.setdefault(checkpoint_id, []).append(directory)
        reply = await self.participant.commit(checkpoint_id, WALL + deadline, str(directory), scope)
        self._ledger.committed(directory, scope, reply["episode_ids"])
        return reply

    async def _restore(self, checkpoint_id: str, deadline: float, directory: Path, scope: Any) -> dict[str, Any]:
        self._ledger.restore_begins(directory, scope)
        reply = await self.participant.restore(checkpoint_id, WALL + deadline, str(directory), scope)
        self._ledger.restored(reply["restored"])
        return reply

    async def _broken(self, checkpoint_id: str, deadline: float, directory: Path) -> Reply:
        self._ledger.extended(deadline + self._weather.lease_grace_s)
        try:
            return Reply(200, await self.participant.restore(checkpoint_id, WALL + deadline, str(directory), None))
        except GroupJudgeError as error:
            return _refused(error)

    async def _resume(self, checkpoint_id: str, deadline: float) -> dict[str, Any]:
        if self.plane.checkpoint_id == checkpoint_id:
            self._ledger.may_resume()
        reply = await self.participant.resume(checkpoint_id)
        self._ledger.never_published(self._written.pop(checkpoint_id, []))
        return reply

    async def _renew(self, checkpoint_id: str, deadline: float) -> dict[str, Any]:
        return self.participant.renew(checkpoint_id, WALL + deadline)

    async def _retire(self, checkpoint_id: str, deadline: float, episodes: frozenset[Episode]) -> dict[str, Any]:
        if not self.plane.is_open and self.plane.checkpoint_id in (None, checkpoint_id):
            self._ledger.retires(episodes)
        reply = await self.participant.retire(checkpoint_id, WALL + deadline, episodes)
        self._ledger.has_retired(episodes)
        return reply

    async def _forget(self, checkpoint_id: str, deadline: float, rollout_ids: list[str]) -> dict[str, Any]:
        reply = self.participant.forget(checkpoint_id, WALL + deadline, rollout_ids)
        for each in rollout_ids:
            self._ledger.retired.pop(each, None)
        return reply


def cookie_of(session: str) -> str:
    """What its holder sends."""
    return COOKIES.value_of(SessionId(session))


def _scope(episode: Episode, cookie: str | None, *, follows: bool) -> Scope:
    headers = [(b"prefer", b"return=minimal")]
    if cookie is not None:
        headers.append((b"cookie", b"groupjudge_session=" + cookie.encode()))
    if follows:
        headers.append((b"x-ng-close-follows", b"1"))
    return {"type": "http", "headers": headers, "state": {"episode": episode.key}}


def _session_in(given: Any) -> str:
    value = dict(given)[b"set-cookie"].decode().partition("=")[2].partition(";")[0]
    return value.rpartition(".")[0]  # type: ignore[no-any-return]


def _refused(error: GroupJudgeError) -> Reply:
    code = getattr(error, "reason_code", error.code)
    return Reply(STATUS.get(code, 500), {"code": code, "detail": str(error)})
