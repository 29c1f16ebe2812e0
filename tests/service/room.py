"""Everything that takes part in a checkpoint, put together by hand: a real book and host, a judge that says what a test
wants when it wants it, sessions, and a clock that can be moved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groupjudge.checkpoints.records import Episode
from groupjudge.core.backing import SessionId
from groupjudge.core.book import Book, Limits
from groupjudge.errors import JudgeFailed
from groupjudge.model import AnswerTexts, Arrival, Fingerprint, GroupFailure, GroupId, Judgement, Outcome, Topic
from groupjudge.service.checkpointing import Participant
from groupjudge.service.control import ControlPlane
from groupjudge.service.host import Host, Waiting
from groupjudge.service.sessions import COOKIE, Cookies, SessionTable
from groupjudge.service.visits import CLOSE_FOLLOWS, Door, OpenEpisodes, Visit

from .asgi import Caller, headers

SECRET = "s" * 64
GRACE = 10.0
WALL = 1_800_000_000.0


class Clock:
    """The loop's time and the wall's, which a test can move on."""

    def __init__(self) -> None:
        self.skew = 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        self._start = real()
        loop.time = lambda: real() + self.skew  # type: ignore[method-assign]
        self.real = real

    def wall(self) -> float:
        return WALL + self.real() - self._start + self.skew

    async def moves(self, seconds: float) -> None:
        """Time passes, and what was due happens."""
        self.skew += seconds
        await settled()


async def settled() -> None:
    """Everything that needs neither time nor a thread has happened."""
    for _ in range(50):
        await asyncio.sleep(0)


class Room:
    """A server without its sockets. `judge` decides what a group gets: rewards 1.0, 2.0, ... unless it is changed."""

    def __init__(self, *, root: str | None = None, limits: Limits | None = None) -> None:
        self.clock = Clock()
        self.judged = 0
        self.free = asyncio.Event()
        self.free.set()
        self.fails = False
        self.book = Book(limits or Limits())
        self.host = Host(self.book, self._judge, self, clock=asyncio.get_running_loop().time)
        self.table = SessionTable()
        self.cookies = Cookies(SECRET)
        self.door = Door()
        self.episodes = OpenEpisodes(
            self.table, self.cookies, self.door, lambda session: self.host.session_over(session, dropped=False)
        )
        self.plane = ControlPlane(GRACE)
        self.participant = Participant(
            "inst", root, self.plane, self.host, self.table, self.episodes, wall=self.clock.wall
        )

    def group_ended(self, kind: str, seconds: float) -> None:
        """Nobody counts."""

    def rewarded(self, rewards: Sequence[float]) -> None:
        """Nobody counts."""

    def failed(self, group: str, attempt: int, why: str) -> None:
        """Nobody counts."""

    async def _judge(self, topic: Topic, texts: Sequence[AnswerTexts]) -> Judgement:
        self.judged += 1
        await self.free.wait()
        if self.fails:
            raise JudgeFailed("the judge is ill", "ill")
        return Judgement(tuple(1.0 + n for n in range(len(texts))), (), None)

    def soon(self, seconds: float = 100.0) -> float:
        """A deadline."""
        return self.clock.wall() + seconds

    # -- a caller's side ---------------------------------------------------------------------------------------------

    def cookie(self, session: str) -> dict[str, str]:
        """The header that names a session."""
        _, given = self.cookies.give(SessionId(session))
        return {"cookie": given.decode().partition(";")[0]}

    async def seed(self, episode: str | None = "r", session: str | None = None) -> str:
        """A session; the one of the cookie where it is given and still open."""
        sent = headers({} if session is None else self.cookie(session))
        given = await self.episodes.seed(scope_of(episode), sent, Caller().receive)
        return session_given(self.cookies, given)

    async def close(self, session: str, episode: str | None = "r") -> None:
        await self.episodes.close(scope_of(episode), headers(self.cookie(session)))

    def verify(self, slot: int, session: str | None = None, episode: str | None = "r", **how: Any) -> Call:
        """Send a member of a group of two."""
        return Call(self, slot, session, episode, **how)

    async def member(self, slot: int, episode: str, group: str = "g") -> str:
        """A session that has brought a member, whose close follows."""
        session = await self.seed(episode)
        self.verify(slot, session, episode, group=group)
        return session

    async def finished(self, group: str = "g") -> list[str]:
        """Two open sessions of episodes `<group>0` and `<group>1` whose group has its outcome."""
        sessions = [await self.member(slot, f"{group}{slot}", group) for slot in (0, 1)]
        await settled()
        return sessions

    # -- a controller's side -----------------------------------------------------------------------------------------

    def prepare(self, key: str = "ck") -> dict[str, Any]:
        return self.participant.prepare(key, self.soon())

    async def commit(self, directory: Path, key: str = "ck", scope: frozenset[Episode] | None = None) -> dict[str, Any]:
        return await self.participant.commit(key, self.soon(), str(directory), scope)

    async def checkpoint(self, directory: Path, key: str = "ck", scope: frozenset[Episode] | None = None) -> None:
        """A whole one."""
        self.prepare(key)
        await self.commit(directory, key, scope)
        await self.participant.resume(key)

    async def restore(
        self, directory: Path, key: str = "re", scope: frozenset[Episode] | None = None
    ) -> dict[str, Any]:
        return await self.participant.restore(key, self.soon(), str(directory), scope)

    def phase_of(self, group: str = "g") -> str | None:
        """The phase of a group's attempt 0."""
        view = self.host.group(GroupId(group), 0)
        return None if view is None else view.phase


