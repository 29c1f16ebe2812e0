"""What sessions and checkpoints mean to an ordinary request: which session it is in, whether it may pass, and what its
reply ends (C2, C9, C24). `NoEpisodes` is what stands here where checkpointing is off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from groupjudge.checkpoints.records import Episode, episode_of_key
from groupjudge.core.backing import Backing, SessionId
from groupjudge.errors import ShuttingDown
from groupjudge.model import Slot
from groupjudge.service.bodies import Disconnected
from groupjudge.service.callers import wait_until_gone
from groupjudge.service.sessions import Cookies, OpenSession, SessionTable, new_session_id

CLOSE_FOLLOWS = "x-ng-close-follows"
_CLOSE_FOLLOWS = CLOSE_FOLLOWS.encode()
REPLAYS = (b"x-ng-checkpoint-verify", b"replay")
Header = tuple[bytes, bytes]


def key_in(scope: Scope) -> str | None:
    """The key in the request's path prefix (C2)."""
    key: str | None = scope.get("state", {}).get("episode")
    return key


def episode_in(scope: Scope) -> Episode | None:
    """The episode that the request's path prefix names."""
    key = key_in(scope)
    return None if key is None else episode_of_key(key)


def _said_in(headers: Headers) -> tuple[bytes, bool]:
    """The first `cookie` header, and whether a close is said to follow. In one go: every request passes here."""
    cookie, follows = b"", b""
    for name, value in headers.raw:
        if name == b"cookie":
            cookie = cookie or value
        elif name == _CLOSE_FOLLOWS:
            follows = follows or value
    return cookie, follows.strip() == b"1"


class Visit:
    """One `/verify`, or another request for outcomes, on its way: the episode that it is of, and the session that it
    came in."""

    __slots__ = ("close_follows", "entry", "episode")

    def __init__(self, episode: Episode | None, entry: OpenSession | None, *, close_follows: bool) -> None:
        self.episode = episode
        self.entry = entry
        self.close_follows = close_follows


