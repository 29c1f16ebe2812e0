"""What a client says while it tries again, and of tokens that cannot be sent (A4)."""

from __future__ import annotations

import asyncio
import logging
import pickle
import ssl
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from groupjudge import AsyncClient, Client, DeadlinePassed
from groupjudge.client.troubles import FIRST_S, LONGEST_S, Troubles

CALLS = [
    lambda address, **more: Client(address, token="sekret", **more).judge("q", ["a", "b"]),
    lambda address, **more: asyncio.run(AsyncClient(address, token="sekret", **more).judge("q", ["a", "b"])),
]
BOTH = pytest.mark.parametrize("call", CALLS, ids=["sync", "async"])
CLIENTS = pytest.mark.parametrize("kind", [Client, AsyncClient])


@BOTH
def test_a_server_that_is_not_reached_is_said_at_once(
    call: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A4: a wrong port would be tried for over an hour in silence otherwise; the tries that follow say nothing soon."""
    with pytest.raises(DeadlinePassed):
        call("http://127.0.0.1:9/prefix", deadline_s=0.5)
    (record,) = [record for record in caplog.records if record.name == "groupjudge.client"]
    assert record.levelno == logging.WARNING
    assert "http://127.0.0.1:9/prefix" in record.getMessage()
    assert "ConnectionRefusedError" in record.getMessage()
    assert "sekret" not in caplog.text


@BOTH
async def test_tls_to_a_server_without_it_is_raised_at_once(call: Callable[..., Any]) -> None:
    """A4: no try changes that."""

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLError) as raised:
            await asyncio.to_thread(call, f"https://127.0.0.1:{port}", deadline_s=20)
    assert not isinstance(raised.value, ssl.SSLEOFError)


def told(troubles: Troubles, caplog: pytest.LogCaptureFixture, *moments: float) -> list[float]:
    """At which of the moments something is logged."""
    said = []
    for moment in moments:
        caplog.clear()
        troubles.met("http://x", "why", moment)
        said += [moment] * len(caplog.records)
    return said


def test_what_fails_for_long_is_said_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    """A4: at 0, 5, 15, 35, ... seconds, no further apart than 300; after a calm the next one is a first one again."""
    troubles = Troubles()
    said = told(troubles, caplog, *(1000.0 + second for second in range(4000)))
    gaps = [after - before for before, after in pairwise(said)]
    assert said[0] == 1000
    assert gaps[:4] == [FIRST_S, 10, 20, 40]
    assert set(gaps[6:]) == {LONGEST_S}
    assert told(troubles, caplog, 9000, 9004, 9005) == [9000, 9005]


def test_a_client_that_is_pickled_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    """A4: another machine has another clock."""
    troubles = Troubles()
    told(troubles, caplog, 1e9)
    assert told(pickle.loads(pickle.dumps(troubles)), caplog, 5.0) == [5.0]


@CLIENTS
@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("sekret\n", "a line break"),
        ("sek\rret", "a line break"),
        ("", "is empty"),
        ("sekrét", "not ASCII"),
        ("sekret\u20ac", "not ASCII"),
        ("sekret ", "a space"),
        ("sek\x00ret", "a control character"),
        ("sek\x7fret", "a control character"),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused_unshown(
    kind: type[Client | AsyncClient], token: str, says: str
) -> None:
    """A4: when the client is made, by the kind of its fault; a secret belongs into no text."""
    with pytest.raises(ValueError, match=f"token.*{says}") as raised:
        kind("http://h", token=token)
    assert "sek" not in str(raised.value)
    with pytest.raises(ValueError, match="the header X-Key"):
        kind("http://h", headers={"X-Key": token})


@CLIENTS
def test_a_token_is_a_text(kind: type[Client | AsyncClient]) -> None:
    """A4."""
    with pytest.raises(TypeError, match="token must be a str, not a bytes"):
        kind("http://h", token=b"sekret")  # type: ignore[arg-type]
    kind("http://h", token="sek ret!~", headers={"Cookie": "a=b; c=d"})
