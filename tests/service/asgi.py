"""The two ends of an ASGI request, for tests of what stands between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Message, Scope

GONE: Message = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def headers(fields: dict[str, str] | None = None) -> Headers:
    return Headers(fields or {})


def scope(path: str, method: str = "GET", fields: dict[str, str] | None = None) -> Scope:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (fields or {}).items()]
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw}


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop its turns until `condition` holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 -- what is waited for tells nobody
            await asyncio.sleep(0)


class Caller:
    """`receive` gives the messages one by one, then waits for those that `says` gives; `sent` keeps what came."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        for message in messages:
            self.says(message)

    def says(self, message: Message) -> None:
        self._messages.put_nowait(message)

    async def receive(self) -> Message:
        return await self._messages.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def fields(self) -> dict[str, Any]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}
