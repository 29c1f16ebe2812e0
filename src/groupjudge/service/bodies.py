"""Reading a request's body from the socket: bounded in size and time, expanded, and gone without a trace when cut. A
large one is put into the spool while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

from starlette.datastructures import Headers
from starlette.types import Receive

from groupjudge.answers.encoding import expanded
from groupjudge.answers.outline import Span
from groupjudge.answers.spool import Draft, Received, Spool
from groupjudge.errors import BodyTooLarge, CallerError, ShuttingDown
from groupjudge.service.intake import Intake
from groupjudge.service.protocol import OwnReceive


class BodyTimeout(CallerError):
    """The body stopped coming."""

    code = "body_timeout"


class UnsupportedMediaType(CallerError):
    """The body is said to be something else than JSON."""

    code = "unsupported_media_type"


EXPANDED_AT_ONCE = 4
LOOK_S = 1.0
NEVER = float("inf")


class Disconnected(Exception):
    """The caller left before its body was whole: there is nobody to answer."""


def check_media_type(headers: Headers) -> None:
    """H10a: JSON in any of its names, plain text or nothing said."""
    said = headers.get("content-type", "")
    kind = said.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "text/plain") or kind.endswith("+json"):
        return
    raise UnsupportedMediaType(f"a body of type {kind[:80]!r} is not read; send application/json")


class _Incoming:
    """A body on its way in: `heard` is the loop's time of its last part, `NEVER` while its caller need say nothing."""

    __slots__ = ("draft", "heard", "number", "timeout")

    def __init__(self, number: int, draft: Draft, timeout: asyncio.Timeout, now: float) -> None:
        self.number = number
        self.draft = draft
        self.timeout = timeout
        self.heard = now

    def give_up(self, now: float) -> None:
        """End its reading with TimeoutError."""
        if not self.timeout.expired():
            self.timeout.reschedule(now)


class BodyReader:
    """Reads bodies of at most `limit` bytes (before and after expansion), each given up after `timeout_s` of silence.
    Those that are larger than the spool's threshold are on disk as far as they came: any number of them may be on their
    way, and none waits for one that does not come.

    One timer looks after all bodies: one for each of their parts would cost more than the part.
    """

    def __init__(self, limit: int, timeout_s: float, spool: Spool, intake: Intake | None = None) -> None:
        self._limit = limit
        self._timeout_s = timeout_s
        self._spool = spool
        self.intake = intake or Intake()
        self._look_s = min(LOOK_S, timeout_s / 4)
        self._expanding = asyncio.Semaphore(EXPANDED_AT_ONCE)
        self._reading: set[_Incoming] = set()
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def reading(self) -> int:
        """How many bodies are on their way in."""
        return len(self._reading)

    def close(self) -> None:
        """Give up every body that is still on its way, and every later one (ShuttingDown)."""
        self._closed = True
        now = self._loop.time()
        for incoming in self._reading:
            incoming.give_up(now)

    async def read(self, headers: Headers, receive: Receive) -> Received:
        """The body, whole; the caller closes one that is kept. Raises BodyTooLarge, BodyTimeout, UnsupportedMediaType,
        InvalidRequest (a bad encoding), ShuttingDown, SpoolFull, Disconnected."""
        if self._closed:
            raise ShuttingDown("the server is stopping")
        check_media_type(headers)
        length = _announced(headers)
        if length is not None and length > self._limit:
            raise self._too_large()
        body: Received | None = self._at_hand(length, receive)
        if body is None:
            body = await self._collect(length, receive)
        encoding = headers.get("content-encoding", "").strip().lower()
        return body if encoding in ("", "identity") else await self._expanded(body, encoding)

    def _at_hand(self, length: int | None, receive: Receive) -> bytes | None:
        """A small body that is here already."""
        is_small = length is not None and length <= self._spool.threshold
        return receive.whole_body() if is_small and isinstance(receive, OwnReceive) else None

    async def read_into_memory(self, headers: Headers, receive: Receive) -> bytes:
        """The same for who needs all of it at once."""
        body = await self.read(headers, receive)
        if isinstance(body, bytes):
            return body
        try:
            return body.whole()
        finally:
            body.close()

    async def _collect(self, length: int | None, receive: Receive) -> Received:
        """`length`: as its head announces it."""
        threshold, now = self._spool.threshold, self._loop.time()
        draft = self._spool.begin(is_large=length is not None and length > threshold)
        is_small = length is not None and length <= threshold
        try:
            async with asyncio.timeout(None) as timeout:
                with self._looked_after(_Incoming(next(self._numbers), draft, timeout, now)) as incoming:
                    while await self._part(incoming, receive, is_small=is_small):
                        pass
            return draft.finish()
        except TimeoutError:
            if self._closed:
                raise ShuttingDown("the server is stopping") from None
            raise BodyTimeout(f"no more of the body came within {self._timeout_s:g} s") from None
        finally:
            draft.close()

    async def _part(self, incoming: _Incoming, receive: Receive, *, is_small: bool) -> bool:
        """Take in what comes next; whether more will. A body that waits for its caller holds nothing of it."""
        if not is_small:
            incoming.heard = NEVER
            await self.intake.pass_through(incoming.number)
            incoming.heard = self._loop.time()
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        draft, part = incoming.draft, message.get("body", b"")
        if draft.size + len(part) > self._limit:
            raise self._too_large()
        if draft.goes_to_disk(part):
            incoming.heard = NEVER
            await self.intake.write(partial(draft.write, part), len(part))
        else:
            draft.write(part)
        incoming.heard = self._loop.time()
        return bool(message.get("more_body", False))

    @contextmanager
    def _looked_after(self, incoming: _Incoming) -> Iterator[_Incoming]:
        self._reading.add(incoming)
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_s, self._look)
        try:
            yield incoming
        finally:
            self._reading.discard(incoming)

    def _look(self) -> None:
        """Give up the bodies that stopped coming."""
        now = self._loop.time()
        for incoming in self._reading:
            if now - incoming.heard >= self._timeout_s:
                incoming.give_up(now)
        self._timer = self._loop.call_later(self._look_s, self._look) if self._reading else None

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body exceeds limits.max_body_bytes ({self._limit})")

    async def _expanded(self, packed: Received, encoding: str) -> Received:
        """Expanded by a thread, which lets go of `packed`, and of its work where nobody wants it any more."""
        try:
            await self._expanding.acquire()
        except BaseException:
            _let_go(packed)
            raise
        work = self._loop.run_in_executor(None, self._expand, packed, encoding)
        work.add_done_callback(lambda _: self._expanding.release())
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_let_go_of_result)
            raise
        finally:
            del work  # it holds the error that it raised, and that this frame

    def _expand(self, packed: Received, encoding: str) -> Received:
        draft = self._spool.begin()
        try:
            for part in expanded(_parts(packed), encoding, self._limit):
                draft.write(part)
            return draft.finish()
        finally:
            draft.close()
            _let_go(packed)


def _announced(headers: Headers) -> int | None:
    """The body's length by its head; None where that does not say it."""
    length = headers.get("content-length", "")
    return int(length[:20]) if length.isascii() and length.isdigit() else None


def _parts(body: Received) -> Iterable[bytes]:
    return (body,) if isinstance(body, bytes) else body.chunks([Span(0, body.size)])


def _let_go_of_result(work: asyncio.Future[Received]) -> None:
    if work.exception() is None:
        _let_go(work.result())


def _let_go(body: Received) -> None:
    if not isinstance(body, bytes):
        body.close()
