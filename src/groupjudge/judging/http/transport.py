"""One request to a judge and its whole reply, over one pool of connections (J22). It knows no verdicts and no tries.

A connection that lay idle may be closed by the judge at the very moment it is used again. HTTP cannot tell that
from a judge that died over the request, but either way it is over, without a reply. Such a request is sent once more,
within the same try and deadline, on a connection of its own that never saw a pool: what fails there is a failed try.
"""

from __future__ import annotations

from typing import Protocol

from yarl import URL

from groupjudge.judging.http.address import parse_address
from groupjudge.judging.http.connection import LostError, Response
from groupjudge.judging.http.direct import Direct
from groupjudge.judging.http.pool import ConnectError, DeadlineError
from groupjudge.judging.http.proxied import Proxied, proxy_for
from groupjudge.judging.scrub import Scrubber

__all__ = ["DeadlineError", "Response", "Transport", "TransportError"]

PROBE_TIMEOUT_S = 5.0
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    # Replies are small; to unpack them costs more than it saves.
    "Accept-Encoding": "identity",
}


class TransportError(Exception):
    """No complete reply came. The text is for a person and holds no secret; `kind` is one word for logs."""

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


class _Way(Protocol):
    """How a judge is reached."""

    async def exchange(self, method: str, path: str, body: bytes, timeout_s: float) -> Response:
        """Raises ConnectError, LostError, DeadlineError."""
        ...

    async def close(self) -> None: ...


class Transport:
    """The connections to one judge. Made anywhere; its first request binds it to the running loop."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_s: float, *, trust_env: bool = False, key: str = "judge"
    ) -> None:
        address = parse_address(base_url, api_key, key)
        self.shown = address.shown
        self._timeout_s = timeout_s
        proxy = proxy_for(URL(address.base)) if trust_env else None
        self._way: _Way = Direct(address, _HEADERS) if proxy is None else Proxied(address, proxy, _HEADERS)
        self.scrubber = Scrubber((*address.secrets, *(() if proxy is None else proxy.secrets)))
        self._closed = False

    async def post(self, path: str, body: bytes) -> Response:
        """Send `body` (JSON) to `path` below the base address, and read the reply. Raises TransportError,
        DeadlineError."""
        return await self._exchange("POST", path, body, self._timeout_s)

    async def probe(self, path: str) -> str | None:
        """Ask for `path` by GET. None where the judge is there and lets us in, else why not."""
        try:
            response = await self._exchange("GET", path, b"", min(PROBE_TIMEOUT_S, self._timeout_s))
        except DeadlineError:
            return f"the judge at {self.shown} does not answer"
        except TransportError as error:
            return str(error)
        status = response.status
        refused = status in (401, 403) or status >= 500
        return f"the judge at {self.shown} answers with status {status}" if refused else None

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        await self._way.close()

    async def _exchange(self, method: str, path: str, body: bytes, timeout_s: float) -> Response:
        if self._closed:
            raise RuntimeError("the judge's connections are closed")
        try:
            return await self._way.exchange(method, path, body, timeout_s)
        except ConnectError as error:
            raise self._error("cannot connect to", error, error.kind) from None
        except LostError as error:
            raise self._error("lost the reply of", error, error.kind) from None

    def _error(self, what: str, error: Exception, kind: str) -> TransportError:
        detail = self.scrubber.excerpt(str(error), 300)
        return TransportError(f"{what} the judge at {self.shown}: {kind}: {detail}", kind)
