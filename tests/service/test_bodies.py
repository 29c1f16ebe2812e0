"""Bodies off the wire: bounded in size and time, expanded, and gone without a trace when cut (H10, H10a, L19)."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from groupjudge.answers.spool import Spool
from groupjudge.errors import BodyTooLarge, InvalidRequest, ShuttingDown
from groupjudge.service.bodies import BodyReader, BodyTimeout, Disconnected, UnsupportedMediaType, check_media_type

from .asgi import GONE, Caller, headers, part, until


def reader_of(limit: int, timeout_s: float) -> BodyReader:
    """One whose bodies are all small."""
    return BodyReader(limit, timeout_s, Spool(1 << 20))


async def read(reader: BodyReader, caller: Caller, fields: dict[str, str] | None = None) -> bytes:
    body = await reader.read(headers(fields), caller.receive)
    assert isinstance(body, bytes)
    return body


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "APPLICATION/JSON",
        "application/json;charset=utf-8",
        "text/plain",
        "a/x+json",
        "a/x+JSON ;b",
    ],
)
def test_types_that_are_json(kind: str) -> None:
    """H10a."""
    check_media_type(headers({"content-type": kind}))
    check_media_type(headers())


@pytest.mark.parametrize(
    "kind", ["text/html", "text/json", "json", "application/jsonl", "a/x+jsonx", "application/xml+json2"]
)
def test_types_that_are_none(kind: str) -> None:
    """H10a: with a hint."""
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        check_media_type(headers({"content-type": kind}))


@pytest.mark.parametrize("parts", [[b"abc"], [b"a", b"b", b"c"], [b"", b"abc", b""], [b""], [b"", b""]])
async def test_a_body_in_parts(parts: list[bytes]) -> None:
    """H10."""
    messages = [part(each, more=True) for each in parts[:-1]] + [part(parts[-1])]
    reader = reader_of(3, 60)
    assert await read(reader, Caller(messages)) == b"".join(parts)
    assert reader.reading == 0


async def test_the_limit_is_the_last_size_that_is_read() -> None:
    """H5: announced or not; what is announced beyond it is not waited for."""
    reader = reader_of(4, 60)
    assert await read(reader, Caller([part(b"12", more=True), part(b"34")])) == b"1234"
    with pytest.raises(BodyTooLarge, match=r"limits\.max_body_bytes"):
        await read(reader, Caller([part(b"123", more=True), part(b"45", more=True)]))
    for length in ("5", "9" * 30):
        with pytest.raises(BodyTooLarge):
            await read(reader, Caller(), {"content-length": length})
    for odd in ("4", "x", "-1", "\u0665"):
        assert await read(reader, Caller([part(b"1")]), {"content-length": odd} if odd.isascii() else {}) == b"1"
    assert reader.reading == 0


async def test_a_compressed_body_is_bounded_once_it_is_expanded() -> None:
    """H10."""
    reader, said = reader_of(1000, 60), {"content-encoding": " GZIP "}
    assert await read(reader, Caller([part(gzip.compress(b"x" * 1000))]), said) == b"x" * 1000
    with pytest.raises(BodyTooLarge):
        await read(reader, Caller([part(gzip.compress(b"x" * 1001))]), said)
    with pytest.raises(InvalidRequest):
        await read(reader, Caller([part(b"plain")]), said)
    assert await read(reader, Caller([part(b"plain")]), {"content-encoding": "identity"}) == b"plain"


@pytest.mark.parametrize("messages", [[GONE], [part(b"a", more=True), GONE]])
async def test_a_caller_that_leaves_before_its_body_is_whole(messages: list) -> None:
    """H10a."""
    reader = reader_of(10, 60)
    with pytest.raises(Disconnected):
        await read(reader, Caller(messages))
    assert reader.reading == 0


@pytest.mark.parametrize("messages", [[], [part(b"a", more=True)]])
async def test_a_body_that_stops_coming(messages: list) -> None:
    """H10a."""
    reader = reader_of(10, 0.01)
    with pytest.raises(BodyTimeout, match=r"0\.01 s"):
        await read(reader, Caller(messages))
    assert reader.reading == 0


async def test_closing_gives_up_what_is_on_its_way_and_what_comes_later() -> None:
    """L19: whatever time they had left."""
    reader = reader_of(10, 3600)
    begun = [asyncio.ensure_future(read(reader, Caller([part(b"a", more=True)]))) for _ in range(3)]
    await until(lambda: reader.reading == 3)
    reader.close()
    assert reader.closed
    for each in begun:
        with pytest.raises(ShuttingDown):
            await each
    with pytest.raises(ShuttingDown):
        await read(reader, Caller([part(b"whole")]))
    assert reader.reading == 0


async def test_a_part_that_comes_while_the_server_closes_does_not_bring_its_time_back() -> None:
    """L19: nor one that came in the same turn of the loop."""
    reader, caller = reader_of(10, 3600), Caller([part(b"a", more=True)])
    begun = asyncio.ensure_future(read(reader, caller))
    await until(lambda: reader.reading == 1)
    await asyncio.sleep(0)
    caller.says(part(b"b", more=True))
    reader.close()
    with pytest.raises(ShuttingDown):
        await begun
