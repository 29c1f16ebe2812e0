"""One request to a judge and its whole reply, over one pool of connections (J22). It knows no verdicts and no tries.

A connection that lay idle may be closed by the judge at the very moment it is used again. HTTP cannot tell that
from a judge that died over the request, but either way it is over, without a reply. Such a request is sent once more,
within the same try and deadline, on a connection of its own that never saw a pool: what fails there is a failed try.
"""

from __future__ import annotations

import asyncio
import base64
import io
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from groupjudge.errors import ConfigurationError
from groupjudge.judging.scrub import Scrubber

MAX_REPLY_BYTES = 8 << 20
CONNECT_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 5.0
# aiohttp warns of larger bodies that are given as bytes, and writes files in chunks.
_LARGE_BODY_BYTES = 1 << 20
_URL_SHOWN = 200
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    # Replies are small; to unpack them costs more than it saves.
    "Accept-Encoding": "identity",
}

# What aiohttp raises where a connection is lost before the head of a reply came; later on it is a ClientPayloadError.
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError)


class Response(NamedTuple):
    """A complete HTTP reply."""

    status: int
    body: bytes
    retry_after: str | None
    location: str | None


class TransportError(Exception):
    """No complete reply came. The text is for a person and holds no secret; `kind` is one word for logs."""

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


class DeadlineError(Exception):
    """The reply was not complete within the request's time."""


class _Progress:
    """Whether a socket was opened for one request; else a pooled connection serves it."""

    __slots__ = ("connected_anew",)

    def __init__(self) -> None:
        self.connected_anew = False


_progress: ContextVar[_Progress] = ContextVar("_progress", default=_Progress())  # noqa: B039 -- nobody reads the default


def _open_socket(address: tuple[Any, ...]) -> socket.socket:
    _progress.get().connected_anew = True
    family, kind, protocol = address[:3]
    return socket.socket(family=family, type=kind, proto=protocol)


class Address(NamedTuple):
    """A judge's base address: `shown` may stand in texts, `headers` carry what authorises us, `secrets` may not."""

    base: str
    shown: str
    headers: dict[str, str]
    secrets: tuple[str, ...]


def parse_address(base_url: str, api_key: str | None, key: str = "judge") -> Address:
    """Take a user and password out of `base_url`; `key` is where it stands in the configuration. Raises
    ConfigurationError, which quotes neither."""
    try:
        url = URL(base_url)
    except ValueError:
        raise ConfigurationError(f"{key}.base_url is no web address") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(f"{key}.base_url must be a web address such as http://127.0.0.1:8000/v1")
    if api_key is not None and url.user is not None:
        raise ConfigurationError(f"{key}.api_key and a user in {key}.base_url exclude each other: leave one out")
    bare = str(url.with_user(None)).rstrip("/")
    secrets, authorization = _credentials(url, api_key)
    headers = {"Authorization": authorization} if authorization else {}
    return Address(bare, bare[:_URL_SHOWN], headers, secrets)


