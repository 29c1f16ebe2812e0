"""One HTTP/1.1 connection: a request goes out, its whole reply comes back. httptools reads the replies."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import httptools

MAX_REPLY_BYTES = 8 << 20
MAX_HEAD_BYTES = 64 << 10
"""So much of a reply may come in a row that is no part of its body: heads, trailers, what chunks say of themselves."""
_KEPT = frozenset((b"retry-after", b"location", b"content-encoding", b"content-length", b"transfer-encoding"))
_INFLATED = {b"gzip": 31, b"x-gzip": 31, b"deflate": 47}  # what zlib calls these: see its `wbits`


class Response(NamedTuple):
    """A complete HTTP reply."""

    status: int
    body: bytes
    retry_after: str | None
    location: str | None


class LostError(Exception):
    """The connection is over, without a whole reply. `unanswered`: nothing of one came, so that the request may have
    met a connection that was closed already."""

    def __init__(self, reason: str, kind: str, *, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind
        self.unanswered = unanswered


class Connection(asyncio.Protocol):
    """A connection for one request at a time. `on_lost` is told once it is over, whoever ended it."""

    def __init__(self, on_lost: Callable[[Connection], object]) -> None:
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Response] | None = None
        self._was_heard = False
        self._beside = 0
        self._begin()
        self.is_open = False
        self.is_reusable = True
        """Whether it may carry another request, once a reply has come."""
        self.idle_since = 0.0

    def ask(self, request: Iterable[bytes]) -> asyncio.Future[Response]:
        """Send the parts of a request. The future gives its reply, or raises LostError."""
        waiter: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        self._was_heard = False
        self._beside = 0
        if self.is_open:
            self._transport.writelines(request)
        else:
            self._lose("the connection was closed", "Disconnected")
        return waiter

    def close(self) -> None:
        """End it. A request that waits is lost."""
        if self.is_open:
            self.is_open = self.is_reusable = False
            self._transport.abort()

    # -- what the event loop tells -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # nobody asked
            return
        self._was_heard = True
        self._beside += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the reply wants to go on in another protocol", "Upgrade")
        except httptools.HttpParserError as error:
            self._fail(f"the reply is no HTTP: {error}", type(error).__name__)
        if self._beside > MAX_HEAD_BYTES and self._waiter is not None:
            self._fail(f"the reply's head is larger than {MAX_HEAD_BYTES} bytes", "HeadTooLarge")

    def eof_received(self) -> None:
        self.is_open = self.is_reusable = False  # the loop closes it now
        if self._in_body and self._ends_with_connection:
            self._complete()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = self.is_reusable = False
        if error is None:
            self._lose("the judge closed the connection", "Disconnected")
        else:
            self._lose(str(error), type(error).__name__)
        self._on_lost(self)
        del self._parser  # it and this connection hold each other

    # -- what the parser tells ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begin()
        if self._waiter is None:
            self.is_reusable = False  # more came than was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.lower()
        if key in _KEPT and not self._in_body:  # trailers are none of ours
            self._headers[key] = value

    def on_headers_complete(self) -> None:
        self._in_body = True
        if self._parser.get_status_code() < 100:
            self._fail("the reply is no HTTP: its status is none", "Status")

    def on_body(self, data: bytes) -> None:
        self._beside = 0
        self._size += len(data)
        if self._size > MAX_REPLY_BYTES:
            self._fail(f"the reply is larger than {MAX_REPLY_BYTES} bytes", "ReplyTooLarge")
        else:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._in_body = False  # the reply proper follows
            return
        self.is_reusable = self.is_reusable and self._parser.should_keep_alive() and self._all_was_sent()
        self._complete()

    # ------------------------------------------------------------------------------------------------------------------

    def _all_was_sent(self) -> bool:
        """Whether the request has left: a judge that answers before it has read all of it may never read the rest, and
        the next request would wait behind that."""
        return self._transport.get_write_buffer_size() == 0

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._in_body = False

    @property
    def _ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection says where the body ends."""
        return b"content-length" not in self._headers and b"transfer-encoding" not in self._headers

    def _complete(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        headers, body = self._headers, b"".join(self._parts)
        self._parts = []
        try:
            body = _expanded(body, headers.get(b"content-encoding"))
        except LostError as error:
            waiter.set_exception(error)
            return
        retry_after, location = headers.get(b"retry-after"), headers.get(b"location")
        waiter.set_result(
            Response(
                self._parser.get_status_code(),
                body,
                None if retry_after is None else retry_after.decode("latin-1"),
                None if location is None else location.decode("latin-1"),
            )
        )

    def _fail(self, reason: str, kind: str) -> None:
        """The judge sent what is of no use."""
        self._lose(reason, kind)
        self.close()

    def _lose(self, reason: str, kind: str) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(LostError(reason, kind, unanswered=not self._was_heard))


def _expanded(body: bytes, encoding: bytes | None) -> bytes:
    """The body as it was before it was packed: some judges pack it though asked not to. Raises LostError."""
    if encoding is None or encoding.lower() in (b"", b"identity"):
        return body
    bits = _INFLATED.get(encoding.lower())
    if bits is None:
        raise LostError(f"the reply is packed as {encoding[:40]!r}, which nobody asked for", "Packed")
    try:
        unpacker = zlib.decompressobj(bits)
        whole = unpacker.decompress(body, MAX_REPLY_BYTES)
    except zlib.error as error:
        raise LostError(f"the reply cannot be unpacked: {error}", "Packed") from None
    if not unpacker.eof:
        raise LostError(f"the reply is cut, or larger than {MAX_REPLY_BYTES} bytes unpacked", "Packed")
    return whole
