"""What the HTTP protocol does beyond uvicorn's (L8): over a transport that is none, so that bytes and hang-ups come in
any order and in the same instant."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from groupjudge.service.protocol import AHEAD, CarefulProtocol, OwnReceive

from .asgi import until


class Transport(asyncio.Transport):
    """Takes everything and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.is_paused = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Wire:
    """A connection: what the application was given is in `heard`, one list a request."""

    def __init__(self, asks: asyncio.Event | None = None, idle_s: float = 75) -> None:
        self.heard: list[list[Message]] = []
        self._asks = asks
        config = uvicorn.Config(self._app, interface="asgi3", loop="none", ws="none", lifespan="off", log_config=None)
        config.load()
        self.protocol = CarefulProtocol(config, ServerState(), {})
        self.protocol.timeout_keep_alive = idle_s  # type: ignore[assignment]
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        heard: list[Message] = []
        self.heard.append(heard)
        if self._asks is not None:
            await self._asks.wait()
        while True:
            heard.append(await receive())
            if heard[-1]["type"] == "http.disconnect":
                return

    def hang_up(self) -> None:
        self.transport.closed = True
        self.protocol.connection_lost(None)

    async def ended(self) -> None:
        await until(lambda: not self.protocol.tasks)


HEAD = b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("parts", [[HEAD + b"body"], [HEAD, b"body"], [HEAD + b"bo", b"dy"]])
async def test_a_whole_body_is_handed_out_before_its_caller_is_gone(parts: list[bytes], waits: bool) -> None:
    """L8: whoever asks late gets it too, once."""
    asks = asyncio.Event()
    wire = Wire(asks if waits else None)
    for part in parts:
        wire.protocol.data_received(part)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    wire.hang_up()
    asks.set()
    await wire.ended()
    (heard,) = wire.heard
    bodies = [message for message in heard if message["type"] == "http.request"]
    assert b"".join(message["body"] for message in bodies) == b"body"
    assert [message["more_body"] for message in bodies][-1] is False
    assert [message["more_body"] for message in bodies].count(False) == 1
    assert heard[-1] == {"type": "http.disconnect"}


@pytest.mark.parametrize("sent", [b"", b"P", HEAD[:-2], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD[:30]])
async def test_a_connection_on_which_no_head_comes_to_its_end_is_closed(sent: bytes) -> None:
    """H10a: as an idle one is; not while a request is being answered."""
    answers = asyncio.Event()
    wire = Wire(answers, idle_s=0.001)
    if sent:
        wire.protocol.data_received(sent)
    waits = wire.protocol.timeout_keep_alive_task
    if sent.startswith(b"GET"):
        assert waits is None
        wire.hang_up()
        answers.set()
        await wire.ended()
    else:
        await until(lambda: wire.transport.closed)
        wire.hang_up()
    assert wire.protocol.timeout_keep_alive_task is None


async def test_nothing_is_left_of_a_silent_connection_that_broke() -> None:
    """H10a: its timer goes with it."""
    wire = Wire()
    timer = wire.protocol.timeout_keep_alive_task
    assert timer is not None
    wire.protocol.connection_lost(ConnectionResetError())
    assert timer.cancelled()


UPGRADES = [
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n",
]


@pytest.mark.parametrize("offer", UPGRADES)
@pytest.mark.parametrize("cut", [3, 20, -6, -2, 1000])
async def test_an_offer_to_speak_another_protocol_is_declined_and_the_request_is_read(offer: bytes, cut: int) -> None:
    """H10a: `curl --http2` and Java's client make it with every first request; its body is no less a body, and what
    comes behind it no less a request."""
    wire = Wire()
    data = HEAD.replace(b"Content", offer + b"Content") + b"body" + HEAD + b"next"
    for part in (data[:cut], data[cut:]):
        if part:
            wire.protocol.data_received(part)
    await until(lambda: bool(wire.heard and wire.heard[0]))
    assert wire.heard == [[{"type": "http.request", "body": b"body", "more_body": False}]]
    assert [len(cycle.scope["headers"]) for cycle, _ in wire.protocol.pipeline] == [2]
    assert not wire.transport.written
    wire.hang_up()
    await wire.ended()


async def test_any_number_of_offers_in_a_row_is_declined() -> None:
    """H10a: a caller may send its requests without waiting, and the loop must not have to go deeper for each."""
    wire = Wire()
    one = HEAD.replace(b"Content", UPGRADES[0] + b"Content") + b"body"
    wire.protocol.data_received(one * 3000 + one[:-1])
    assert len(wire.protocol.pipeline) == 3000
    wire.protocol.data_received(one[-1:])
    assert not wire.transport.written
    wire.hang_up()
    await wire.ended()


