"""uvicorn's HTTP protocol, but for what L8 and H10a ask for, and some things that spare memory and time:

- a body that arrived whole is handed out though its caller has hung up before anybody asked for it: uvicorn says that
  the caller has gone, and lets the body go with it;
- a caller that hangs up is known to have gone though it had sent more requests on its connection: uvicorn tells only
  the last of them, and reads no further once it has one that must wait;
- an offer to go on in another protocol (`Upgrade: h2c`, which some clients make with every first request) is declined
  by reading the request as if it were not there: the parser ends at such a head, and its body would be lost;
- a connection on which no request comes, or only the beginning of its head, is closed like one between two requests;
- a large body is not read from its connection before somebody asks for it, and then only a little of it where much was
  read already: many that arrive at once would each hold as much as one read may bring (P6-P8);
- a body is copied less often on its way in;
- who writes a large reply can see whether its caller reads it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast
from weakref import ref

import httptools
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from groupjudge.service.intake import Intake

IS_SLOW = "caller_is_slow"
"""In a request's `scope["state"]`: whether its caller does not read as fast as is written to it."""
AHEAD = 8
"""So many requests are read behind the one that is being answered, so that its caller's hang-up is seen behind them.
One with a large body is not: behind that no hang-up is seen before its turn."""
_LARGE = 1 << 16
_LITTLE = 1 << 14
_LEAST = 1 << 12
_BUFFER = memoryview(bytearray(1 << 18))


class CarefulProtocol(HttpToolsProtocol):
    """Its requests begin with a `receive` that keeps a whole body for the one who asks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unanswered: list[RequestResponseCycle] = []
        self._incoming: list[bytes] = []
        self._parsed = b""
        self.is_large = False
        """Whether the body that comes may be a large one: it is read only as it is asked for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection on which nothing comes is as idle as one between two requests."""
        super().connection_made(transport)
        self._expect_more()

    def data_received(self, data: bytes) -> None:
        """Parse what came. A head that stops coming is waited for no longer than the next request is."""
        self._incoming.append(data)
        while self._incoming:
            self._parsed = self._incoming.pop()
            super().data_received(self._parsed)
        self._parsed = b""
        if self.cycle is None or self.cycle.response_complete:
            self._expect_more()

    def _expect_more(self) -> None:
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _should_upgrade(self) -> bool:
        """Whether the request offers another protocol: uvicorn then leaves it to `handle_websocket_upgrade`."""
        return self.parser.get_method() != b"CONNECT"

    def handle_websocket_upgrade(self) -> None:
        """Decline: read the same head again without the offer, and after it what came behind the head, uncopied."""
        offered = sys.exc_info()[1]
        assert isinstance(offered, httptools.HttpParserUpgrade)
        version = self.parser.get_http_version().encode()
        lines = [b" ".join((self.parser.get_method(), self.url, b"HTTP/" + version))]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._incoming += (self._parsed[offered.args[0] :], b"\r\n".join((*lines, b"", b"")))

    def on_headers_complete(self) -> None:
        """The request's task runs only after this, so it takes the new `receive`."""
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
            self._unanswered.append(self.cycle)
            self.cycle.body = cast(bytearray, _Parts())
            if 0 < len(self.pipeline) <= AHEAD:
                self.flow.resume_reading()
            self.is_large = self._may_be_large()
            receive = OwnReceive(self.cycle, pauses=self.is_large)
            self.cycle.receive = receive  # type: ignore[method-assign, assignment]
            flow = self.flow
            self.scope.setdefault("state", {})[IS_SLOW] = lambda: flow.write_paused
            if self.is_large:
                self.flow.pause_reading()

    def has_part(self) -> bool:
        """Whether a part of a body is there to be asked for, and more is to come."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and len(cycle.body) > 0 and not cycle.response_complete

    def _may_be_large(self) -> bool:
        """Whether the head announces a large body, or one of any length."""
        for name, value in self.headers:
            if name == b"content-length":
                return value.isdigit() and int(value) > _LARGE
            if name == b"transfer-encoding":
                return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that waits on this connection."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
                cast(OwnReceive, cycle.receive).gone()
            cycle.message_event.set()


class FrugalConnection(asyncio.BufferedProtocol):
    """What the event loop talks to; `CarefulProtocol` is behind it.

    Between requests it reads a little at a time, enough for a head and a small body. Of large bodies that arrive at
    once the system holds some 200 KB each, which would all come in with one read, long before it is their turn. Those
    that were asked for their next part and bring it all in the same moment bring less where the `intake` is crowded.
    """

    def __init__(self, *args: Any, intake: Intake, **kwargs: Any) -> None:
        self._protocol = CarefulProtocol(*args, **kwargs)
        self._intake = intake

    def get_buffer(self, sizehint: int) -> memoryview:
        """All connections read into the same memory: the parser takes out of it what was read, at once."""
        cycle = self._protocol.cycle
        if cycle is None or cycle.response_complete:
            return _BUFFER[:_LITTLE]
        return _BUFFER[:_LEAST] if self._intake.is_crowded else _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        protocol, intake = self._protocol, self._intake
        protocol.data_received(_BUFFER[:nbytes])  # type: ignore[arg-type] # it goes to the parser, which copies
        if nbytes > _LEAST:
            intake.came(nbytes)
        if protocol.has_part() and (protocol.is_large or intake.is_crowded):
            protocol.flow.pause_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(cast(asyncio.Transport, transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _Parts:
    """Stands in for the bytearray that uvicorn gathers a body in: what came in one piece is handed out uncopied."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def __iadd__(self, part: bytes) -> _Parts:
        self._parts.append(part)
        self._size += len(part)
        return self

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class OwnReceive:
    """The `receive` of a request on our own protocol: ASGI's, and two short cuts for who knows it. `pauses`: a part of
    the body that was there already is handed out without reading the next one. Its cycle holds it, and must not be held
    by it: of two that hold each other nobody but the garbage collector would let go."""

    __slots__ = ("_handed_out", "_of", "_pauses", "_when_gone")

    def __init__(self, cycle: RequestResponseCycle, *, pauses: bool) -> None:
        self._of = ref(cycle)
        self._pauses = pauses
        self._handed_out = False
        self._when_gone: Callable[[], object] | None = None

    async def __call__(self) -> Message:
        cycle = self._of()
        if cycle is None:
            return {"type": "http.disconnect"}
        message: Message = await RequestResponseCycle.receive(cycle)  # type: ignore[assignment]
        if message["type"] == "http.request":
            cycle.body = cast(bytearray, _Parts())
            self._handed_out = self._handed_out or not message["more_body"]
            if self._pauses and not self._handed_out:
                cycle.flow.pause_reading()
            return message
        if (body := self.whole_body()) is None:
            return message
        return {"type": "http.request", "body": body, "more_body": False}

    def whole_body(self) -> bytes | None:
        """The body, where all of it is here and nothing of it was handed out yet: no task need wait for it."""
        cycle = self._of()
        if cycle is None or self._handed_out or cycle.more_body or cycle.response_complete:
            return None
        self._handed_out = True
        body, cycle.body = bytes(cycle.body), cast(bytearray, _Parts())
        return body

    def when_gone(self, tell: Callable[[], object]) -> None:
        """Call `tell` once the caller has hung up, at once where it has, and without a task that waits for it."""
        self._when_gone = tell
        cycle = self._of()
        if cycle is None or cycle.disconnected:
            tell()
        else:
            cycle.flow.resume_reading()

    def gone(self) -> None:
        """The caller has hung up."""
        if self._when_gone is not None:
            self._when_gone()
