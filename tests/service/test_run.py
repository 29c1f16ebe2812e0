"""How the server listens and how long it keeps what (H10a, L19)."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest
import uvicorn

from groupjudge.errors import ConfigurationError
from groupjudge.service.intake import Intake
from groupjudge.service.run import _uvicorn_config, bind, running
from groupjudge.settings import ServerSettings, Settings


async def test_idle_connections_are_kept_longer_than_common_clients_keep_them() -> None:
    """H10a: 75 seconds."""
    assert _uvicorn_config(Settings(), None, Intake()).timeout_keep_alive == 75


@pytest.mark.parametrize("seconds", [0.2, 1.0, 10.0, 90.5])
async def test_replies_have_the_configured_time_to_leave(seconds: float) -> None:
    """L19: not a rounded one."""
    settings = Settings(server=ServerSettings(grace_s=seconds))
    assert _uvicorn_config(settings, None, Intake()).timeout_graceful_shutdown == seconds


def test_a_port_is_bound_exclusively() -> None:
    """H10a: not even a socket that would share it gets it, and the error says what to change."""
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"127\.0\.0\.1:{port}.*server\.port"):
            bind("127.0.0.1", port)
        with socket.socket() as sharing:
            sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with pytest.raises(OSError, match="in use"):
                sharing.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    "host", ["192.0.2.1", "no.such.host.invalid", "300.1.1.1", "a\0", "a\nb", "\u00e9" * 70, "a" * 9_000]
)
def test_a_host_that_is_not_here(host: str) -> None:
    """H13: an address of others, a name that nobody has or can have, no address at all; one line that is not long."""
    with pytest.raises(ConfigurationError, match=r"server\.host") as caught:
        bind(host, 0)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_port_may_be_taken_again_at_once() -> None:
    """After a restart, though old connections have not timed out."""
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.setblocking(True)
            first.accept()[0].close()
    bind("127.0.0.1", port).close()


@pytest.mark.parametrize("used", [False, True])
async def test_a_request_that_nobody_has_read_yet_when_the_listener_closes_is_answered(
    monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    """L19: on a new connection, and on one that was idle; its caller does not meet an end without a word."""
    tick = uvicorn.Server.on_tick
    request = b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

    async with running(Settings(server=ServerSettings(port=0))) as address:
        port = int(address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if used:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"}")).endswith(b'{"status":"ok"}')

        async def tick_and_send(server: uvicorn.Server, counter: int) -> bool:
            """Send in the very step that ends the server's waiting."""
            over = await tick(server, counter)
            if over:
                writer.write(request)
            return over

        monkeypatch.setattr(uvicorn.Server, "on_tick", tick_and_send)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body)["code"] == "shutting_down"
    writer.close()
