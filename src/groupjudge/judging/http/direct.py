"""Requests straight to a judge: what goes out, byte for byte, over a pool of connections (J22)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from yarl import URL

from groupjudge.judging.http.address import Address
from groupjudge.judging.http.connection import Response
from groupjudge.judging.http.pool import Pool


class Direct:
    """The connections to one judge. Made anywhere; its first request binds it to the running loop."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        url = URL(address.base)
        assert url.host is not None
        assert url.port is not None
        self._pool = Pool(url.host, url.port, _tls() if url.scheme == "https" else None)
        self._path = url.raw_path.rstrip("/")
        fields = {"Host": url.host_port_subcomponent, **headers, **address.headers}
        self._fields = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._heads: dict[tuple[str, str], bytes] = {}

    async def exchange(self, method: str, path: str, body: bytes, timeout_s: float) -> Response:
        """Send a request (`path` is below the base address), and read its reply. Raises ConnectError, LostError,
        DeadlineError."""
        head = self._heads.get((method, path)) or self._head(method, path)
        return await self._pool.exchange((b"%bContent-Length: %d\r\n\r\n" % (head, len(body)), body), timeout_s)

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _head(self, method: str, path: str) -> bytes:
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._fields}".encode()
        self._heads[method, path] = head
        return head


def _tls() -> ssl.SSLContext:
    """Who is believed is what Python believes: the system's certificates, or those of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
