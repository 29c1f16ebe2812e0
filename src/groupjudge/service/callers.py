"""Whether a caller that waits is still there."""

from __future__ import annotations

from starlette.types import Receive


async def wait_until_gone(receive: Receive) -> None:
    """Return once the caller has hung up; whole bodies bring nothing else."""
    while (await receive())["type"] != "http.disconnect":
        pass
