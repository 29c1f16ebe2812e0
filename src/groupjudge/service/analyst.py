"""From a body to a caller that can wait: read, fingerprinted, and kept where it costs no memory (P6-P9, H11).

Small bodies are read where they are. Large ones, which are on disk, take turns: one is in memory at a time, with a turn
of the loop between them, so that other requests are served in between. What would hold the loop for longer than H11
allows is read by a helper process, which opens the spooled file: a thread would not help, since the readers hold the
interpreter lock.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import NamedTuple, TypeVar

from groupjudge.answers.spool import Kept, Place, Received, Spool
from groupjudge.answers.verify import VerifyRequest, read_verify, size_as_objects
from groupjudge.errors import FieldProblem, InvalidRequest

T = TypeVar("T")
HEAVY_BYTES = 6 << 20
"""From this size on a body is read by the helper process: about 25 ms of CPU at the pace of plain training data."""
OBJECT_WEIGHT = 6
"""A byte that must become Python objects takes as long as so many bytes of long arrays, at worst (many short keys)."""


class Caller(NamedTuple):
    """A request on its way through `/verify`. `kept` is its body, None where the caller wants no echo."""

    request: VerifyRequest
    kept: Kept | None

    def close(self) -> None:
        """Let go of the body."""
        if self.kept is not None:
            self.kept.close()


class Analyst:
    """Reads bodies; from `heavy` bytes on the helper process does."""

    def __init__(self, spool: Spool, *, default_size: int, max_size: int, heavy: int = HEAVY_BYTES) -> None:
        self._spool = spool
        self._read = partial(read_verify, default_size=default_size, max_size=max_size)
        self._heavy = heavy
        self._turn = asyncio.Lock()
        self._helper: ProcessPoolExecutor | None = None

    async def caller(self, body: Received, *, echo: bool) -> Caller:
        """Read a body, and keep it if it is to be echoed; else, and where that fails, it is let go of. Raises
        InvalidRequest, SpoolFull."""
        if isinstance(body, bytes):
            request = self._read(body)
            return Caller(request, self._spool.keep(body) if echo else None)
        kept: Kept | None = None
        try:
            request = await self._read_kept(body, self._read)
            kept = self._spool.keep(body) if echo else None
            return Caller(request, kept)
        finally:
            if kept is None:
                body.close()

    async def read(self, body: Received, read: Callable[[bytes], T]) -> T:
        """What `read` makes of another body, which is let go of. A heavy one is read by the helper process, so `read`
        and what it gives must be fit to be pickled. Raises InvalidRequest."""
        if isinstance(body, bytes):
            return read(body)
        try:
            return await self._read_kept(body, read)
        finally:
            body.close()

    def close(self) -> None:
        """End the helper process, and wait for that: the interpreter would, and may not find its pipe any more."""
        if self._helper is not None:
            self._helper.shutdown(wait=True, cancel_futures=True)

    async def _read_kept(self, kept: Kept, read: Callable[[bytes], T]) -> T:
        can_travel = OBJECT_WEIGHT * kept.size >= self._heavy and kept.place is not None
        if not can_travel or kept.size < self._heavy:
            async with self._turn:
                body = kept.whole()
                if not can_travel or not self._is_heavy(body):
                    value = read(body)
                    del body
                    await asyncio.sleep(0)
                    return value
                del body
        return await self._read_apart(kept, read)

    def _is_heavy(self, body: bytes) -> bool:
        """Whether reading would hold the loop for too long (H11)."""
        return len(body) + (OBJECT_WEIGHT - 1) * size_as_objects(body) >= self._heavy

    async def _read_apart(self, kept: Kept, read: Callable[[bytes], T]) -> T:
        assert kept.place is not None
        try:
            said = await self._ask_helper(read, kept.place, kept.size)
        except BrokenProcessPool:
            self._helper = None
            said = await self._ask_helper(read, kept.place, kept.size)
        if isinstance(said, list):
            raise InvalidRequest(said)
        return said

    async def _ask_helper(self, read: Callable[[bytes], T], place: Place, size: int) -> T | list[FieldProblem]:
        return await asyncio.get_running_loop().run_in_executor(self._pool(), _read_file, read, place, size)

    def _pool(self) -> ProcessPoolExecutor:
        if self._helper is None:
            self._helper = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin_helping)
        return self._helper


def _begin_helping() -> None:
    """A Ctrl-C in the terminal reaches the helper too; the server decides when it ends. Where the server is killed, the
    helper would wait for work for ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_server, daemon=True).start()


def _end_with_the_server() -> None:
    server = parent_process()
    assert server is not None
    server.join()
    os._exit(1)


def _read_file(read: Callable[[bytes], T], place: Place, size: int) -> T | list[FieldProblem]:
    """Runs in the helper process. Its problems come back as values: the errors have no form that travels."""
    with open(place.path, "rb") as file:
        file.seek(place.offset)
        body = file.read(size)
    try:
        return read(body)
    except InvalidRequest as error:
        return error.problems
