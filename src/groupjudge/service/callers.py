"""Whether a caller that waits is still there."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.types import Receive

from groupjudge.service.host import Host, Waiting
from groupjudge.service.protocol import OwnReceive

T = TypeVar("T")


async def wait_until_gone(receive: Receive) -> None:
    """Return once the caller has hung up; whole bodies bring nothing else."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def told(host: Host, waiting: Waiting[T], receive: Receive) -> T | None:
    """What a caller is told; None where it has gone first (L8)."""
    if waiting.outcome.done():
        return waiting.outcome.result()
    if isinstance(receive, OwnReceive):
        receive.when_gone(waiting.gone)
        outcome = await waiting.outcome
    else:
        outcome = await _watched(waiting, receive)
    if outcome is None:
        host.leave(waiting)
    return outcome


async def _watched(waiting: Waiting[T], receive: Receive) -> T | None:
    """What it is told, by any ASGI server: a task waits for the caller to hang up."""
    watcher = asyncio.create_task(wait_until_gone(receive))
    watcher.add_done_callback(lambda _: waiting.gone())
    try:
        return await waiting.outcome
    finally:
        watcher.cancel()
