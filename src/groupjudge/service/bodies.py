"""Reading a request's body from the socket: bounded in size and time, expanded, and gone without a trace when cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import Receive

from groupjudge.answers.encoding import expand
from groupjudge.errors import BodyTooLarge, CallerError, ShuttingDown


class BodyTimeout(CallerError):
    """The body stopped coming."""

    code = "body_timeout"


class UnsupportedMediaType(CallerError):
    """The body is said to be something else than JSON."""

    code = "unsupported_media_type"


LARGE_AT_ONCE = 4
STALLED_S = 0.5
LITTLE = 1 << 16
"""A body of which less than so many bytes came in `STALLED_S` seconds is slow."""


class Disconnected(Exception):
    """The caller left before its body was whole: there is nobody to answer."""


def check_media_type(headers: Headers) -> None:
    """H10a: JSON in any of its names, plain text or nothing said."""
    said = headers.get("content-type", "")
    kind = said.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "text/plain") or kind.endswith("+json"):
        return
    raise UnsupportedMediaType(f"a body of type {kind[:80]!r} is not read; send application/json")


class Place:
    """A place for one large body on its way through memory; given up while its body comes slowly or not at all, so that
    a slow caller keeps nobody waiting. `gate` None: the body is small and needs none."""

    def __init__(self, gate: asyncio.Semaphore | None) -> None:
        self._gate = gate
        self._held = False

    async def __aenter__(self) -> Place:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.give_up()

    @property
    def is_lost(self) -> bool:
        """Whether the body needs a place and has none."""
        return self._gate is not None and not self._held

    async def take(self) -> None:
        if self._gate is not None:
            await self._gate.acquire()
            self._held = True

    def give_up(self) -> None:
        if self._gate is not None and self._held:
            self._held = False
            self._gate.release()


class _Incoming:
    """A body on its way in: `heard` is the loop's time of its last part, infinite while it waits for a place; `came`
    bytes of it came since the time `since`."""

    __slots__ = ("came", "heard", "place", "since", "timeout")

    def __init__(self, place: Place, timeout: asyncio.Timeout, now: float) -> None:
        self.place = place
        self.timeout = timeout
        self.heard = self.since = now
        self.came = 0

    def look(self, now: float) -> None:
        """Give up the place of a body that comes too slowly."""
        if self.came >= LITTLE:
            self.since, self.came = now, 0
        elif now - self.since >= STALLED_S:
            self.place.give_up()

    def give_up(self, now: float) -> None:
        """End its reading with TimeoutError."""
        if not self.timeout.expired():
            self.timeout.reschedule(now)


class BodyReader:
    """Reads bodies of at most `limit` bytes (before and after expansion), each given up after `timeout_s` of silence.
    Of those larger than `large` bytes only `LARGE_AT_ONCE` are in memory at a time, as long as they keep coming.

    One timer looks after all bodies: one for each of their parts would cost more than the part.
    """

    def __init__(self, limit: int, timeout_s: float, large: int = 1 << 16) -> None:
        self._limit = limit
        self._timeout_s = timeout_s
        self._look_s = min(STALLED_S, timeout_s) / 4
        self._large = large
        self._gate = asyncio.Semaphore(LARGE_AT_ONCE)
        self._reading: set[_Incoming] = set()
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

    def place(self, headers: Headers) -> Place:
        """The place that the request's body needs, to be held from its first byte until it is kept elsewhere."""
        announced = headers.get("content-length", "")
        small = announced.isascii() and announced.isdigit() and int(announced[:20]) <= self._large
        return Place(None if small and "content-encoding" not in headers else self._gate)

    async def read(self, headers: Headers, receive: Receive, place: Place) -> bytes:
        """The whole body, read in its `place`. Raises BodyTooLarge, BodyTimeout, UnsupportedMediaType, InvalidRequest
        (a bad encoding), ShuttingDown, Disconnected."""
        if self._closed:
            raise ShuttingDown("the server is stopping")
        check_media_type(headers)
        self._refuse_announced(headers)
        body = await self._collect(receive, place)
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return body
        return await asyncio.to_thread(expand, body, encoding, self._limit)

    def _refuse_announced(self, headers: Headers) -> None:
        announced = headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._limit:
            raise self._too_large()

    async def _collect(self, receive: Receive, place: Place) -> bytes:
        try:
            async with asyncio.timeout(None) as timeout:
                with self._looked_after(_Incoming(place, timeout, self._loop.time())) as incoming:
                    return await self._chunks(receive, incoming)
        except TimeoutError:
            if self._closed:
                raise ShuttingDown("the server is stopping") from None
            raise BodyTimeout(f"no more of the body came within {self._timeout_s:g} s") from None

    async def _chunks(self, receive: Receive, incoming: _Incoming) -> bytes:
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            await self._heard(incoming)
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            incoming.came += len(chunk)
            if size > self._limit:
                raise self._too_large()
            chunks.append(chunk)
            more = message.get("more_body", False)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _heard(self, incoming: _Incoming) -> None:
        """More came of a body. Waiting for a place again is not its caller's silence."""
        if incoming.place.is_lost:
            incoming.heard = float("inf")
            await incoming.place.take()
            incoming.since = self._loop.time()
        incoming.heard = self._loop.time()

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
        """Give up the bodies that stopped coming, and the places of the slow ones."""
        now = self._loop.time()
        for incoming in self._reading:
            silence = now - incoming.heard
            if silence >= self._timeout_s:
                incoming.give_up(now)
            else:
                incoming.look(now)
        self._timer = self._loop.call_later(self._look_s, self._look) if self._reading else None

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body exceeds limits.max_body_bytes ({self._limit})")