class Episodes(Protocol):
    """What the routes ask of sessions. `seeding` are headers of every reply to `/seed_session`, a refusal too."""

    seeding: tuple[Header, ...]

    def verifying(self, scope: Scope, headers: Headers) -> Visit:
        """Admit a `/verify`, or another request for outcomes; `left` must follow. Raises StaleAttempt."""

    def session_of(self, visit: Visit) -> SessionId | None:
        """The session that brings the member: the visit's, where it is still open."""

    def passing(self, scope: Scope) -> Visit:
        """Admit another request of an episode, in no session; `left` must follow. Raises StaleAttempt."""

    def left(self, visit: Visit) -> None:
        """The request was answered, or its caller has gone."""

    def answered(self, visit: Visit) -> None:
        """The `/verify` was answered 200: its session ends, unless a close follows."""

    def put_off(self, visit: Visit) -> None:
        """The `/verify` was answered 202: its session stays, until the outcome is fetched."""

    def fetched(self, visit: Visit, backing: Backing | None, slot: Slot) -> None:
        """A request that asked for a member was given its outcome: the session ends as with a `/verify`, where it is
        one that brought this member (`backing` has those of its group)."""

    async def seed(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[Header, ...]:
        """Begin a session; the headers of the reply beside `seeding`. Waits while a checkpoint is open. Raises
        StaleAttempt, Disconnected."""

    async def close(self, scope: Scope, headers: Headers) -> tuple[Header, ...]:
        """End a session; the headers of the reply. Waits while a checkpoint is open."""


class NoEpisodes:
    """Checkpointing is off: sessions are cookies, and nothing is remembered of them."""

    seeding: tuple[Header, ...] = ()
    _visit = Visit(None, None, close_follows=False)

    def __init__(self, cookies: Cookies) -> None:
        self._cookies = cookies

    def verifying(self, scope: Scope, headers: Headers) -> Visit:
        """Every request may pass, in no session."""
        return self._visit

    def session_of(self, visit: Visit) -> SessionId | None:
        """None brings a member."""

    def passing(self, scope: Scope) -> Visit:
        """No episode is retired."""
        return self._visit

    def left(self, visit: Visit) -> None:
        """Nothing was counted."""

    def answered(self, visit: Visit) -> None:
        """No session ends."""

    def put_off(self, visit: Visit) -> None:
        """No session stays."""

    def fetched(self, visit: Visit, backing: Backing | None, slot: Slot) -> None:
        """No session ends."""

    async def seed(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[Header, ...]:
        """A cookie with a new id."""
        return (self._cookies.give(new_session_id()),)

    async def close(self, scope: Scope, headers: Headers) -> tuple[Header, ...]:
        """The cookie is taken back."""
        return (self._cookies.take_back(),)


class Door:
    """Where requests wait that do not pass while a checkpoint is open, or restored state is not resumed (C9)."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._shut_for_good = False

    def shut(self) -> None:
        """Let nobody through until `open`."""
        self._open.clear()

    def open(self) -> None:
        """Let those who wait, and later ones, through."""
        self._open.set()

    def stop(self) -> None:
        """The server stops: whoever waits is told so."""
        self._shut_for_good = True
        self._open.set()

    def refuse_stopped(self) -> None:
        """Raises ShuttingDown once the server stops."""
        if self._shut_for_good:
            raise ShuttingDown("the server is stopping")

    async def pass_through(self) -> None:
        """Return once the door is open. Raises ShuttingDown."""
        while not self._open.is_set():
            await self._open.wait()
        self.refuse_stopped()

    async def pass_with_caller(self, receive: Receive) -> None:
        """The same for somebody who waits here on the line: raises Disconnected where that one leaves first."""
        if not self._open.is_set():
            watcher, waiting = asyncio.create_task(wait_until_gone(receive)), asyncio.create_task(self._open.wait())
            try:
                await asyncio.wait((watcher, waiting), return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    raise Disconnected
            finally:
                watcher.cancel()
                waiting.cancel()
        await self.pass_through()


class OpenEpisodes:
    """Checkpointing is on. `end_session` is told of each session that ends; `is_busy` says whether a checkpoint is
    open or restored state is not resumed: until then a session that a `/verify` ends stays, for the commit to export.

    Seeding and closing happen in one step, once their bodies are in and the door is open: so nothing that a prepare
    would have to wait for is ever in flight (C9).
    """

    seeding: tuple[Header, ...] = (REPLAYS,)

    def __init__(
        self, table: SessionTable, cookies: Cookies, door: Door, end_session: Callable[[SessionId], None]
    ) -> None:
        self._table = table
        self._cookies = cookies
        self._door = door
        self._end_session = end_session
        self._ends_at_resume: dict[SessionId, None] = {}
        self._changed: dict[asyncio.Future[None], None] = {}
        self.is_busy = False
        self.on_stay: Callable[[OpenSession], object] = lambda entry: None
        """Told of a session whose member was answered and whose close follows."""

    # -- ordinary requests -----------------------------------------------------------------------------------------

    def verifying(self, scope: Scope, headers: Headers) -> Visit:
        """Admit a `/verify` and count it as in flight for its episode."""
        self._door.refuse_stopped()
        key = key_in(scope)
        if key is None:
            return Visit(None, None, close_follows=False)
        cookie, follows = _said_in(headers)
        entry = self._table.named(self._cookies.said_in(cookie), key, self._cookies) if cookie else None
        episode = episode_of_key(key) if entry is None else entry.episode
        self._table.refuse_retired(episode)
        if episode is None:
            return Visit(None, None, close_follows=False)
        self._table.enter(episode)
        if entry is not None:
            self._table.use(entry)
        return Visit(episode, entry, close_follows=follows)

    def session_of(self, visit: Visit) -> SessionId | None:
        """C18: a session that has ended while the body came brings nothing."""
        entry = visit.entry
        if entry is None or not entry.is_open:
            return None
        entry.line = None  # it may bring another member now
        return entry.session

    def passing(self, scope: Scope) -> Visit:
        """C24: a retirement waits for it too."""
        episode = episode_in(scope)
        self._table.refuse_retired(episode)
        if episode is not None:
            self._table.enter(episode)
        return Visit(episode, None, close_follows=False)

    def left(self, visit: Visit) -> None:
        """The request is over."""
        if visit.episode is not None:
            self._table.leave(visit.episode)
            self._tell()

    def answered(self, visit: Visit) -> None:
        """C2: the session ends now, at the resume, or with its close."""
        entry = visit.entry
        if entry is None:
            return
        if visit.close_follows:
            self.on_stay(entry)
        elif self.is_busy:
            self._ends_at_resume[entry.session] = None
        else:
            self._end(entry.session)

    def put_off(self, visit: Visit) -> None:
        """A2: what the `/verify` said of a close holds for whoever fetches the outcome in its session."""
        if visit.entry is not None:
            visit.entry.close_follows = visit.close_follows

    def fetched(self, visit: Visit, backing: Backing | None, slot: Slot) -> None:
        """C2: the outcome was delivered to the session that brought the member."""
        entry = visit.entry
        if entry is not None and backing is not None and backing.sessions.get(entry.session) == slot:
            visit.close_follows = visit.close_follows or entry.close_follows
            self.answered(visit)

    async def seed(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[Header, ...]:
        """Bind a session to the episode of the prefix; without one it is a cookie alone. Nobody's session would stay
        open: a caller that leaves while it waits gets none."""
        await self._door.pass_with_caller(receive)
        episode = episode_in(scope)
        self._table.refuse_retired(episode)
        self._table.has_served = True
        if episode is None:
            return (self._cookies.give(new_session_id()),)
        entry = self._used(scope, headers) or self._table.seed(episode, new_session_id())
        return (self._cookies.given(entry.cookie_by(self._cookies)),)

    async def close(self, scope: Scope, headers: Headers) -> tuple[Header, ...]:
        """End the session of the cookie, where it is the episode's."""
        await self._door.pass_through()
        entry = self._used(scope, headers)
        if entry is not None:
            self._end(entry.session)
        return (self._cookies.take_back(),)

    def _used(self, scope: Scope, headers: Headers) -> OpenSession | None:
        """The session that the request names, and uses."""
        cookie, _ = _said_in(headers)
        entry = self._table.named(self._cookies.said_in(cookie), key_in(scope), self._cookies)
        if entry is not None:
            self._table.use(entry)
        return entry

    def _end(self, session: SessionId) -> None:
        if self._table.end(session):
            self._end_session(session)

    # -- what the control plane asks -------------------------------------------------------------------------------

    def begin(self) -> None:
        """A checkpoint is open, or restored state waits for its resume."""
        self.is_busy = True
        self._door.shut()

    def resume(self) -> None:
        """End what was to end at the resume, and let the waiting requests through."""
        self.is_busy = False
        ended, self._ends_at_resume = self._ends_at_resume, {}
        for session in ended:
            self._end(session)
        self._door.open()

    async def until(self, holds: Callable[[], bool], deadline: float) -> bool:
        """Wait until something holds, looked at whenever a request has ended; False at the deadline (loop time)."""
        loop = asyncio.get_running_loop()
        while not holds():
            change: asyncio.Future[None] = loop.create_future()
            self._changed[change] = None
            try:
                async with asyncio.timeout_at(deadline):
                    await change
            except TimeoutError:
                return holds()
            finally:
                del self._changed[change]
        return True

    def _tell(self) -> None:
        for change in self._changed:
            if not change.done():
                change.set_result(None)
