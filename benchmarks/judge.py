"""A judge on loopback that costs little itself: scores come from a hash of the two answers.

    python -m benchmarks.judge [DELAY_S]

Speaks the Responses format at any path. Takes commands on standard input: `hold` (keep every reply back), `release`,
`stats` (calls so far, in progress, and at most), `own` (seconds that the longest call of each question took here).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import httptools
import msgspec
import uvloop

from benchmarks.processes import no_collections, take_commands


class Judge:
    """What all connections share."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._held: list[Callable[[], None]] | None = None
        self._own: dict[str, float] = {}
        self.calls = self.now = self.peak = 0

    def asked(self, body: bytes, began: float, send: Callable[[bytes], None]) -> None:
        """Take a request, read whole at `began`, and answer it in time."""
        self.calls += 1
        self.now += 1
        self.peak = max(self.peak, self.now)

        def answer() -> None:
            self.now -= 1
            question, reply = _answered(body)
            send(reply)
            self._own[question] = max(self._own.get(question, 0.0), time.perf_counter() - began)

        if self._held is not None:
            self._held.append(answer)
        elif self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, answer)
        else:
            answer()

    def hold(self) -> bool:
        self._held = []
        return True

    def release(self) -> int:
        held, self._held = self._held or [], None
        for answer in held:
            answer()
        return len(held)

    def stats(self) -> dict[str, int]:
        return {"calls": self.calls, "now": self.now, "peak": self.peak}

    def own(self) -> dict[str, float]:
        own, self._own = self._own, {}
        return own


def _answered(body: bytes) -> tuple[str, bytes]:
    request: dict[str, Any] = msgspec.json.decode(body)
    answers = request["metadata"]
    first, second = (hashlib.sha256(answers[f"response_{n}"].encode()).digest()[0] % 5 + 1 for n in (1, 2))
    ranking = 3.5 if first == second else 2 if first > second else 5
    text = json.dumps({"score_1": first, "score_2": second, "ranking": ranking})
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    reply = msgspec.json.encode({"object": "response", "status": "completed", "output": [message]})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reply)
    return request["input"][0]["content"], head + reply


class _Connection(asyncio.Protocol):
    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._parts: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        body = b"".join(self._parts)
        self._parts = []
        self._judge.asked(body, time.perf_counter(), self._transport.write)


async def main(delay_s: float) -> None:
    judge = Judge(delay_s)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(judge), "127.0.0.1", 0, backlog=4096)
    take_commands({"hold": judge.hold, "release": judge.release, "stats": judge.stats, "own": judge.own})
    with no_collections():
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
