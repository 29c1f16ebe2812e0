"""An HTTP client that costs little, so that the servers are what is measured: keep-alive connections, no copy of what
is sent but a small piece at a time, and of a reply only its status, its length and its end are kept."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

TAIL = 4096
_PIECE = 1 << 17
SMALL_BUFFER = 1 << 15
"""What the system holds of a connection that sends comes out of the same memory for TCP as what the server's hold. Real
callers are on other machines: without a bound thousands of these would use it up, and packets would be dropped (P8)."""


class Reply(NamedTuple):
    """The status of a reply, how many bytes its body had, and the last ones of them. `took` is how many seconds passed
    from the last byte of the request to that of the reply: what this program needs before and after is not in it."""

    status: int
    size: int
    tail: bytes
    took: float


class _Connection(asyncio.Protocol):
    def __init__(self, send_buffer: int | None) -> None:
        self._send_buffer = send_buffer
        self._waiter: asyncio.Future[Reply] | None = None
        self._status = self._size = 0
        self._last: list[bytes] = []
        self.is_open = True
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._send_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)

    async def send(self, parts: Iterable[bytes]) -> Reply:
        self._parser = httptools.HttpResponseParser(self)
        self._size, self._last = 0, []
        self._waiter = asyncio.get_running_loop().create_future()
        self._sent = time.perf_counter()
        for part in parts:
            for start in range(0, len(part), _PIECE):
                self.transport.write(memoryview(part)[start : start + _PIECE])
                await self._may_write.wait()
        self._sent = time.perf_counter()
        return await self._waiter

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        self._last = [*self._last[-1:], data[-TAIL:]]

    def on_message_complete(self) -> None:
        assert self._waiter is not None
        if not self._waiter.done():
            tail = b"".join(self._last)[-TAIL:]
            took = time.perf_counter() - self._sent
            self._waiter.set_result(Reply(self._parser.get_status_code(), self._size, tail, took))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._may_write.set()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError(f"the server closed the connection ({error})"))


class Client:
    """Requests to one server, each on a connection that no other uses meanwhile. `send_buffer`: how much of what is
    sent on it the system takes at a time, where that is not for the system to decide."""

    def __init__(self, address: str, send_buffer: int | None = None) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._where = parts.hostname, parts.port
        self._new = partial(_Connection, send_buffer)
        self._idle: list[_Connection] = []

    async def post(self, path: str, body: tuple[bytes, ...], headers: bytes = b"") -> Reply:
        """Send the parts of a JSON body. `headers`: further header lines, each with its line end."""
        connection = await self._connection()
        length = sum(map(len, body))
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
        reply = await connection.send((head % (path.encode(), length, headers), *body))
        self._idle.append(connection)
        return reply

    def close(self) -> None:
        """Close the connections that are not in use."""
        for connection in self._idle:
            connection.transport.close()
        self._idle.clear()

    async def _connection(self) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_open:
                return connection
        _, connection = await asyncio.get_running_loop().create_connection(self._new, *self._where)
        return connection