async def test_a_tunnel_is_no_offer() -> None:
    """H5: CONNECT has no body, and the application says that it is not allowed."""
    wire = Wire()
    wire.protocol.data_received(b"CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: bool(wire.heard and wire.heard[0]))
    assert wire.heard == [[{"type": "http.request", "body": b"", "more_body": False}]]
    wire.hang_up()
    await wire.ended()


async def test_in_the_same_instant_too() -> None:
    """L8: bytes and hang-up come before the application had a turn."""
    wire = Wire()
    wire.protocol.data_received(HEAD + b"body")
    wire.hang_up()
    await wire.ended()
    assert [message.get("body") for message in wire.heard[0]] == [b"body", None]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("parts", [[HEAD], [HEAD + b"bod"], [HEAD + b"b", b"od"]])
async def test_a_body_cut_short_is_none(parts: list[bytes], waits: bool) -> None:
    """H10a: its beginning may be handed out, its end is the hang-up."""
    asks = asyncio.Event()
    wire = Wire(asks if waits else None)
    for part in parts:
        wire.protocol.data_received(part)
        await asyncio.sleep(0)
    wire.hang_up()
    asks.set()
    await wire.ended()
    (heard,) = wire.heard
    assert all(message["more_body"] for message in heard[:-1])
    assert heard[-1] == {"type": "http.disconnect"}


async def test_the_request_that_waits_is_told_though_more_were_sent_behind_it() -> None:
    """L8: those behind it never began."""
    wire = Wire()
    wire.protocol.data_received(HEAD + b"body" + HEAD + b"more" + HEAD + b"mo")
    await until(lambda: bool(wire.heard and wire.heard[0]))
    wire.hang_up()
    await wire.ended()
    (heard,) = wire.heard
    assert [message.get("body") for message in heard] == [b"body", None]


async def test_a_connection_is_read_on_behind_a_request_that_waits() -> None:
    """L8: or its hang-up would not be seen; however many requests more are sent, a few of them are taken in."""
    wire = Wire()
    wire.protocol.data_received(HEAD + b"body")
    await until(lambda: bool(wire.heard and wire.heard[0]))
    for _ in range(AHEAD):
        wire.protocol.data_received(HEAD + b"more")
        assert not wire.transport.is_paused
    wire.protocol.data_received(HEAD + b"more")
    assert wire.transport.is_paused
    wire.hang_up()
    await wire.ended()
    assert len(wire.heard) == 1


@pytest.mark.parametrize("length", [4, 100_000, 1_000_000])
async def test_little_is_read_of_a_body_behind_a_request_that_waits(length: int) -> None:
    """P6: a large one stays on the wire until it is its turn."""
    wire = Wire()
    wire.protocol.data_received(HEAD + b"body")
    await until(lambda: bool(wire.heard and wire.heard[0]))
    wire.protocol.data_received(HEAD.replace(b"Length: 4", b"Length: %d" % length))
    assert wire.transport.is_paused is (length > 4)
    wire.hang_up()
    await wire.ended()


class Shortcuts(Wire):
    """An application that waits by no task of its own: the `receive` of each request is in `asked`."""

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(cast(OwnReceive, receive))
        await self.leave.wait()

    def __init__(self) -> None:
        self.asked: list[OwnReceive] = []
        self.leave = asyncio.Event()
        super().__init__()

    async def request(self, sent: bytes) -> OwnReceive:
        self.protocol.data_received(sent)
        await until(lambda: bool(self.asked))
        return self.asked[0]


async def test_a_body_that_is_here_is_taken_at_once_and_only_once() -> None:
    """P1: without waiting for it; ASGI's way then brings nothing but the hang-up."""
    wire = Shortcuts()
    receive = await wire.request(HEAD + b"body")
    assert receive.whole_body() == b"body"
    assert receive.whole_body() is None
    wire.hang_up()
    messages = [await receive() for _ in range(3)]
    assert b"".join(message.get("body", b"") for message in messages) == b""
    assert messages[-1] == {"type": "http.disconnect"}
    wire.leave.set()


@pytest.mark.parametrize("sent", [HEAD, HEAD + b"bod"])
async def test_a_body_of_which_a_part_is_here_is_not_taken(sent: bytes) -> None:
    """P1: nor one whose caller has gone before its end; what has come is still there for who waits for the rest."""
    wire = Shortcuts()
    receive = await wire.request(sent)
    assert receive.whole_body() is None
    wire.protocol.data_received((HEAD + b"body")[len(sent) :])
    assert receive.whole_body() == b"body"
    cut = Shortcuts()
    receive = await cut.request(sent)
    cut.hang_up()
    assert receive.whole_body() is None
    for each in (wire, cut):
        each.leave.set()


async def test_whoever_wants_to_know_is_told_of_the_hang_up() -> None:
    """L8: also of one that came before anybody asked, and though more requests were sent behind."""
    told: list[str] = []
    wire = Shortcuts()
    receive = await wire.request(HEAD + b"body" + HEAD + b"more")
    receive.when_gone(lambda: told.append("later"))
    assert not told
    wire.hang_up()
    assert told == ["later"]
    receive.when_gone(lambda: told.append("at once"))
    assert told == ["later", "at once"]
    wire.leave.set()


async def test_a_connection_whose_hang_up_is_waited_for_is_read() -> None:
    """L8: nobody learns of a hang-up on a connection that is not read, as those of large bodies are between parts."""
    wire = Shortcuts()
    large = HEAD.replace(b"Length: 4", b"Length: 100000")
    receive = await wire.request(large)
    assert wire.transport.is_paused
    receive.when_gone(lambda: None)
    assert not wire.transport.is_paused
    wire.leave.set()
