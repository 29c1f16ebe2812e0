"""Requests to a judge behind a proxy, by aiohttp: it knows tunnels, and what a proxy may be told (J22)."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from groupjudge.judging.http.address import Address, credentials
from groupjudge.judging.http.connection import MAX_REPLY_BYTES, LostError, Response
from groupjudge.judging.http.pool import CONNECT_TIMEOUT_S, ConnectError, DeadlineError

# aiohttp warns of larger bodies that are given as bytes, and writes files in chunks.
_LARGE_BODY_BYTES = 1 << 20
# What aiohttp raises where a connection is lost before the head of a reply came; later on it is a ClientPayloadError.
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError)


class Proxy(NamedTuple):
    """A proxy on the way to the judge. What authorises us there goes with each request to a judge that speaks HTTP; to
    one that speaks HTTPS only with the request for the tunnel, for the rest is the judge's to read."""

    address: URL
    request_headers: Mapping[str, str]
    connect_headers: Mapping[str, str] | None
    secrets: tuple[str, ...]


def proxy_for(base: URL) -> Proxy | None:
    """The proxy that the environment names for `base`. Read once: aiohttp would read it, and a netrc file, per call."""
    proxies = getproxies()
    found = proxies.get(base.scheme) or proxies.get("all")
    if not found or proxy_bypass(base.host or ""):
        return None
    proxy = URL(found)
    secrets, authorization = credentials(proxy, None)
    headers = {"Proxy-Authorization": authorization} if authorization else {}
    if base.scheme == "https":
        return Proxy(proxy.with_user(None), {}, headers, secrets)
    return Proxy(proxy.with_user(None), headers, None, secrets)


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


class Proxied:
    """The connections to one judge by way of `proxy`. Made anywhere; its first request binds it to the running loop."""

    def __init__(self, address: Address, proxy: Proxy, headers: Mapping[str, str]) -> None:
        self._base = address.base
        self._proxy = proxy
        self._headers = headers
        # Not among the headers of a session: those aiohttp shows to the proxy too.
        self.how_to_ask: dict[str, Any] = {
            "headers": CIMultiDict({**address.headers, **proxy.request_headers}),
            "proxy_headers": proxy.connect_headers,
            "allow_redirects": False,
        }
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def exchange(self, method: str, path: str, body: bytes, timeout_s: float) -> Response:
        """As `Direct.exchange`."""
        timeout = asyncio.timeout(timeout_s)
        try:
            async with timeout:
                return await self._resent(method, URL(self._base + path), body)
        except TimeoutError as error:
            if timeout.expired():
                raise DeadlineError from None
            raise LostError(str(error), type(error).__name__) from None
        except aiohttp.ClientConnectorError as error:
            raise ConnectError(str(error), type(error).__name__) from None
        except (aiohttp.ClientError, OSError) as error:
            raise LostError(str(error), type(error).__name__) from None
        finally:
            del timeout  # it holds the task that may end with the error, and that this frame

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()

    async def _resent(self, method: str, url: URL, body: bytes) -> Response:
        progress = _Progress()
        _progress.set(progress)
        try:
            return await self._exchange(self._session(pooled=True), method, url, body)
        except _LOST:
            if progress.connected_anew:
                raise
        return await self._exchange(self._session(pooled=False), method, url, body)

    async def _exchange(self, session: aiohttp.ClientSession, method: str, url: URL, body: bytes) -> Response:
        data = body if len(body) <= _LARGE_BODY_BYTES else io.BytesIO(body)
        async with session.request(method, url, data=data or None, **self.how_to_ask) as response:
            headers = response.headers
            reply = await _read(response)
            return Response(response.status, reply, headers.get("Retry-After"), headers.get("Location"))

    def _session(self, *, pooled: bool) -> aiohttp.ClientSession:
        if pooled not in self._sessions:
            self._sessions[pooled] = aiohttp.ClientSession(
                # No limit here: the gate bounds the calls, and what waits there is served in order.
                connector=aiohttp.TCPConnector(limit=0, force_close=not pooled, socket_factory=_open_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                proxy=self._proxy.address,
                skip_auto_headers=("User-Agent",),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            )
        return self._sessions[pooled]


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
