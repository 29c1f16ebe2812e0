"""Whether a caller that waits is still there."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.types import Receive

from groupjudge.service.host import Host, Waiting

T = TypeVar("T")


async def wait_until_gone(receive: Receive) -> None:
    """Return once the caller has hung up; whole bodies bring nothing else."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def told(host: Host, waiting: Waiting[T], receive: Receive) -> T | None:
    """What a caller is told; None where it has gone first (L8)."""
    if waiting.outcome.done():
        return waiting.outcome.result()
    watcher = asyncio.create_task(wait_until_gone(receive))
    watcher.add_done_callback(lambda _: waiting.gone())
    try:
        outcome = await waiting.outcome
    finally:
        watcher.cancel()
    if outcome is None:
        host.leave(waiting)
    return outcome
