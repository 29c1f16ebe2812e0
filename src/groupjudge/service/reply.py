"""Writing replies: small ones whole, echoes in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Send

from groupjudge.service.wire import Reply

TOGETHER = 1 << 16
"""Pieces go out together up to so many bytes: to copy them costs less than to send them one by one."""
_JSON = (b"content-type", b"application/json")


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a small JSON reply."""
    await send_pieces(send, reply.status, len(reply.body), (reply.body,), reply.headers)


async def send_pieces(
    send: Send, status: int, length: int, pieces: Iterable[bytes], headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send a JSON body of `length` bytes that comes in `pieces`; of large ones each is made once those before it are
    out."""
    fields = [_JSON, (b"content-length", str(length).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if waiting and size + len(piece) > TOGETHER:
            await send({"type": "http.response.body", "body": b"".join(waiting), "more_body": True})
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece)
    await send({"type": "http.response.body", "body": b"".join(waiting)})
