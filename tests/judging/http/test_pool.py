"""The connections straight to a judge: made, kept, given up (J22)."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from groupjudge.judging.http import pool as module
from groupjudge.judging.http.connection import LostError, Response
from groupjudge.judging.http.pool import ConnectError, DeadlineError, Pool

REQUEST = (b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LONG_S = 60.0


class Peer:
    """A judge that answers each request with OK, or once it is let go. `open` are its connections."""

    def __init__(self) -> None:
        self.asked = self.opened = self.port = 0
        self.open: set[asyncio.Transport] = set()
        self._held: list[asyncio.Transport] | None = None
        self._changed = asyncio.Event()

    def hold(self) -> None:
        self._held = []

    def let_go(self) -> None:
        held, self._held = self._held or [], None
        for transport in held:
            if transport in self.open:
                transport.write(OK)

    def came(self, transport: asyncio.Transport) -> None:
        self.asked += 1
        if self._held is None:
            transport.write(OK)
        else:
            self._held.append(transport)
        self._changed.set()

    def opens(self, transport: asyncio.Transport) -> None:
        self.opened += 1
        self.open.add(transport)

    def loses(self, transport: asyncio.Transport) -> None:
        self.open.discard(transport)
        self._changed.set()

    async def until_asked(self, times: int) -> None:
        while self.asked < times:
            await self._change()

    async def until_left(self, connections: int) -> None:
        while len(self.open) != connections:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        async with asyncio.timeout(LONG_S):
            await self._changed.wait()


class Served(asyncio.Protocol):
    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer.opens(self._transport)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"{}"):
            self._peer.came(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._peer.loses(self._transport)


@asynccontextmanager
async def peer(tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    served = Peer()
    server = await asyncio.get_running_loop().create_server(lambda: Served(served), "127.0.0.1", 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for transport in served.open:
            transport.abort()


async def test_one_request_after_another_uses_one_connection() -> None:
    """J22: one pool, no new client per call."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        for _ in range(3):
            assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        assert judge.opened == 1
        pool.close()
        await judge.until_left(0)


async def test_a_judge_may_be_at_an_address_of_either_kind() -> None:
    """J22: over IPv6 with the zone that a link-local address has."""
    for host in ("127.0.0.1", "::1", "fe80::1%lo"):
        kind, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(kind)
        try:
            listener.bind(address)
        except OSError:
            listener.close()
            continue  # this machine has no such address
        served = Peer()
        server = await asyncio.get_running_loop().create_server(lambda served=served: Served(served), sock=listener)
        pool = Pool(host, listener.getsockname()[1])
        assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        pool.close()
        await served.until_left(0)
        server.close()


async def five_at_once(judge: Peer, pool: Pool) -> list[Response]:
    """The replies to five requests, none of which is answered before all have come."""
    judge.hold()
    asked = judge.asked
    calls = [asyncio.create_task(pool.exchange(REQUEST, LONG_S)) for _ in range(5)]
    await judge.until_asked(asked + 5)
    judge.let_go()
    return await asyncio.gather(*calls)


async def test_requests_at_once_have_a_connection_each_and_keep_them() -> None:
    """J22."""
    async with peer() as judge:
        pool = Pool("localhost", judge.port)
        for _ in range(2):
            assert [reply.body for reply in await five_at_once(judge, pool)] == [b"ok"] * 5
        assert judge.opened == 5
        pool.close()