def _credentials(url: URL, api_key: str | None) -> tuple[tuple[str, ...], str]:
    """The secrets, and the header value that they make."""
    if api_key is not None:
        return (api_key,), f"Bearer {api_key}"
    if url.user is None and url.password is None:
        return (), ""
    user, password = url.user or "", url.password or ""
    # A user without a password is a token.
    return (f"{user}:{password}", password or user), _basic(user, password)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Transport:
    """The connections to one judge. Made anywhere; its first request binds it to the running loop."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_s: float, *, trust_env: bool = False, key: str = "judge"
    ) -> None:
        address = parse_address(base_url, api_key, key)
        self.shown = address.shown
        self._base = address.base
        self._timeout_s = timeout_s
        self._proxy = _proxy_for(URL(self._base)) if trust_env else _Proxy()
        # Not among the headers of a session: those aiohttp shows to the proxy too.
        self._how_to_ask: dict[str, Any] = {
            "headers": CIMultiDict({**address.headers, **self._proxy.request_headers}),
            "proxy_headers": self._proxy.connect_headers,
            "allow_redirects": False,
        }
        self.scrubber = Scrubber((*address.secrets, *self._proxy.secrets))
        self._pooled: aiohttp.ClientSession | None = None
        self._unpooled: aiohttp.ClientSession | None = None
        self._closed = False

    async def post(self, url: URL, body: bytes) -> Response:
        """Send `body` (JSON) and read the reply. Raises TransportError, DeadlineError."""
        timeout = asyncio.timeout(self._timeout_s)
        try:
            async with timeout:
                return await self._post(url, body)
        except TimeoutError as error:
            if timeout.expired():
                raise DeadlineError from None
            raise self._error(error) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._error(error) from None

    def url(self, path: str) -> URL:
        return URL(self._base + path)

    async def probe(self, path: str) -> str | None:
        """Ask for `path` by GET. None where the judge is there and lets us in, else why not."""
        try:
            async with asyncio.timeout(min(PROBE_TIMEOUT_S, self._timeout_s)):
                async with self._session().get(self.url(path), **self._how_to_ask) as response:
                    status = response.status
        except TimeoutError:
            return f"the judge at {self.shown} does not answer"
        except (aiohttp.ClientError, OSError) as error:
            return str(self._error(error))
        refused = status in (401, 403) or status >= 500
        return f"the judge at {self.shown} answers with status {status}" if refused else None

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for session in (self._pooled, self._unpooled):
            if session is not None:
                await session.close()

    async def _post(self, url: URL, body: bytes) -> Response:
        progress = _Progress()
        _progress.set(progress)
        try:
            return await self._exchange(self._session(), url, body)
        except _LOST:
            if progress.connected_anew:
                raise
        return await self._exchange(self._session(pooled=False), url, body)

    async def _exchange(self, session: aiohttp.ClientSession, url: URL, body: bytes) -> Response:
        data = body if len(body) <= _LARGE_BODY_BYTES else io.BytesIO(body)
        async with session.post(url, data=data, **self._how_to_ask) as response:
            headers = response.headers
            reply = await _read(response)
            return Response(response.status, reply, headers.get("Retry-After"), headers.get("Location"))

    def _session(self, *, pooled: bool = True) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the judge's connections are closed")
        session = self._pooled if pooled else self._unpooled
        if session is None:
            session = self._new_session(force_close=not pooled)
            if pooled:
                self._pooled = session
            else:
                self._unpooled = session
        return session

    def _new_session(self, *, force_close: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            # No limit here: the gate bounds the calls, and what waits there is served in order.
            connector=aiohttp.TCPConnector(limit=0, force_close=force_close, socket_factory=_open_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            proxy=self._proxy.address,
            skip_auto_headers=("User-Agent",),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        )

    def _error(self, error: Exception) -> TransportError:
        kind = type(error).__name__
        what = "cannot connect to" if isinstance(error, aiohttp.ClientConnectorError) else "lost the reply of"
        detail = self.scrubber.excerpt(str(error), 300)
        return TransportError(f"{what} the judge at {self.shown}: {kind}: {detail}", kind)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises ClientPayloadError where it is larger than a reply may be."""
    chunks = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise aiohttp.ClientPayloadError(f"the reply is larger than {MAX_REPLY_BYTES} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _Proxy(NamedTuple):
    """A proxy on the way to the judge. What authorises us there goes with each request to a judge that speaks HTTP; to
    one that speaks HTTPS only with the request for the tunnel, for the rest is the judge's to read."""

    address: URL | None = None
    request_headers: Mapping[str, str] = {}
    connect_headers: Mapping[str, str] | None = None
    secrets: tuple[str, ...] = ()


def _proxy_for(base: URL) -> _Proxy:
    """The proxy that the environment names for `base`. Read once: aiohttp would read it, and a netrc file, per call."""
    proxies = getproxies()
    found = proxies.get(base.scheme) or proxies.get("all")
    if not found or proxy_bypass(base.host or ""):
        return _Proxy()
    proxy = URL(found)
    secrets, authorization = _credentials(proxy, None)
    headers = {"Proxy-Authorization": authorization} if authorization else {}
    if base.scheme == "https":
        return _Proxy(proxy.with_user(None), {}, headers, secrets)
    return _Proxy(proxy.with_user(None), headers, None, secrets)
