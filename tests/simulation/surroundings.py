"""What stands around a server in the simulation in place of sockets, disks and logs."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog
from starlette.datastructures import Headers
from starlette.types import Message

from groupjudge.answers.outline import Span
from groupjudge.answers.verify import VerifyRequest
from groupjudge.checkpoints import files
from groupjudge.core.backing import SessionId
from groupjudge.model import Arrival
from groupjudge.service import visits
from groupjudge.service.analyst import Caller
from groupjudge.service.bodies import Disconnected

from .checker import Violation


class Body(bytes):
    """Its length is what is counted of it."""

    arrival: Arrival


class Wire:
    """The two ends of a request. Its body takes `body_s` to come, its reply `reply_s` to leave."""

    def __init__(
        self, arrival: Arrival | None, gone: asyncio.Future[None], body_s: float = 0.0, reply_s: float = 0.0
    ) -> None:
        self._arrival, self._gone, self._body_s, self._reply_s = arrival, gone, body_s, reply_s
        self.status, self.said, self.code = 0, dict[str, Any](), ""

    async def receive(self) -> Message:
        arrival, self._arrival = self._arrival, None
        if arrival is not None and self._body_s:
            await asyncio.sleep(self._body_s)
        if arrival is None or self._gone.done():
            await asyncio.shield(self._gone)
            return {"type": "http.disconnect"}
        body = Body()
        body.arrival = arrival
        return {"type": "http.request", "body": body}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._reply_s:
                await asyncio.sleep(self._reply_s)
        else:
            self.said = msgspec.json.decode(message["body"])
            self.code = self.said.get("code", "")


class Reader:
    async def read(self, headers: Headers, receive: Any) -> bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return cast(bytes, message["body"])


class Analyst:
    async def caller(self, body: Body, *, echo: bool) -> Caller:
        return Caller(VerifyRequest(body.arrival, Span(0, 0), Span(0, 0), None), None)


class Os:
    """The operating system without its waiting for disks, which are full now and then."""

    def __init__(self, rng: random.Random, fails: float) -> None:
        self._rng, self._fails = rng, fails

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _may_fail(self) -> None:
        if self._rng.random() < self._fails:
            raise OSError(errno.ENOSPC, "No space left on device")

    def fsync(self, descriptor: int) -> None:
        self._may_fail()

    def replace(self, name: Path, to: Path) -> None:
        self._may_fail()
        os.replace(name, to)

    def link(self, name: Path, to: Path) -> None:
        self._may_fail()
        os.link(name, to)


@contextmanager
def simulated(rng: random.Random, disk_fails: float, publication: type[files.Publication]) -> Iterator[None]:
    """Disks, session ids and logs are the simulation's; an error in the log that is a defect is a violation."""
    logged, names = structlog.get_config(), random.Random(rng.random())
    real = files.os, visits.new_session_id, files.Publication
    files.os = cast(Any, Os(random.Random(rng.random()), disk_fails))
    visits.new_session_id = lambda: SessionId(f"s{names.getrandbits(64):x}")
    files.Publication = publication  # type: ignore[misc]
    only_errors = structlog.make_filtering_bound_logger(40)
    structlog.configure(processors=[_no_defects], wrapper_class=only_errors, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**logged)
        files.os, visits.new_session_id, files.Publication = real  # type: ignore[misc]


def _no_defects(logger: object, level: str, event: Any) -> Any:
    if event["event"] != "no_finite_reward":
        asyncio.get_running_loop().call_exception_handler({"exception": Violation(str(event))})
    raise structlog.DropEvent
