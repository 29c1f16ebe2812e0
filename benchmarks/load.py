"""Whole groups of answers, as a trainer sends them."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import count
from typing import NamedTuple

from benchmarks import bodies
from benchmarks.client import Client, Reply

N = 16
MINIMAL = b"Prefer: return=minimal\r\n"
_GROUP = b"GROUP-OF-THIS-BODY"
_numbers = count()


class Shape(NamedTuple):
    """What one answer holds: tokens of answer and prompt with their log-probabilities, and expert routing."""

    generated: int = 0
    prompt: int = 0
    routing: tuple[int, int] | None = None


class Body(NamedTuple):
    """A body around the places where its group's name stands."""

    pieces: list[bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def of_group(self, group: str) -> tuple[bytes, ...]:
        """The body for a group, in parts: a large answer is not copied."""
        name = group.encode()
        parts: list[bytes] = []
        for piece in self.pieces:
            parts += (piece, name)
        return tuple(parts[:-1])


def as_body(response: dict[str, object], slot: int) -> Body:
    whole = bodies.body(response, group=_GROUP.decode(), slot=slot, question=f"Question of {_GROUP.decode()}?")
    return Body(whole.split(_GROUP))


def group_of(shape: Shape, seed: int = 1) -> list[Body]:
    """The bodies of one group's members."""
    rng = random.Random(seed)
    return [as_body(bodies.answer(rng, *shape), slot) for slot in range(N)]


class Load:
    """Sends groups to one server; raises where a reply is not what it should be."""

    def __init__(
        self, address: str, path: str = "/verify", headers: bytes = b"", send_buffer: int | None = None
    ) -> None:
        self._client = Client(address, send_buffer)
        self._path = path
        self._headers = headers

    async def groups(self, members: list[Body], groups: int, at_once: int) -> list[float]:
        """Send `groups` groups, `at_once` of them at a time; how many seconds each request took."""
        gate = asyncio.Semaphore(at_once)

        async def one() -> list[float]:
            async with gate:
                return await self.group(members)

        return [took for group in await asyncio.gather(*(one() for _ in range(groups))) for took in group]

    async def group(self, members: list[Body], name: str | None = None) -> list[float]:
        """Send one group, all members at once; how many seconds each request took."""
        name = name or f"group-{next(_numbers)}-{time.time_ns()}"
        return await asyncio.gather(*(self.member(body, name) for body in members))

    async def member(self, body: Body, name: str) -> float:
        reply = await self._client.post(self._path, body.of_group(name), self._headers)
        _check(reply)
        return reply.took

    def close(self) -> None:
        self._client.close()


def _check(reply: Reply) -> None:
    is_whole = b'"reward"' in reply.tail or b'"_ng_rollout_index"' in reply.tail
    if reply.status != 200 or not is_whole:
        raise RuntimeError(f"status {reply.status}: {reply.tail[-500:]!r}")
