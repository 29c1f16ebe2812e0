"""uvicorn's HTTP protocol, but for two things that L8 asks for:

- a body that arrived whole is handed out though its caller has hung up before anybody asked for it: uvicorn says that
  the caller has gone, and lets the body go with it;
- a caller that hangs up is known to have gone though it had sent more requests on its connection: uvicorn tells only
  the last of them.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class CarefulProtocol(HttpToolsProtocol):
    """Its requests begin with a `receive` that keeps a whole body for the one who asks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unanswered: list[RequestResponseCycle] = []

    def on_headers_complete(self) -> None:
        """The request's task runs only after this, so it takes the new `receive`."""
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
            self._unanswered.append(self.cycle)
            self.cycle.receive = _whole_body_first(self.cycle)  # type: ignore[method-assign, assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that waits on this connection."""
        super().connection_lost(exc)
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()


def _whole_body_first(cycle: RequestResponseCycle) -> Receive:
    original = cycle.receive
    handed_out = False

    async def receive() -> Message:
        nonlocal handed_out
        message: Message = await original()  # type: ignore[assignment]
        if message["type"] == "http.request":
            handed_out = handed_out or not message["more_body"]
            return message
        if handed_out or cycle.more_body or cycle.response_complete:
            return message
        handed_out = True
        body, cycle.body = bytes(cycle.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
