"""How much of a body is taken in before somebody asks for it (P6-P8)."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from groupjudge.service.intake import ROOM, Intake
from groupjudge.service.protocol import IS_SLOW, FrugalConnection

from .asgi import until

LARGE = 1 << 20


class Transport(asyncio.Transport):
    """Remembers whether it is asked to read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.written = b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Wire:
    """A connection to an application that starts to read once it is told to."""

    def __init__(self) -> None:
        self.asks = asyncio.Event()
        self.scope: Scope = {}
        self.body = b""
        config = uvicorn.Config(self._app, interface="asgi3", loop="none", ws="none", lifespan="off", log_config=None)
        config.load()
        self.intake = Intake()
        self.connection = FrugalConnection(config, ServerState(), {}, intake=self.intake)
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        await self.asks.wait()
        more = True
        while more:
            message = await receive()
            self.body += message["body"]
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    def arrives(self, data: bytes) -> int:
        """As much of `data` as one read takes comes in; how much that is."""
        buffer = self.connection.get_buffer(-1)
        taken = data[: len(buffer)]
        buffer[: len(taken)] = taken
        self.connection.buffer_updated(len(taken))
        return len(taken)


def head(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % length


async def test_a_large_body_is_left_where_it_is_until_somebody_reads_it() -> None:
    """P6: its first read is a small one, and there is no second before the application asks; then large ones follow."""
    wire, data = Wire(), head(LARGE) + b"x" * LARGE
    done = wire.arrives(data)
    assert done <= 1 << 14
    await asyncio.sleep(0)
    assert not wire.transport.is_read
    wire.asks.set()
    while done < len(data):
        await asyncio.sleep(0)
        if wire.transport.is_read:
            taken = wire.arrives(data[done:])
            assert taken in (1 << 18, len(data) - done)
            done += taken
    for _ in range(5):
        await asyncio.sleep(0)
    assert wire.body == b"x" * LARGE
    assert b" 200 " in wire.transport.written
    assert wire.transport.is_read


async def test_the_next_request_on_a_connection_is_read_a_little_at_a_time_again() -> None:
    wire = Wire()
    wire.asks.set()
    wire.arrives(head(1) + b"x")
    for _ in range(5):
        await asyncio.sleep(0)
    assert wire.arrives(head(LARGE) + b"y" * LARGE) <= 1 << 14
    assert not wire.transport.is_read


async def test_a_small_body_does_not_stop_the_reading() -> None:
    wire = Wire()
    wire.arrives(head(10) + b"x")
    assert wire.transport.is_read


async def test_where_much_was_read_in_one_moment_more_comes_a_little_at_a_time() -> None:
    """P8: of many callers that were asked for their next part and send it in the same instant; it is there for whoever
    asks, and once it was asked for they are read as before."""
    wire = Wire()
    wire.asks.set()
    wire.arrives(head(LARGE) + b"x" * 10)
    await until(lambda: wire.body == b"x" * 10 and wire.transport.is_read)
    wire.intake.came(ROOM)
    assert wire.arrives(b"y" * LARGE) == 1 << 12
    assert not wire.transport.is_read
    await until(lambda: wire.transport.is_read)
    assert wire.body == b"x" * 10 + b"y" * (1 << 12)
    assert wire.arrives(b"z" * LARGE) == 1 << 18


async def test_a_read_without_a_part_of_the_body_does_not_end_the_reading() -> None:
    """P8: nobody would be told to ask for more."""
    wire = Wire()
    wire.asks.set()
    wire.arrives(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    await asyncio.sleep(0)
    wire.intake.came(ROOM)
    wire.arrives(b"4\r\n")
    assert wire.transport.is_read
    wire.arrives(b"body\r\n")
    assert not wire.transport.is_read
    await until(lambda: wire.transport.is_read)
    wire.arrives(b"0\r\n\r\n")
    await until(lambda: b" 200 " in wire.transport.written)
    assert wire.body == b"body"


async def test_reads_are_counted_for_one_turn_of_the_loop() -> None:
    """P8: what they brought was taken out of memory by then."""
    wires = [Wire() for _ in range(ROOM // (1 << 14))]
    intake = wires[0].intake
    for wire in wires:
        wire.connection._intake = intake
        assert not intake.is_crowded
        wire.arrives(head(LARGE) + b"x" * LARGE)
    assert intake.is_crowded
    await asyncio.sleep(0)
    assert not intake.is_crowded


@pytest.mark.parametrize("said", [b"content-length: %d" % LARGE, b"transfer-encoding: chunked"])
async def test_a_part_that_was_there_already_brings_no_other_unasked(said: bytes) -> None:
    """P6: whoever takes a part of a large body may have to wait for its turn to ask for the next."""
    wire = Wire()
    wire.arrives(b"POST / HTTP/1.1\r\nhost: x\r\n%s\r\n\r\n" % said + b"4\r\nbody\r\n")
    await until(lambda: bool(wire.scope))
    receive = wire.connection._protocol.cycle.receive
    assert b"body" in (await receive())["body"]
    assert not wire.transport.is_read
    asking = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    assert wire.transport.is_read
    asking.cancel()


async def test_who_replies_sees_whether_the_caller_reads() -> None:
    wire = Wire()
    wire.arrives(head(1) + b"x")
    await asyncio.sleep(0)
    is_slow = wire.scope["state"][IS_SLOW]
    assert not is_slow()
    wire.connection.pause_writing()
    assert is_slow()
    wire.connection.resume_writing()
    assert not is_slow()
