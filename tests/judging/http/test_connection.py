"""One connection: what a judge may send, however it comes in."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.judging.http.connection import MAX_HEAD_BYTES, MAX_REPLY_BYTES, Connection, LostError, Response


class Wire:
    """Stands in for the transport of a connection."""

    def __init__(self) -> None:
        self.sent = b""
        self.unsent = 0
        self.aborted = False

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.sent += b"".join(parts)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


class Line:
    """A connection, its wire, and who was told that it is over."""

    def __init__(self) -> None:
        self.lost: list[Connection] = []
        self.connection = Connection(self.lost.append)
        self.wire = Wire()
        self.connection.connection_made(cast(Any, self.wire))

    def ask(self) -> asyncio.Future[Response]:
        return self.connection.ask((b"head", b"body"))

    def hear(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)


def reply(*fields: str, body: bytes = b"", status: str = "200 OK", version: str = "1.1") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/{version} {status}", *fields, "")).encode() + body


SIZED = reply("content-length: 5", body=b"hello")
CHUNKED = reply("Transfer-Encoding: chunked", body=b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: t\r\n\r\n")
HINTED = reply("link: x", status="103 Early Hints") + reply(status="100 Continue") + SIZED
PACKED = gzip.compress(b"hello", mtime=0)
ZIPPED = reply("content-encoding: gzip", f"content-length: {len(PACKED)}", body=PACKED)
DEFLATED = reply("connection: close", "content-encoding: Deflate", body=zlib.compress(b"hello"))
ENDLESS = reply("connection: close", body=b"hello")
OLD = reply(body=b"hello", version="1.0")
KEPT_OPEN = {"sized": SIZED, "chunked": CHUNKED, "hinted": HINTED, "zipped": ZIPPED}
ENDED_BY_CLOSE = {"endless": ENDLESS, "deflated": DEFLATED, "old": OLD}


def pieces_of(whole: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    return [whole[start:stop] for start, stop in pairwise(places)]


@pytest.mark.parametrize("whole", KEPT_OPEN.values(), ids=KEPT_OPEN.keys())
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_a_reply_is_the_same_in_whatever_pieces_it_comes(whole: bytes, cuts: list[int]) -> None:
    """J22: and the connection can be used again after it."""

    async def twice() -> None:
        line = Line()
        for _ in range(2):
            asked = line.ask()
            line.hear(*pieces_of(whole, cuts))
            assert asked.result() == Response(200, b"hello", None, None)
            assert line.connection.is_reusable
        assert line.wire.sent == b"headbody" * 2

    asyncio.run(twice())


@pytest.mark.parametrize("whole", ENDED_BY_CLOSE.values(), ids=ENDED_BY_CLOSE.keys())
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_a_reply_of_unsaid_length_ends_with_its_connection(whole: bytes, cuts: list[int]) -> None:
    """J22: which cannot be used again."""

    async def once() -> None:
        line = Line()
        asked = line.ask()
        line.hear(*pieces_of(whole, cuts))
        assert not asked.done()
        line.connection.eof_received()
        assert asked.result() == Response(200, b"hello", None, None)
        assert not line.connection.is_reusable

    asyncio.run(once())


@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        (SIZED, 1),
        (SIZED, 20),
        (SIZED, -1),
        (CHUNKED, -1),
        (CHUNKED, -20),
        (ENDLESS, 20),
        (HINTED, -len(SIZED)),
        (HINTED, -len(SIZED) + 1),
    ],
)
async def test_a_reply_that_is_cut_is_lost(whole: bytes, cut: int) -> None:
    """J12: half a reply is none, and since some of it came the connection was not closed while idle."""
    line = Line()
    asked = line.ask()
    line.hear(whole[:cut])
    line.connection.eof_received()
    line.connection.connection_lost(None)
    with pytest.raises(LostError, match="closed the connection") as lost:
        asked.result()
    assert (lost.value.unanswered, lost.value.kind) == (False, "Disconnected")
    assert line.lost == [line.connection]


async def test_a_reset_loses_even_a_reply_of_unsaid_length() -> None:
    """J12: nobody can know that it was whole."""
    line = Line()
    asked = line.ask()
    line.hear(ENDLESS)
    line.connection.connection_lost(ConnectionResetError(104, "reset by peer"))
    with pytest.raises(LostError, match="reset by peer") as lost:
        asked.result()
    assert (lost.value.unanswered, lost.value.kind) == (False, "ConnectionResetError")


async def test_a_connection_that_ends_without_a_word_says_so() -> None:
    """J22: it may have been closed while it was idle, before this request."""
    line = Line()
    first = line.ask()
    line.hear(SIZED)
    assert first.result().status == 200
    asked = line.ask()
    line.connection.eof_received()
    line.connection.connection_lost(None)
    for lost in (asked, line.ask()):
        with pytest.raises(LostError) as error:
            lost.result()
        assert error.value.unanswered
    assert line.wire.sent == b"headbody" * 2


async def test_fields_that_are_of_use_are_kept() -> None:
    """J12, J22: when to come again, and where a redirect points, whatever case their names are in."""
    line = Line()
    asked = line.ask()
    line.hear(reply("RETRY-after: 3", "Location: /caf\u00e9", "content-length: 0", status="429 Too Many"))
    assert asked.result() == Response(429, b"", "3", "/caf\u00c3\u00a9")
    later = line.ask()
    line.hear(SIZED)
    assert later.result() == Response(200, b"hello", None, None)


async def test_what_follows_the_body_changes_nothing_of_the_reply() -> None:
    """J12, J22: fields of a trailer say neither how the body is packed, nor when to come again."""
    line = Line()
    for field in ("content-encoding: gzip", "Retry-After: 9", "location: x"):
        asked = line.ask()
        line.hear(CHUNKED.replace(b"Trailer: t", field.encode()))
        assert asked.result() == Response(200, b"hello", None, None)
        assert line.connection.is_reusable


async def test_a_large_body_in_small_chunks_is_no_large_head() -> None:
    """J22: however much the marks of its chunks come to."""
    line = Line()
    asked = line.ask()
    line.hear(reply("transfer-encoding: chunked"), *[b"1\r\nx\r\n" * 1000] * 200)
    line.hear(b"0\r\n\r\n")
    assert asked.result().body == b"x" * 200_000


async def test_a_reply_that_came_before_all_was_sent_ends_the_use_of_its_connection() -> None:
    """J22: a judge that answers early may never read the rest, and the next request would wait behind that."""
    line = Line()
    asked = line.ask()
    line.wire.unsent = 1
    line.hear(SIZED)
    assert asked.result().body == b"hello"
    assert not line.connection.is_reusable


async def test_a_reply_without_a_body_needs_no_length() -> None:
    """J12."""
    line = Line()
    asked = line.ask()
    line.hear(reply(status="204 No Content"))
    assert asked.result() == Response(204, b"", None, None)
    assert line.connection.is_reusable


@pytest.mark.parametrize("said", ["Connection: close", "connection: Close, x"])
async def test_a_judge_that_closes_after_a_reply_is_taken_at_its_word(said: str) -> None:
    """J22."""
    line = Line()
    asked = line.ask()
    line.hear(reply(said, "content-length: 2", body=b"ok"))
    assert asked.result().body == b"ok"
    assert not line.connection.is_reusable


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "no HTTP"),
        (reply("content-length: x", body=b"hello"), "no HTTP"),
        (reply("content-length: 5", "transfer-encoding: chunked", body=b"hello"), "no HTTP"),
        (reply("upgrade: h2c", "connection: upgrade", status="101 Switching Protocols"), "another protocol"),
        (reply(status="099 Never"), "is no HTTP"),
        (reply("x: " + "y" * 2 * MAX_HEAD_BYTES), "head is larger"),
        (reply(status="100 Continue") * (MAX_HEAD_BYTES // 16), "head is larger"),
        (CHUNKED.removesuffix(b"\r\n") + b"x: " + b"y" * 3 * MAX_HEAD_BYTES, "head is larger"),
        (CHUNKED.removesuffix(b"\r\n") + b"x: y\r\n" * MAX_HEAD_BYTES, "head is larger"),
        (CHUNKED.partition(b"=")[0] + b"y" * 3 * MAX_HEAD_BYTES, "head is larger"),
        (reply(f"content-length: {MAX_REPLY_BYTES + 1}", body=bytes(MAX_REPLY_BYTES + 1)), "larger than"),
        (reply("content-encoding: br", "content-length: 1", body=b"x"), "packed as b'br'"),
        (reply("content-encoding: gzip", "content-length: 5", body=b"hello"), "cannot be unpacked"),
        (ZIPPED.replace(b"length: 25", b"length: 20"), "cut"),
    ],
)
async def test_what_is_no_reply_is_lost_and_its_connection_is_not_used_again(sent: bytes, why: str) -> None:
    """J12, J22: nor is a reply that would fill the memory read to its end."""
    line = Line()
    asked = line.ask()
    for piece in pieces_of(sent, list(range(0, len(sent), 1 << 16))):
        line.hear(piece)
    with pytest.raises(LostError, match=why) as lost:
        asked.result()
    assert not lost.value.unanswered
    assert line.wire.aborted or b"content-encoding" in sent


@pytest.mark.parametrize("size", [2 * MAX_HEAD_BYTES, MAX_REPLY_BYTES])
async def test_a_reply_may_be_as_large_as_is_said(size: int) -> None:
    """J22: and larger than its head may be."""
    line = Line()
    asked = line.ask()
    whole = reply(f"content-length: {size}", body=bytes(size))
    line.hear(*pieces_of(whole, list(range(0, len(whole), 1 << 16))))
    assert len(asked.result().body) == size
    assert not line.wire.aborted


async def test_a_head_may_be_as_large_as_is_said() -> None:
    """J22."""
    line = Line()
    asked = line.ask()
    rest = len(reply("x: ", "content-length: 0"))
    whole = reply("x: " + "y" * (MAX_HEAD_BYTES - rest), "content-length: 0")
    line.hear(whole[:-1], whole[-1:])
    assert asked.result().status == 200


async def test_a_small_reply_that_unpacks_to_a_huge_one_is_refused() -> None:
    """J22: as large as it may be is what is unpacked."""
    line = Line()
    bomb = gzip.compress(bytes(MAX_REPLY_BYTES + 1))
    asked = line.ask()
    line.hear(reply("content-encoding: gzip", f"content-length: {len(bomb)}", body=bomb))
    with pytest.raises(LostError, match="larger than 8388608 bytes unpacked"):
        asked.result()


@pytest.mark.parametrize("more", [SIZED, b"HTTP/1.1 200", b"x"])
async def test_a_connection_that_brings_more_than_was_asked_for_is_not_used_again(more: bytes) -> None:
    """J22: the next call would get another one's reply."""
    line = Line()
    asked = line.ask()
    line.hear(SIZED + more)
    assert asked.result().body == b"hello"
    assert not line.connection.is_reusable


async def test_a_connection_that_speaks_unasked_is_closed() -> None:
    """J22."""
    line = Line()
    line.hear(SIZED)
    assert line.wire.aborted
    assert not line.connection.is_reusable


async def test_whoever_stopped_waiting_is_told_nothing() -> None:
    """J22: a cancelled call."""
    for end in (lambda line: line.hear(SIZED), lambda line: line.connection.connection_lost(None)):
        line = Line()
        asked = line.ask()
        asked.cancel()
        end(line)
        assert asked.cancelled()
