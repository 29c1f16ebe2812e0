"""Bodies off the wire: bounded in size and time, expanded, and gone without a trace when cut (H10, H10a, L19)."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from groupjudge.errors import BodyTooLarge, InvalidRequest, ShuttingDown
from groupjudge.service.bodies import (
    LARGE_AT_ONCE,
    BodyReader,
    BodyTimeout,
    Disconnected,
    UnsupportedMediaType,
    check_media_type,
)

from .asgi import GONE, Caller, headers, part, until


async def read(reader: BodyReader, caller: Caller, fields: dict[str, str] | None = None) -> bytes:
    said = headers(fields)
    async with reader.place(said) as place:
        return await reader.read(said, caller.receive, place)


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
    reader = BodyReader(3, 60)
    assert await read(reader, Caller(messages)) == b"".join(parts)
    assert reader.reading == 0


async def test_the_limit_is_the_last_size_that_is_read() -> None:
    """H5: announced or not; what is announced beyond it is not waited for."""
    reader = BodyReader(4, 60)
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
    reader, said = BodyReader(1000, 60), {"content-encoding": " GZIP "}
    assert await read(reader, Caller([part(gzip.compress(b"x" * 1000))]), said) == b"x" * 1000
    with pytest.raises(BodyTooLarge):
        await read(reader, Caller([part(gzip.compress(b"x" * 1001))]), said)
    with pytest.raises(InvalidRequest):
        await read(reader, Caller([part(b"plain")]), said)
    assert await read(reader, Caller([part(b"plain")]), {"content-encoding": "identity"}) == b"plain"


@pytest.mark.parametrize("messages", [[GONE], [part(b"a", more=True), GONE]])
async def test_a_caller_that_leaves_before_its_body_is_whole(messages: list) -> None:
    """H10a."""
    reader = BodyReader(10, 60)
    with pytest.raises(Disconnected):
        await read(reader, Caller(messages))
    assert reader.reading == 0


@pytest.mark.parametrize("messages", [[], [part(b"a", more=True)]])
async def test_a_body_that_stops_coming(messages: list) -> None:
    """H10a."""
    reader = BodyReader(10, 0.01)
    with pytest.raises(BodyTimeout, match=r"0\.01 s"):
        await read(reader, Caller(messages))
    assert reader.reading == 0


async def test_closing_gives_up_what_is_on_its_way_and_what_comes_later() -> None:
    """L19: whatever time they had left."""
    reader = BodyReader(10, 3600)
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
    reader, caller = BodyReader(10, 3600), Caller([part(b"a", more=True)])
    begun = asyncio.ensure_future(read(reader, caller))
    await until(lambda: reader.reading == 1)
    await asyncio.sleep(0)
    caller.says(part(b"b", more=True))
    reader.close()
    with pytest.raises(ShuttingDown):
        await begun


async def test_only_so_many_large_bodies_are_read_at_a_time() -> None:
    """P6: the next one begins when one of them is whole; small ones do not wait."""
    reader, said = BodyReader(10**9, 60, large=10), {"content-length": "1000"}
    callers = [Caller([part(b"a", more=True)]) for _ in range(LARGE_AT_ONCE + 1)]
    reads = [asyncio.ensure_future(read(reader, caller, said)) for caller in callers]
    await until(lambda: reader.reading == LARGE_AT_ONCE)
    assert await read(reader, Caller([part(b"small")]), {"content-length": "5"}) == b"small"
    assert reader.reading == LARGE_AT_ONCE
    callers[0].says(part(b"b"))
    assert await reads[0] == b"ab"
    await until(lambda: reader.reading == LARGE_AT_ONCE)
    for caller in callers[1:]:
        caller.says(part(b"b"))
    assert await asyncio.gather(*reads[1:]) == [b"ab"] * LARGE_AT_ONCE


async def test_a_large_body_that_does_not_come_keeps_nobody_waiting() -> None:
    """P6, H11: it gives up its place, and takes one again when it goes on."""
    reader, said = BodyReader(10**9, 60, large=10), {"content-length": "1000"}
    callers = [Caller([part(b"a", more=True)]) for _ in range(LARGE_AT_ONCE)]
    reads = [asyncio.ensure_future(read(reader, caller, said)) for caller in callers]
    await until(lambda: reader.reading == LARGE_AT_ONCE)
    assert await asyncio.wait_for(read(reader, Caller([part(b"later")]), said), 60) == b"later"
    for caller in callers:
        caller.says(part(b"b"))
    assert await asyncio.gather(*reads) == [b"ab"] * LARGE_AT_ONCE


async def test_large_bodies_that_trickle_keep_nobody_waiting() -> None:
    """P6, H11: a body that comes byte by byte has no place for long, though it never pauses."""
    reader, said = BodyReader(10**9, 60, large=10), {"content-length": "1000"}
    callers = [Caller([part(b"a", more=True)]) for _ in range(LARGE_AT_ONCE)]
    reads = [asyncio.ensure_future(read(reader, caller, said)) for caller in callers]
    await until(lambda: reader.reading == LARGE_AT_ONCE)

    async def trickle() -> None:
        while True:
            for caller in callers:
                caller.says(part(b"a", more=True))
            await asyncio.sleep(0.01)

    trickling = asyncio.ensure_future(trickle())
    assert await asyncio.wait_for(read(reader, Caller([part(b"later")]), said), 30) == b"later"
    trickling.cancel()
    for caller in callers:
        caller.says(part(b"b"))
    assert all(body.endswith(b"ab") for body in await asyncio.gather(*reads))


async def test_a_cancelled_read_gives_its_place_back() -> None:
    """Nothing is counted as on its way."""
    reader, said = BodyReader(10**9, 60, large=10), {"content-length": "1000"}
    reads = [asyncio.ensure_future(read(reader, Caller(), said)) for _ in range(LARGE_AT_ONCE + 3)]
    await until(lambda: reader.reading == LARGE_AT_ONCE)
    for each in reads:
        each.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    assert reader.reading == 0
    assert await read(reader, Caller([part(b"x")]), said) == b"x"
