"""Reading a request's body from the socket: bounded in size and time, expanded, and gone without a trace when cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
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


class Disconnected(Exception):
    """The caller left before its body was whole: there is nobody to answer."""


def check_media_type(headers: Headers) -> None:
    """H10a: JSON in any of its names, plain text or nothing said."""
    said = headers.get("content-type", "")
    kind = said.partition(";")[0].strip().lower()
    if kind in ("", "application/json", "text/plain", "text/json") or kind.endswith("+json"):
        return
    raise UnsupportedMediaType(f"a body of type {kind[:80]!r} is not read; send application/json")


class BodyReader:
    """Reads bodies of at most `limit` bytes (before and after expansion), each within `timeout_s`."""

    def __init__(self, limit: int, timeout_s: float) -> None:
        self._limit = limit
        self._timeout_s = timeout_s
        self._reading: set[asyncio.Timeout] = set()
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
        now = asyncio.get_running_loop().time()
        for timeout in self._reading:
            timeout.reschedule(now)

    async def read(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body. Raises BodyTooLarge, BodyTimeout, UnsupportedMediaType, InvalidRequest (a bad encoding),
        ShuttingDown, Disconnected."""
        if self._closed:
            raise ShuttingDown("the server is stopping")
        check_media_type(headers)
        self._refuse_announced(headers)
        body = await self._collect(receive)
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return body
        return await asyncio.to_thread(expand, body, encoding, self._limit)

    def _refuse_announced(self, headers: Headers) -> None:
        announced = headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._limit:
            raise self._too_large()

    async def _collect(self, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s) as timeout:
                with self._counted(timeout):
                    return await self._chunks(receive, self._still_coming(timeout))
        except TimeoutError:
            if self._closed:
                raise ShuttingDown("the server is stopping") from None
            raise BodyTimeout(f"no more of the body came within {self._timeout_s:g} s") from None

    def _still_coming(self, timeout: asyncio.Timeout) -> Callable[[], None]:
        """The timeout is on silence: each chunk moves it."""
        loop = asyncio.get_running_loop()

        def moved() -> None:
            if not self._closed:
                timeout.reschedule(loop.time() + self._timeout_s)

        return moved

    async def _chunks(self, receive: Receive, came: Callable[[], None]) -> bytes:
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            came()
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._limit:
                raise self._too_large()
            chunks.append(chunk)
            more = message.get("more_body", False)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @contextmanager
    def _counted(self, timeout: asyncio.Timeout) -> Iterator[None]:
        self._reading.add(timeout)
        try:
            yield
        finally:
            self._reading.discard(timeout)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"the body exceeds limits.max_body_bytes ({self._limit})")
