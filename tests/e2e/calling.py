"""A caller over real sockets that can do everything a broken one does: bytes go out as they are given, and come back as
they came.

    async with Connection(port) as connection:
        await connection.send(request("POST", "/verify", body)[:-3])
        connection.abort()

Every wait is bounded by `BOUND_S`, so a server that says nothing fails a test instead of stopping it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Self

BOUND_S = 60.0
_POLL_S = 0.02


class Reply(NamedTuple):
    """A reply as it came; `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The `code` of a refusal."""
        return self.json["code"]

    @property
    def said(self) -> tuple[int, str]:
        """Status and code of a refusal."""
        return self.status, self.code


def request(
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    chunks: Iterable[bytes] | None = None,
) -> bytes:
    """The bytes of a request. With `chunks` the body has no length; a header that is given replaces the usual one, one
    of an empty text leaves it out."""
    fields = {"Host": "groupjudge", "Content-Type": "application/json"}
    if chunks is not None:
        fields["Transfer-Encoding"] = "chunked"
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    elif body is not None:
        fields["Content-Length"] = str(len(body))
    fields |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b"")


class Connection:
    """One connection to a server on loopback."""

    def __init__(self, port: int, *, read_limit: int = 1 << 16) -> None:
        self._port = port
        self._read_limit = read_limit

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=self._read_limit)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(BOUND_S):
            self._writer.write(data)
            await self._writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the next reply, an interim one too."""
        async with asyncio.timeout(BOUND_S):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split(" ", 2)[1]), {name.lower(): value for name, _, value in pairs}

    async def reply(self, *, to_head: bool = False) -> Reply:
        """The next final reply, whole."""
        status, headers = await self.head()
        while status < 200:
            status, headers = await self.head()
        length = 0 if to_head else int(headers["content-length"])
        return Reply(status, headers, await self.exactly(length))

    async def exactly(self, length: int) -> bytes:
        async with asyncio.timeout(BOUND_S):
            return await self._reader.readexactly(length)

    async def ask(self, raw: bytes) -> Reply:
        """Send a whole request and read its reply."""
        await self.send(raw)
        return await self.reply()

    async def ends(self) -> bytes:
        """What still comes until the server closes the connection."""
        async with asyncio.timeout(BOUND_S):
            try:
                return await self._reader.read(-1)
            except ConnectionError:
                return b""

    @property
    def was_closed(self) -> bool:
        """Whether the server has closed it, as it does with idle ones."""
        return self._reader.at_eof() or self._reader.exception() is not None

    def reads_no_more(self) -> None:
        """The caller is there, but takes nothing off the wire."""
        self._writer.transport.pause_reading()

    def reads_again(self) -> None:
        self._writer.transport.resume_reading()

    def close(self) -> None:
        """Close it as a process that ends does."""
        self._writer.close()

    def abort(self) -> None:
        """Drop what was not sent yet, and close."""
        self._writer.transport.abort()


class Client:
    """Calls one server over connections that are kept for the next call."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._idle:
            await connection.__aexit__()

    async def send(self, raw: bytes) -> Reply:
        """The reply to a whole request. A caller that is cancelled leaves as one that crashes does."""
        connection = await self._connection()
        try:
            reply = await connection.ask(raw)
        except BaseException:
            await connection.__aexit__()
            raise
        if reply.headers.get("connection") == "close":
            await connection.__aexit__()
        else:
            self._idle.append(connection)
        return reply

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.was_closed:
                return connection
            await connection.__aexit__()
        return await Connection(self.port).__aenter__()

    async def get(self, target: str, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.send(request("GET", target, None, headers))

    async def post(self, target: str, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.send(request("POST", target, body, headers))

    async def verify(self, body: bytes, *, minimal: bool = False) -> Reply:
        return await self.post("/verify", body, {"Prefer": "return=minimal"} if minimal else None)

    def caller(self, body: bytes, *, minimal: bool = False) -> asyncio.Task[Reply]:
        """A caller of its own, that sends `body` to `/verify` and waits."""
        return asyncio.ensure_future(self.verify(body, minimal=minimal))

    async def groups(self) -> list[dict[str, Any]]:
        """The rows of `/v1/groups`."""
        reply = (await self.get("/v1/groups?limit=10000")).json
        return [*reply["active"], *reply["finished"]]

    async def group(self, group_id: str) -> dict[str, Any] | None:
        """One group's row."""
        return next((row for row in await self.groups() if row["id"] == group_id), None)

    async def metric(self, name: str, **labels: str) -> float:
        """One number of `/metrics`; 0 where it is not shown yet."""
        text = (await self.get("/metrics")).body.decode()
        shown = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        found = re.search(rf"^{name}{re.escape('{' + shown + '}') if labels else ''} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def until_members(self, group_id: str, count: int, callers: int | None = None) -> None:
        """Wait until so many members (and callers) of an active group have come."""

        async def came() -> bool:
            row = await self.group(group_id)
            if row is None or len(row["members"]) != count:
                return False
            return callers is None or row["callers"] == callers

        await until(came)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, until `condition` holds or the bound has passed."""
    async with asyncio.timeout(BOUND_S):
        while not await condition():  # noqa: ASYNC110 -- what is waited for is in another process
            await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def cancelled_after(tasks: Iterable[asyncio.Task[Any]]):
    """Leave no task behind, however the block ends."""
    tasks = list(tasks)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
