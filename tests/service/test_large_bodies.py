"""Large bodies on their way in: on disk as far as they came, and gone from there however their reading ends (P6-P8)."""

from __future__ import annotations

import asyncio
import gzip
import os
import resource
import sys
import threading
from pathlib import Path

import pytest
import pytest_asyncio

from groupjudge.answers import slots
from groupjudge.answers.spool import Kept, Spool
from groupjudge.errors import BodyTooLarge, GroupJudgeError, InvalidRequest, ShuttingDown, SpoolFull
from groupjudge.service.bodies import EXPANDED_AT_ONCE, BodyReader, BodyTimeout, Disconnected
from groupjudge.service.intake import Intake, Pace

from .asgi import GONE, Caller, headers, part, until

BODY = os.urandom(100_000)
THRESHOLD = 1000
ANNOUNCED = {"content-length": str(len(BODY))}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(THRESHOLD, str(tmp_path))


def reader_of(spool: Spool, timeout_s: float = 60, limit: int = len(BODY), intake: Intake | None = None) -> BodyReader:
    return BodyReader(limit, timeout_s, spool, intake)


async def read(reader: BodyReader, caller: Caller, fields: dict[str, str] | None = None) -> bytes:
    """A body that is kept, as it comes back; it is let go of."""
    kept = await reader.read(headers(fields), caller.receive)
    assert not isinstance(kept, bytes)
    try:
        return kept.whole()
    finally:
        kept.close()


def in_parts(body: bytes, size: int) -> Caller:
    """A caller that sends a body in parts of a size."""
    starts = range(0, len(body), size)
    return Caller(part(body[start : start + size], more=start + size < len(body)) for start in starts)


def nothing_is_left(spool: Spool) -> bool:
    return (spool.on_disk, spool.bytes_on_disk, spool.bytes_in_memory) == (0, 0, 0)


@pytest_asyncio.fixture
async def slow_disk() -> Intake:
    """An intake that has seen a slow write and lives in that moment."""
    times, waits = iter([0.0, 1.0]), iter([0, 1])
    pace = Pace(lambda: next(times, 1.0), lambda: next(waits, 1))
    pace.write(lambda: None)
    assert pace.is_slow
    return Intake(pace)


@pytest.mark.parametrize("size", [100, 999, 50_000, len(BODY)])
@pytest.mark.parametrize("fields", [ANNOUNCED, {}], ids=["announced", "of any length"])
async def test_a_body_in_parts_comes_back_as_it_was(spool: Spool, size: int, fields: dict[str, str]) -> None:
    """H2: a thousand parts, or one."""
    reader = reader_of(spool)
    assert await read(reader, in_parts(BODY, size), fields) == BODY
    assert nothing_is_left(spool)
    assert reader.reading == 0


@pytest.mark.parametrize("size", [100, 50_000])
async def test_threads_write_the_same(spool: Spool, slow_disk: Intake, size: int) -> None:
    """H2, P9: while the disk is slow; many bodies at once."""
    reader = reader_of(spool, intake=slow_disk)
    bodies = [BODY[number:] for number in range(20)]
    found = await asyncio.gather(*(read(reader, in_parts(body, size)) for body in bodies))
    assert found == bodies
    assert nothing_is_left(spool)
    slow_disk.close()


@pytest.mark.parametrize("length", [THRESHOLD, THRESHOLD + 1])
async def test_the_threshold_parts_memory_from_disk(spool: Spool, length: int) -> None:
    """P6: whether the length was announced or not."""
    for fields in ({"content-length": str(length)}, {}):
        body = await reader_of(spool).read(headers(fields), in_parts(BODY[:length], 100).receive)
        assert isinstance(body, bytes) == (length == THRESHOLD)
        if not isinstance(body, bytes):
            assert body.size == length
            body.close()


