"""The floor: an ASGI application that reads a body and writes it back (`/small`: that writes a word), under the same
HTTP server as the product.

    python -m benchmarks.floor
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
import uvloop

from groupjudge.service.run import bind


async def echo(scope: Any, receive: Any, send: Any) -> None:
    chunks = []
    more = True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    body = b'{"reward":0}' if scope["path"] == "/small" else b"".join(chunks)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def main() -> None:
    sock = bind("127.0.0.1", 0)
    how = {"loop": "none", "http": "httptools", "lifespan": "off", "timeout_keep_alive": 75}
    config = uvicorn.Config(echo, log_config=None, access_log=False, **how)
    serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[sock]))
    print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    await serving


if __name__ == "__main__":
    uvloop.run(main())
