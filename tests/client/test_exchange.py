"""One request and its reply, over real sockets, by both drivers (A4)."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.judges import DISCONNECT, RESET, SILENCE, Reply, StubJudge, cut, http

from groupjudge.client import exchange as exchange_module
from groupjudge.client.exchange import Address, ConnectionLost, exchange, exchange_async
from groupjudge.client.values import Reply as Answered
from groupjudge.client.values import Request

Driver = Callable[[Address, Request, float], Awaitable[Answered]]


async def in_a_thread(address: Address, request: Request, deadline: float) -> Answered:
    return await asyncio.to_thread(exchange, address, request, deadline)


BOTH = pytest.mark.parametrize("driver", [in_a_thread, exchange_async], ids=["sync", "async"])
POST = Request("POST", "/verify", b'{"x": 1}', {"Prefer": "return=minimal"})
CHUNKED = Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
INTERIM = Reply(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http(200, b"abc").raw)
UNTIL_CLOSED = Reply(b"HTTP/1.1 200 OK\r\n\r\nabcde", "close")


async def ask(driver: Driver, server: StubJudge, request: Request = POST, seconds: float = 60) -> Answered:
    return await driver(Address.of(f"http://127.0.0.1:{server.port}"), request, time.monotonic() + seconds)


@BOTH
@pytest.mark.parametrize("reply", [http(200, b"abcde"), CHUNKED, UNTIL_CLOSED], ids=["length", "chunks", "close"])
async def test_a_reply_comes_whole_however_it_is_framed(driver: Driver, reply: Reply) -> None:
    """A4."""
    async with StubJudge(reply) as server:
        answered = await ask(driver, server)
    assert (answered.status, answered.body) == (200, b"abcde")


@BOTH
async def test_what_is_asked_arrives_as_it_was_meant(driver: Driver) -> None:
    """A4: with its headers and an interim reply before the one that counts; the connection is for it alone."""
    async with StubJudge(INTERIM, http(404, headers={"Location": "/x"})) as server:
        assert (await ask(driver, server)).body == b"abc"
        answered = await ask(driver, server, Request("GET", "/v1/groups/a%2Fb/0/1?wait=1"))
        assert (answered.status, answered.headers["location"]) == (404, "/x")
        posted, got = server.received
        assert server.connections == 2
    assert (posted.method, posted.target, posted.body) == ("POST", "/verify", b'{"x": 1}')
    assert posted.headers["prefer"] == "return=minimal"
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["host"].startswith("127.0.0.1:")
    assert (got.method, got.target, got.body) == ("GET", "/v1/groups/a%2Fb/0/1?wait=1", b"")


@BOTH
@pytest.mark.parametrize(
    "reply",
    [DISCONNECT, RESET, cut(http(200, b"x" * 50)), Reply(b"SSH-2.0-x\r\n\r\n", "close")],
    ids=["closed", "reset", "cut", "no HTTP"],
)
async def test_a_connection_that_ends_without_a_reply_is_an_error(driver: Driver, reply: Reply) -> None:
    """A4: never half a reply; of a kind that is tried again."""
    async with StubJudge(reply) as server:
        with pytest.raises(ConnectionError):
            await ask(driver, server)


@BOTH
async def test_silence_ends_at_the_deadline(driver: Driver) -> None:
    """A4: also one that has passed already."""
    async with StubJudge(SILENCE, SILENCE) as server:
        with pytest.raises(TimeoutError):
            await ask(driver, server, seconds=0.2)
        with pytest.raises(TimeoutError):
            await ask(driver, server, seconds=-1)


@BOTH
async def test_bytes_that_trickle_do_not_move_the_deadline(driver: Driver) -> None:
    """A4: it is that of the whole exchange, not of each read."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with suppress(ConnectionError, asyncio.CancelledError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)  # the pace of what is tested
        writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    async with server:
        address = Address.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(TimeoutError):
            await driver(address, POST, time.monotonic() + 0.4)


def self_signed(folder: Path) -> tuple[str, str]:
    """A key, and a certificate for 127.0.0.1."""
    key, certificate = str(folder / "key"), str(folder / "certificate")
    signed = ["-x509", "-nodes", "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-newkey", "rsa:2048", *signed, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing here makes certificates")
@BOTH
async def test_a_server_is_believed_by_its_certificate(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4: over TLS, and only where somebody who is trusted has signed it."""
    key, certificate = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"{")
            writer.write(http(200, b"abc").raw)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        address = Address.of(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        exchange_module._tls.cache_clear()
        with pytest.raises(ssl.SSLCertVerificationError):
            await driver(address, POST, time.monotonic() + 60)
        exchange_module._tls.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert (await driver(address, POST, time.monotonic() + 60)).body == b"abc"
    exchange_module._tls.cache_clear()


async def test_a_cancelled_exchange_hangs_up() -> None:
    """A4: nothing of it is left on the loop."""
    async with StubJudge(SILENCE) as server:
        task = asyncio.ensure_future(ask(exchange_async, server))
        await server.until(lambda: len(server.received) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda: not server.open_connections)


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix", "authority"),
    [
        ("http://127.0.0.1:8600", "127.0.0.1", 8600, "", "127.0.0.1:8600"),
        ("http://judge", "judge", 80, "", "judge:80"),
        ("https://judge/", "judge", 443, "", "judge:443"),
        ("http://[::1]:1/a/b/", "::1", 1, "/a/b", "[::1]:1"),
        ("http://h:5/ng-rollout/r-a1", "h", 5, "/ng-rollout/r-a1", "h:5"),
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, prefix: str, authority: str) -> None:
    """A4, H9: a path before ours is kept."""
    address = Address.of(url)
    assert (address.host, address.port, address.prefix, address.authority) == (host, port, prefix, authority)
    assert address.is_tls == url.startswith("https")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8600", "ftp://h", "http://", "http://h:x", "http://h/?x=1", "http://h#x"]
)
def test_what_is_no_address_is_an_error(url: str) -> None:
    """A4: when the client is made."""
    with pytest.raises(ValueError, match="must be http://HOST:PORT"):
        Address.of(url)


def test_a_lost_connection_is_of_the_kind_that_passes() -> None:
    """A4."""
    assert issubclass(ConnectionLost, ConnectionError)