async def test_what_came_of_a_slow_body_is_in_no_memory(spool: Spool) -> None:
    """P8: thousands of callers may stop midway."""
    reader, caller = reader_of(spool), Caller()
    first = bytes([7]) * 50_000
    held = sys.getrefcount(first)
    caller.says(part(first, more=True))
    reading = asyncio.ensure_future(read(reader, caller, ANNOUNCED))
    await until(lambda: spool.bytes_on_disk == len(first))
    for _ in range(10):
        await asyncio.sleep(0)
    assert sys.getrefcount(first) == held
    caller.says(part(b"end"))
    assert await reading == first + b"end"


async def test_bodies_that_trickle_hold_up_nobody(spool: Spool) -> None:
    """P6, H11: however many have begun and go on byte by byte, a later one is read at once."""
    reader = reader_of(spool)
    slow = [Caller([part(b"a", more=True)]) for _ in range(64)]
    reads = [asyncio.ensure_future(read(reader, caller, ANNOUNCED)) for caller in slow]
    await until(lambda: spool.bytes_on_disk == len(slow))
    for _ in range(3):
        for caller in slow:
            caller.says(part(b"a", more=True))
        assert await read(reader, in_parts(BODY, 1000), ANNOUNCED) == BODY
    assert reader.reading == len(slow)
    for caller in slow:
        caller.says(part(b"b"))
    assert await asyncio.gather(*reads) == [b"aaaab"] * len(slow)
    assert nothing_is_left(spool)


async def ended(reader: BodyReader, caller: Caller, fields: dict[str, str], error: type[BaseException]) -> None:
    with pytest.raises(error):
        await read(reader, caller, fields)
    assert reader.reading == 0


@pytest.mark.parametrize("fields", [ANNOUNCED, {}, {"content-encoding": "gzip"}], ids=["announced", "any", "gzip"])
async def test_however_a_reading_ends_early_nothing_is_left(spool: Spool, fields: dict[str, str]) -> None:
    """L8, H10a: a caller that leaves, one that falls silent, a body beyond the limit, a server that stops."""
    begun = [part(BODY[:50_000], more=True)]
    await ended(reader_of(spool), Caller([*begun, GONE]), fields, Disconnected)
    assert nothing_is_left(spool)
    await ended(reader_of(spool, 0.01), Caller(begun), fields, BodyTimeout)
    assert nothing_is_left(spool)
    await ended(reader_of(spool, limit=70_000), Caller([*begun, *begun]), {**fields}, BodyTooLarge)
    assert nothing_is_left(spool)
    reader = reader_of(spool)
    reading = asyncio.ensure_future(ended(reader, Caller(begun), fields, ShuttingDown))
    await until(lambda: spool.on_disk == 1)
    reader.close()
    await reading
    assert nothing_is_left(spool)
    reading = asyncio.ensure_future(read(reader := reader_of(spool), Caller(begun), fields))
    await until(lambda: spool.on_disk == 1)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert (reader.reading, nothing_is_left(spool)) == (0, True)


