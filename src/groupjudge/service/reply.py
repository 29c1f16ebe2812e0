"""Writing replies: small ones whole, echoes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from starlette.types import Send

from groupjudge.service.wire import Reply

TOGETHER = 1 << 16
"""Pieces go out together up to so many bytes: to copy them costs less than to send them one by one."""
_JSON = (b"content-type", b"application/json")


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a small JSON reply."""
    await _begin(send, reply.status, len(reply.body), reply.headers)
    await send({"type": "http.response.body", "body": reply.body})


async def send_pieces(
    send: Send, length: int, pieces: Iterable[bytes], turn: asyncio.Lock, is_slow: Callable[[], bool]
) -> None:
    """Send 200 and a JSON body of `length` bytes that comes in `pieces`.

    Of a large body each portion is made only once the one before it has gone out, and between two of them others are
    served: a socket that takes all at once would hold the loop for the whole body (H11). Large replies take turns, so
    that few of them are in memory; one whose caller `is_slow` to read it gives its turn up.
    """
    await _begin(send, 200, length)
    if length <= TOGETHER:
        await send({"type": "http.response.body", "body": b"".join(pieces)})
        return
    portions = _portions(pieces)
    more = True
    while more:
        await send(
            {"type": "http.response.body", "body": b"", "more_body": True}
        )  # waits for a slow caller, in no turn
        async with turn:
            while more and not is_slow():
                portion = next(portions, b"")
                more = bool(portion)
                await send({"type": "http.response.body", "body": portion, "more_body": more})
                await asyncio.sleep(0)


async def _begin(send: Send, status: int, length: int, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    fields = [_JSON, (b"content-length", str(length).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})


def _portions(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces, small ones joined; none is empty."""
    small: list[bytes] = []
    size = 0
    for piece in pieces:
        if size and size + len(piece) > TOGETHER:
            yield b"".join(small)
            small, size = [], 0
        small.append(piece)
        size += len(piece)
    if size:
        yield b"".join(small)