class Call:
    """One `/verify`, from its headers to its reply; `close_follows` is what its sender says of the session. With
    `arrives=False` its body is still on its way: call `arrive`. With `ends=False` its reply never leaves."""

    def __init__(
        self,
        room: Room,
        slot: int,
        session: str | None,
        episode: str | None,
        *,
        group: str = "g",
        close_follows: bool = True,
        arrives: bool = True,
        answer: str = "",
        attempt: int = 0,
        ends: bool = True,
    ) -> None:
        self._room = room
        self._scope = scope_of(episode)
        sent = {} if session is None else room.cookie(session)
        if close_follows:
            sent[CLOSE_FOLLOWS] = "1"
        self.visit: Visit = room.episodes.verifying(self._scope, headers(sent))
        text = f"answer {slot} {answer}"
        digest = Fingerprint(text.encode().ljust(32))
        question = Fingerprint(b"question".ljust(32))
        texts = AnswerTexts(text, "")
        self._ends = ends
        self._arrival = Arrival(GroupId(group), attempt, 2, slot, question, digest, texts, Topic(()))
        self._waiting: Waiting | None = None
        if arrives:
            self.arrive()

    def arrive(self) -> None:
        try:
            self._waiting = self._room.host.arrive(self._arrival, self._room.episodes.session_of(self.visit))
        except BaseException:
            self._room.episodes.left(self.visit)
            raise
        self._waiting.outcome.add_done_callback(lambda _: self._told())

    def _told(self) -> None:
        if self._ends and not isinstance(self.outcome, GroupFailure):
            self._room.episodes.answered(self.visit)
        self._room.episodes.left(self.visit)

    @property
    def is_told(self) -> bool:
        return self._waiting is not None and self._waiting.outcome.done()

    @property
    def outcome(self) -> Outcome:
        assert self._waiting is not None
        outcome = self._waiting.outcome.result()
        assert outcome is not None
        return outcome


def scope_of(episode: str | None) -> dict[str, Any]:
    """What the front makes of a path under this prefix."""
    return {"type": "http", "state": {} if episode is None else {"episode": episode}}


def session_given(cookies: Cookies, given: Sequence[tuple[bytes, bytes]]) -> str:
    """The session in the headers of a reply to a seed."""
    fields = {name.decode(): value.decode() for name, value in given}
    session = cookies.named_by(fields["set-cookie"].partition(";")[0].encode())
    assert session is not None
    assert fields["set-cookie"].startswith(COOKIE)
    return session