async def test_a_disk_that_fills_up_midway_is_a_refusal(spool: Spool) -> None:
    """H5: 429; what was written is let go of, and later bodies find room."""
    reader, caller = reader_of(spool), Caller()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        caller.says(part(BODY[:50_000], more=True))
        reading = asyncio.ensure_future(read(reader, caller, ANNOUNCED))
        await until(lambda: spool.bytes_on_disk == 50_000)
        caller.says(part(BODY[50_000:]))
        with pytest.raises(SpoolFull, match="cannot keep this body"):
            await reading
        assert nothing_is_left(spool)
        assert spool.files == 0
        assert await read(reader, in_parts(BODY[:50_000], 9_000), ANNOUNCED) == BODY[:50_000]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_waiting_for_a_disk_is_nobodys_silence(
    spool: Spool, slow_disk: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10a: a caller is not given up because the server is busy."""
    may_write = threading.Event()
    original = slots.os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        may_write.wait(20)
        return original(fd, data, offset)

    reader, caller = reader_of(spool, 0.02, intake=slow_disk), in_parts(BODY, 1 << 20)
    monkeypatch.setattr(slots.os, "pwrite", pwrite)
    reading = asyncio.ensure_future(read(reader, caller, ANNOUNCED))
    silent = asyncio.ensure_future(read(reader, Caller(), ANNOUNCED))
    with pytest.raises(BodyTimeout):
        await silent
    assert not reading.done()
    may_write.set()
    assert await reading == BODY
    slow_disk.close()


async def test_a_slot_is_not_given_to_others_while_a_thread_writes_into_it(
    spool: Spool, slow_disk: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2, L19: where the reading ends meanwhile, what is still being written is nobody else's body."""
    writes, may_write = threading.Event(), threading.Event()
    original = slots.os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if len(data) == 50_000:
            writes.set()
            may_write.wait(20)
        return original(fd, data, offset)

    monkeypatch.setattr(slots.os, "pwrite", pwrite)
    reader = reader_of(spool, intake=slow_disk)
    reading = asyncio.ensure_future(read(reader, Caller([part(BODY[:50_000], more=True)]), ANNOUNCED))
    await until(writes.is_set)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert spool.on_disk == 1
    kept = [spool.keep(BODY[number:]) for number in range(20)]
    may_write.set()
    await until(lambda: spool.on_disk == 20)
    assert [each.whole() for each in kept] == [BODY[number:] for number in range(20)]
    for each in kept:
        each.close()
    slow_disk.close()
    assert nothing_is_left(spool)


# --- compressed bodies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [BODY, bytes(len(BODY)), BODY[:100]], ids=["large", "large once expanded", "small"])
async def test_a_compressed_body_is_expanded_to_the_spool(spool: Spool, body: bytes) -> None:
    """H10, P8: what is left is the expanded one, on disk where it is large."""
    reader = reader_of(spool, limit=len(BODY) + 1000)
    found = await reader.read(headers({"content-encoding": "gzip"}), in_parts(gzip.compress(body), 777).receive)
    if isinstance(found, bytes):
        assert found == body
    else:
        assert (spool.on_disk, spool.bytes_on_disk) == (1, len(body))
        assert found.whole() == body
        found.close()
    assert isinstance(found, bytes) == (len(body) <= THRESHOLD)
    assert nothing_is_left(spool)


@pytest.mark.parametrize(
    ("sent", "error"),
    [(gzip.compress(bytes(len(BODY) + 1)), BodyTooLarge), (gzip.compress(BODY[:90_000])[:-9], InvalidRequest)],
    ids=["a bomb", "cut short"],
)
async def test_of_a_compressed_body_that_is_refused_nothing_is_left(
    spool: Spool, sent: bytes, error: type[GroupJudgeError]
) -> None:
    """H10."""
    with pytest.raises(error):
        await read(reader_of(spool), in_parts(sent, 10_000), {"content-encoding": "gzip"})
    assert nothing_is_left(spool)


async def test_a_reading_that_is_cancelled_while_it_expands_leaves_nothing(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L19: those whose turn it is, and those that wait for it."""
    may_end = threading.Event()
    expand = BodyReader._expand

    def late(self: BodyReader, packed: bytes | Kept, encoding: str) -> bytes | Kept:
        may_end.wait(20)
        return expand(self, packed, encoding)

    monkeypatch.setattr(BodyReader, "_expand", late)
    reader, sent = reader_of(spool, limit=2 * len(BODY)), gzip.compress(BODY)
    fields = {"content-encoding": "gzip"}
    many = EXPANDED_AT_ONCE + 3
    reads = [asyncio.ensure_future(read(reader, in_parts(sent, 10_000), fields)) for _ in range(many)]
    await until(lambda: spool.on_disk == many and reader.reading == 0)
    for each in reads:
        each.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    assert spool.on_disk == EXPANDED_AT_ONCE
    may_end.set()
    await until(lambda: nothing_is_left(spool))
    assert await read(reader, in_parts(sent, 10_000), fields) == BODY
