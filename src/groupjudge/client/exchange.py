"""One request and its reply, over a connection of their own.

No connection is kept: one that waits for an outcome is busy for minutes, and between two steps of a training run the
server would have closed an idle one. So nothing here belongs to a thread, an event loop or a process, and a fork, a
second loop or a cancelled call finds nothing that it could break (docs/decisions/0009).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from groupjudge.client.values import Reply, Request

CONNECT_S = 10.0
_LONGEST_S = 1e6
_READ_BYTES = 1 << 16
_KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class ConnectionLost(ConnectionError):
    """The connection ended before the reply was there, or what came was no HTTP."""


class Address(NamedTuple):
    """Where the server is: `prefix` is what its address has behind the port."""

    host: str
    port: int
    prefix: str
    is_tls: bool

    @classmethod
    def of(cls, base_url: str) -> Address:
        """From `http://host:port` or `https://...`. Raises ValueError."""
        why = f"base_url {base_url!r} must be http://HOST:PORT or https://HOST:PORT, maybe with a path"
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{why}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(why)
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_tls else 80), parts.path.rstrip("/"), is_tls)

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@cache
def _tls() -> ssl.SSLContext:
    """Reading the trusted certificates takes longer than a request; made once in a process that needs it."""
    return ssl.create_default_context()


class _Wire:
    """The bytes of one exchange, without a connection: what to send, and the reply that the bytes received make."""

    def __init__(self, address: Address, request: Request) -> None:
        self._h11 = h11.Connection(h11.CLIENT)
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
        headers = [("Host", address.authority), ("Connection", "close"), *request.headers.items()]
        if request.body or request.method == "POST":
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(request.body)))]
        head = h11.Request(method=request.method, target=address.prefix + request.path, headers=headers)
        sent = [self._h11.send(head), self._h11.send(h11.Data(request.body)), self._h11.send(h11.EndOfMessage())]
        self.to_send = b"".join(piece for piece in sent if piece)

    def received(self, data: bytes) -> Reply | None:
        """The reply, once it is whole. `data` is empty where the server has closed. Raises ConnectionLost."""
        try:
            self._h11.receive_data(data)
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    return None
                if isinstance(event, h11.EndOfMessage):
                    return self._reply()
                self._take(event)
        except h11.RemoteProtocolError as error:
            raise ConnectionLost(f"the connection ended before the reply, or brought no HTTP: {error}") from None

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Response):
            self._head = event
        elif isinstance(event, h11.Data):
            self._parts.append(bytes(event.data))
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionLost("the server closed the connection before its reply")

    def _reply(self) -> Reply:
        assert self._head is not None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        return Reply(self._head.status_code, headers, b"".join(self._parts))


def exchange(address: Address, request: Request, deadline: float) -> Reply:
    """Send a request and read its reply; `deadline` is of `time.monotonic`. Raises OSError (TimeoutError at the
    deadline, ConnectionLost), ssl.SSLError."""
    wire = _Wire(address, request)
    connect_s = min(CONNECT_S, _left(deadline))
    with socket.create_connection((address.host, address.port), connect_s) as plain:
        _keep_alive(plain)
        with _secured(plain, address) as sock:
            # A server that refuses a body answers and closes before it has read it all: its reply is still to be read.
            with suppress(BrokenPipeError, ConnectionResetError):
                sock.settimeout(_left(deadline))
                sock.sendall(wire.to_send)
            while True:
                sock.settimeout(_left(deadline))
                if (reply := wire.received(sock.recv(_READ_BYTES))) is not None:
                    return reply


async def exchange_async(address: Address, request: Request, deadline: float) -> Reply:
    """The same on the running event loop."""
    wire = _Wire(address, request)
    async with asyncio.timeout(_left(deadline)):
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=_tls() if address.is_tls else None
            )
        try:
            _keep_alive(writer.get_extra_info("socket"))
            writer.write(wire.to_send)
            # It is sent while the reply is read: one that comes early says that the body is not wanted.
            while True:
                if (reply := wire.received(await reader.read(_READ_BYTES))) is not None:
                    return reply
        finally:
            writer.transport.abort()


def _secured(sock: socket.socket, address: Address) -> socket.socket:
    return _tls().wrap_socket(sock, server_hostname=address.host) if address.is_tls else sock


def _left(deadline: float) -> float:
    """The seconds until the deadline, as many as a socket can count. Raises TimeoutError where it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return min(left, _LONGEST_S)


def _keep_alive(sock: socket.socket) -> None:
    """Notice within about a minute that the server's machine is gone, however long the outcome takes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
