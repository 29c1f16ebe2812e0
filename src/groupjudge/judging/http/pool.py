"""The connections to one address, straight there: kept open between requests; the last one used is the next one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from functools import partial
from typing import Any

import aiohappyeyeballs

from groupjudge.judging.http.connection import Connection, LostError, Response

CONNECT_TIMEOUT_S = 30.0
IDLE_S = 15.0
"""A connection that lay idle for longer is not used again: what stands between may have forgotten it silently."""
_NEXT_ADDRESS_S = 0.25  # RFC 8305, section 8: try the next one while the first does not answer


class DeadlineError(Exception):
    """The reply was not complete within the request's time."""


class ConnectError(Exception):
    """There is no connection to be had. `kind` is one word for logs."""

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Pool:
    """Connections to `host` and `port`; with `tls` their other end must prove to be `host`. Its first request binds it
    to the running loop."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._idle: dict[Connection, None] = {}
        self._used: set[Connection] = set()
        self._lookup: asyncio.Future[list[Any] | None] | None = None
        self._closed = False

    async def exchange(self, request: Iterable[bytes], timeout_s: float) -> Response:
        """Send the parts of a request, and read its reply. A request that meets a closed connection of the pool is sent
        once more, on one of its own. Raises ConnectError, LostError, DeadlineError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        connection = self._take(loop.time())
        if connection is None:
            connection = await self._connect(deadline)
        else:
            try:
                return await self._ask(connection, request, deadline)
            except LostError as lost:
                if not lost.unanswered or self._closed:
                    raise
            connection = await self._connect(deadline)
            connection.is_reusable = False
        return await self._ask(connection, request, deadline)

    def close(self) -> None:
        """End every connection: what waits for a reply is lost."""
        self._closed = True
        for connection in (*self._idle, *self._used):
            connection.close()

    async def _ask(self, connection: Connection, request: Iterable[bytes], deadline: float) -> Response:
        loop = asyncio.get_running_loop()
        self._used.add(connection)
        waiter = connection.ask(request)
        timer = loop.call_at(deadline, partial(_expire, waiter))
        try:
            return await waiter
        except BaseException:
            connection.close()  # so that the judge stops, too
            raise
        finally:
            timer.cancel()
            self._used.discard(connection)
            self._put_back(connection, loop.time())
            del waiter  # it holds the error that it raised, and that this frame

    def _take(self, now: float) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_open and now - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    def _put_back(self, connection: Connection, now: float) -> None:
        if not connection.is_reusable:
            connection.close()
        elif connection.is_open:
            connection.idle_since = now
            self._idle[connection] = None
        while self._idle and now - (oldest := next(iter(self._idle))).idle_since >= IDLE_S:
            del self._idle[oldest]
            oldest.close()

    async def _connect(self, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        until = min(deadline, loop.time() + CONNECT_TIMEOUT_S)
        timeout = asyncio.timeout_at(until)
        try:
            async with timeout:
                connection = await self._connected(loop)
        except TimeoutError as error:
            if timeout.expired() and until == deadline:
                raise DeadlineError from None
            why = f"no connection within {CONNECT_TIMEOUT_S:g} s" if timeout.expired() else str(error)
            raise ConnectError(why, "ConnectTimeout") from None
        except OSError as error:  # a certificate that is not believed is one, too
            raise ConnectError(str(error), type(error).__name__) from None
        finally:
            del timeout  # it holds the task that may end with the error, and that this frame
        if self._closed:
            connection.close()
        return connection

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> Connection:
        found = await self._addresses()
        where: dict[str, Any] = {"ssl": self._tls, "server_hostname": self._host if self._tls else None}
        if len(found) == 1 and found[0][0] == socket.AF_INET:  # the loop would drop the zone of an IPv6 address
            where["host"], where["port"] = found[0][4][:2]
            _, connection = await loop.create_connection(partial(Connection, self._forget), **where)
            return connection
        sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1)
        try:
            _, connection = await loop.create_connection(partial(Connection, self._forget), sock=sock, **where)
        except BaseException:
            sock.close()
            raise
        return connection

    async def _addresses(self) -> list[Any]:
        """Where the host is. Who asks while somebody else does gets the same answer: the system looks up few names at a
        time, and the calls of a burst would wait for one another."""
        while self._lookup is not None:
            if (found := await asyncio.shield(self._lookup)) is not None:
                return found
        lookup = self._lookup = asyncio.get_running_loop().create_future()
        try:
            found = await _looked_up(self._host, self._port)
            lookup.set_result(found)
            return found
        except OSError as error:
            lookup.set_exception(error)
            lookup.exception()  # where nobody else waits, nobody else need be told
            raise
        finally:
            self._lookup = None
            if not lookup.done():
                lookup.set_result(None)  # whoever waits looks on
            del lookup  # as in `_ask`

    def _forget(self, connection: Connection) -> None:
        self._idle.pop(connection, None)


async def _looked_up(host: str, port: int) -> list[Any]:
    """As `socket.getaddrinfo` says it."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _expire(waiter: asyncio.Future[Response]) -> None:
    if not waiter.done():
        waiter.set_exception(DeadlineError())