async def test_a_reply_that_does_not_come_in_time_ends_its_connection() -> None:
    """J12: the judge need not go on."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        judge.hold()
        with pytest.raises(DeadlineError):
            await pool.exchange(REQUEST, 0.05)
        await judge.until_left(0)
        judge.let_go()
        assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        assert judge.opened == 2
        pool.close()


async def test_a_cancelled_request_ends_its_connection() -> None:
    """J22: the judge learns of it, and nobody gets that reply."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        await pool.exchange(REQUEST, LONG_S)
        judge.hold()
        call = asyncio.create_task(pool.exchange(REQUEST, LONG_S))
        await judge.until_asked(2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await judge.until_left(0)
        judge.let_go()
        assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        pool.close()


async def test_a_connection_that_lay_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """J22: a firewall may have forgotten it, and would swallow the request."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        await pool.exchange(REQUEST, LONG_S)
        monkeypatch.setattr(module, "IDLE_S", 0.0)
        await pool.exchange(REQUEST, LONG_S)
        assert judge.opened == 2
        await judge.until_left(0)


async def test_connections_that_nobody_needs_any_more_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """J22: after a burst, as long as anything is asked at all."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        await five_at_once(judge, pool)
        newest = next(reversed(pool._idle))
        for connection in pool._idle:
            if connection is not newest:
                connection.idle_since -= module.IDLE_S
        await pool.exchange(REQUEST, LONG_S)
        assert judge.opened == 5
        await judge.until_left(1)
        pool.close()


async def test_closing_the_pool_loses_what_waits_and_opens_nothing_anew() -> None:
    """J22: also of a request that met a connection of the pool."""
    async with peer() as judge:
        pool = Pool("127.0.0.1", judge.port)
        await pool.exchange(REQUEST, LONG_S)
        judge.hold()
        call = asyncio.create_task(pool.exchange(REQUEST, LONG_S))
        await judge.until_asked(2)
        pool.close()
        with pytest.raises(LostError):
            await call
        assert judge.opened == 1


async def test_a_connection_that_is_made_while_the_pool_closes_carries_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J22: nor does it stay."""
    lookups = Lookups(monkeypatch)
    async with peer() as judge:
        pool = Pool("localhost", judge.port)
        call = asyncio.create_task(pool.exchange(REQUEST, LONG_S))
        await lookups.begun.wait()
        pool.close()
        lookups.go_on.set()
        with pytest.raises(LostError, match="closed"):
            await call
        await judge.until_left(0)
        assert judge.asked == 0


class Lookups:
    """Lookups of names that end once they may `go_on`; `count` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._original = module._looked_up
        monkeypatch.setattr(module, "_looked_up", self._held)

    async def _held(self, host: str, port: int) -> list[Any]:
        self.count += 1
        self.begun.set()
        await self.go_on.wait()
        return await self._original(host, port)


async def test_calls_that_connect_at_once_look_up_their_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """J22: but for one that goes on where the one who began has left; and a later call asks again."""
    lookups = Lookups(monkeypatch)
    async with peer() as judge:
        pool = Pool("localhost", judge.port)
        calls = [asyncio.create_task(pool.exchange(REQUEST, LONG_S)) for _ in range(5)]
        await lookups.begun.wait()
        await asyncio.sleep(0)
        calls[0].cancel()
        lookups.go_on.set()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each).__name__ for each in ended] == ["CancelledError"] + ["Response"] * 4
        assert lookups.count == 2
        for idle in (*pool._idle,):
            idle.close()
        await judge.until_left(0)
        assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        assert lookups.count == 3
        pool.close()


async def test_a_lookup_that_fails_fails_for_all_who_wait_and_for_nobody_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J12."""
    lookups = Lookups(monkeypatch)
    pool = Pool("judge.invalid", 80)
    calls = [asyncio.create_task(pool.exchange(REQUEST, LONG_S)) for _ in range(3)]
    await lookups.begun.wait()
    await asyncio.sleep(0)
    lookups.go_on.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each).__name__ for each in ended] == ["ConnectError"] * 3
    with pytest.raises(ConnectError):
        await pool.exchange(REQUEST, LONG_S)
    assert lookups.count == 2


async def test_a_lookup_that_fails_leaves_no_garbage_in_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: as tests/e2e/test_garbage.py has it of all that becomes of a request."""

    async def fails(host: str, port: int) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(module, "_looked_up", fails)
    pool = Pool("judge.invalid", 80)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            with pytest.raises(ConnectError):
                await pool.exchange(REQUEST, LONG_S)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert [each for each in gc.garbage if isinstance(each, OSError)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_nobody_there_is_a_connection_that_cannot_be_had() -> None:
    """J12: by name and by number."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(ConnectError, match="onnect") as failed:
                await Pool(host, port).exchange(REQUEST, LONG_S)
            assert failed.value.kind == "ConnectionRefusedError"
    with pytest.raises(ConnectError) as failed:
        await Pool("judge.invalid", 80).exchange(REQUEST, LONG_S)
    assert failed.value.kind == "gaierror"


@asynccontextmanager
async def deaf() -> AsyncIterator[int]:
    """A port where connections are not answered: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        callers = []
        for _ in range(4):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
            callers.append(caller)
        yield listener.getsockname()[1]
        for caller in callers:
            caller.close()


async def test_a_connection_that_is_not_answered_counts_against_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """J12: or against the time that a connection may take, where that is shorter."""
    async with deaf() as port:
        with pytest.raises(DeadlineError):
            await Pool("127.0.0.1", port).exchange(REQUEST, 0.05)
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.05)
        with pytest.raises(ConnectError, match=r"no connection within 0\.05 s"):
            await Pool("127.0.0.1", port).exchange(REQUEST, LONG_S)


@pytest.fixture
def signed(tmp_path: Path) -> tuple[str, str]:
    """A key, and a certificate for 127.0.0.1 that it has signed itself."""
    if shutil.which("openssl") is None:
        pytest.skip("nothing here makes certificates")
    key, certificate = str(tmp_path / "key"), str(tmp_path / "certificate")
    of_whom = ["-x509", "-subj", "/CN=judge", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", *of_whom, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


async def test_over_tls_a_judge_is_believed_by_its_certificate_alone(signed: tuple[str, str]) -> None:
    """J22: signed by somebody who is trusted, for this very host."""
    key, certificate = signed
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)
    async with peer(server) as judge:
        pool = Pool("127.0.0.1", judge.port, trusting)
        assert (await pool.exchange(REQUEST, LONG_S)).body == b"ok"
        pool.close()
        for host, context in (("127.0.0.1", ssl.create_default_context()), ("localhost", trusting)):
            with pytest.raises(ConnectError, match=r"(?i)certificate") as failed:
                await Pool(host, judge.port, context).exchange(REQUEST, LONG_S)
            assert failed.value.kind == "SSLCertVerificationError"
        assert judge.asked == 1
