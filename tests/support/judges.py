"""A scriptable judge on loopback, on raw sockets, so that it can do everything that a broken one does.

    async with StubJudge(status(503), verdict(4, 2)) as judge:   # the first request, the second; then `otherwise`
        ...  # judge.base_url
        assert len(judge.received) == 2

A script is replies in the order of the requests, or a function of the request. `judge.hold()` makes requests wait for
`judge.let_go()`. Nothing here sleeps: `await judge.until(lambda: ...)` waits for a condition on what was seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Then = Literal["keep", "close", "reset", "silence"]


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came: which connection (0, 1, ...) brought it, and its bytes."""

    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """The bytes that go out, and what becomes of the connection then: `keep` for the next request, `close` it, `reset`
    it (RST), or leave it open in `silence`."""

    raw: bytes
    then: Then = "keep"


def http(
    code: int = 200,
    body: bytes | str = b"",
    headers: dict[str, str] | None = None,
    *,
    then: Then = "keep",
    content_type: str = "application/json",
) -> Reply:
    """A complete HTTP reply."""
    body = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return Reply(f"HTTP/1.1 {code} Status\r\n{head}\r\n".encode() + body, then)


def chat(text: str | None, finish_reason: str | None = "stop", **extra: Any) -> Reply:
    """A chat completion with this text."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    return http(body=json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], **extra}))


def responses(text: str, status: str | None = "completed", **extra: Any) -> Reply:
    """A Responses object with this text, after some reasoning that must not be read."""
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": verdict_text(1, 1, 1)}]}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    reply = {"id": "r", "object": "response", "status": status, "output": [thought, message], **extra}
    return http(body=json.dumps(reply))


def verdict_text(score_1: float = 4, score_2: float = 2, ranking: float = 2) -> str:
    return json.dumps({"score_1": score_1, "score_2": score_2, "ranking": ranking})


def verdict(score_1: float = 4, score_2: float = 2, ranking: float = 2) -> Reply:
    """A chat completion with a readable verdict."""
    return chat(verdict_text(score_1, score_2, ranking))


def cut(reply: Reply, keep: int = -10) -> Reply:
    """The reply without its end; then the connection closes."""
    return Reply(reply.raw[:keep], "close")


DISCONNECT = Reply(b"", "close")
RESET = Reply(b"", "reset")
SILENCE = Reply(b"", "silence")
HTML = http(body="<!DOCTYPE html><html><body>Bad gateway</body></html>", content_type="text/html")
EVENT_STREAM = http(body='data: {"choices": []}\n\ndata: [DONE]\n\n', content_type="text/event-stream")

Script = Callable[[Received], Reply]


class StubJudge:
    """The judge. `received` lists requests in the order in which they were complete; `in_flight` counts those not yet
    replied to, `peak` is the most there were at once; `open_connections` holds the numbers of those still open."""

    def __init__(self, *script: Reply, otherwise: Reply | None = None, by: Script | None = None) -> None:
        self._script, self._by, self._otherwise = list(script), by, otherwise or verdict()
        self.received: list[Received] = []
        self.open_connections: set[int] = set()
        self.connections = 0
        self.in_flight = self.peak = 0
        self.base_url = ""
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self.tasks: set[asyncio.Future[Any]] = set()
        """The tasks of the judge's own."""
        self._held: list[tuple[Received, asyncio.Event]] = []
        self._changed = asyncio.Condition()
        self._free = asyncio.Event()
        self._free.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hold(self) -> None:
        """From now on requests get no reply."""
        self._free.clear()

    def let_go(self) -> None:
        """Reply to the held requests and to all that come."""
        self._free.set()

    def let_go_of(self, chosen: Callable[[Received], bool]) -> None:
        """Reply to those held requests that are chosen."""
        for request, free in self._held:
            if chosen(request):
                free.set()

    def other_tasks(self) -> set[asyncio.Task[Any]]:
        """All tasks of the loop that neither serve this judge nor are the one that asks."""
        serving = ("_accept_connection2", "StubJudge._accept")
        tasks = asyncio.all_tasks() - self.tasks - {asyncio.current_task()}
        return {task for task in tasks if not task.get_coro().__qualname__.endswith(serving)}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is asked again whenever a connection or a request comes or goes."""
        async with self._changed:
            # Shorter than the time after which a client lets an idle connection go of its own.
            await asyncio.wait_for(self._changed.wait_for(condition), 12)

    async def close_idle(self) -> None:
        """Close every open connection, and wait until they are closed on this side."""
        for writer in list(self._writers.values()):
            writer.close()
        await self.until(lambda: not self.open_connections)

    async def _note(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        number = self.connections
        self.connections += 1
        self.open_connections.add(number)
        self._writers[number] = writer
        try:
            await self._note()
            await self._serve(number, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            # The streams' own callback would log a cancelled task as a failure.
            pass
        finally:
            writer.close()
            self.open_connections.discard(number)
            self._writers.pop(number, None)
            self.tasks.discard(task)
            with suppress(asyncio.CancelledError):
                await self._note()

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _read_request(number, reader)
            self.received.append(request)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            try:
                await self._note()
                reply = await self._reply(request, reader)
            finally:
                self.in_flight -= 1
            if reply is None:
                return
            writer.write(reply.raw)
            if reply.then == "reset":
                writer.transport.abort()
                return
            await writer.drain()
            if reply.then == "silence":
                await reader.read(1)
            if reply.then != "keep":
                return

    async def _reply(self, request: Received, reader: asyncio.StreamReader) -> Reply | None:
        """The next reply of the script, once nothing holds it; None where the other side has gone meanwhile."""
        reply = self._by(request) if self._by else self._script.pop(0) if self._script else self._otherwise
        if self._free.is_set():
            return reply
        alone = asyncio.Event()
        self._held.append((request, alone))
        waits = [asyncio.ensure_future(wait) for wait in (reader.read(1), self._free.wait(), alone.wait())]
        self.tasks.update(waits)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return None if waits[0].done() else reply
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
            self.tasks.difference_update(waits)


async def _read_request(number: int, reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(number, method, target, headers, body)


@dataclass
class Counted:
    """`JudgeEvents` that remembers everything."""

    tries: list[tuple[str, int | None]] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)
    ambiguities: int = 0
    defaults: int = 0
    saved: int = 0
    flat: int = 0

    def tried(self, result: str, status: int | None, seconds: float) -> None:
        assert seconds >= 0
        self.tries.append((result, status))

    def called(self, result: str, tries: int, seconds: float) -> None:
        assert seconds >= 0
        self.calls.append((result, tries))

    def used(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.tokens.append((prompt_tokens, completion_tokens))

    def ambiguous(self) -> None:
        self.ambiguities += 1

    def defaulted(self) -> None:
        self.defaults += 1

    def group_scored(self, *, calls_saved: int, is_flat: bool) -> None:
        self.saved += calls_saved
        self.flat += is_flat
