"""Writing replies: small ones whole, echoes in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Send

from groupjudge.service.wire import Reply

_JSON = (b"content-type", b"application/json")


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a small JSON reply."""
    await send_pieces(send, reply.status, len(reply.body), (reply.body,), reply.headers)


async def send_pieces(
    send: Send, status: int, length: int, pieces: Iterable[bytes], headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send a JSON body of `length` bytes that comes in `pieces`; each is made only once the one before has gone out."""
    fields = [_JSON, (b"content-length", str(length).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
