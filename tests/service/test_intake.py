"""Whose connection is read next, and who writes (P6-P9)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from groupjudge.service.intake import AT_ONCE, REST_S, ROOM, SLOW_S, Intake, Pace, _waits


class Clock:
    """Time that a test makes pass, mostly waiting."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits = 0

    def __call__(self) -> float:
        return self.now

    def pace(self) -> Pace:
        return Pace(self, lambda: self.waits)

    def takes(self, seconds: float, waits: int = 1) -> Callable[[], None]:
        """Work that takes so long."""

        def work() -> None:
            self.now += seconds
            self.waits += waits

        return work


# --- whether the disk is slow -----------------------------------------------------------------------------------------


def test_a_disk_is_slow_for_a_while_after_a_slow_write() -> None:
    """P9."""
    clock = Clock()
    pace = clock.pace()
    pace.write(clock.takes(SLOW_S / 2))
    assert not pace.is_slow
    pace.write(clock.takes(SLOW_S * 2))
    assert pace.is_slow
    clock.now += REST_S / 2
    assert pace.is_slow
    clock.now += REST_S
    assert not pace.is_slow


def test_a_busy_machine_is_no_slow_disk() -> None:
    """P8: a write takes long too where others have the processor, and threads would only make that worse."""
    clock = Clock()
    pace = clock.pace()
    pace.write(clock.takes(1.0, waits=0))
    assert not pace.is_slow


def test_a_thread_that_sleeps_waits() -> None:
    """P8: what the system counts."""
    before = _waits()
    time.sleep(0.001)
    assert _waits() > before


def test_a_write_that_fails_slowly_is_slow() -> None:
    clock = Clock()
    pace = clock.pace()

    def work() -> None:
        clock.takes(1)()
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        pace.write(work)
    assert pace.is_slow


# --- who writes -------------------------------------------------------------------------------------------------------


async def test_the_loop_writes_itself_unless_the_disk_is_slow() -> None:
    """P3, P9: and does so again later."""
    clock = Clock()
    intake = Intake(clock.pace())
    writers: list[threading.Thread] = []

    async def write(seconds: float = 0.0) -> bool:
        """Whether this thread did it."""

        def work() -> None:
            writers.append(threading.current_thread())
            clock.takes(seconds)()

        await intake.write(work, 1)
        return writers[-1] is threading.current_thread()

    assert [await write(), await write(1.0)] == [True, True]
    assert [await write(), await write()] == [False, False]
    clock.now += REST_S - 0.1
    assert not await write()
    clock.now += 0.2
    assert await write()
    assert await write()
    intake.close()


async def test_what_fails_in_a_thread_fails_for_who_asked() -> None:
    """H5."""
    clock = Clock()
    intake = Intake(clock.pace())
    await intake.write(clock.takes(1), 1)

    def work() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await intake.write(work, ROOM)
    assert not intake.is_crowded
    intake.close()


async def test_while_much_waits_for_the_disk_nobody_is_asked_for_more() -> None:
    """P8: what waits in threads is bounded; others go on as it is written."""
    clock = Clock()
    intake = Intake(clock.pace())
    await intake.write(clock.takes(1), 1)
    may_end = threading.Event()
    writes = [asyncio.ensure_future(intake.write(lambda: may_end.wait(20) and None, ROOM // 2)) for _ in range(2)]
    await asyncio.sleep(0)
    assert intake.is_crowded
    passing = asyncio.ensure_future(intake.pass_through(1))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not passing.done()
    may_end.set()
    await asyncio.gather(*writes, passing)
    assert not intake.is_crowded
    intake.close()


# --- whose turn it is -------------------------------------------------------------------------------------------------


class Line:
    """Bodies that ask for several pieces each; `passed` has the loop's turn and the body's number, in their order."""

    def __init__(self) -> None:
        self.intake = Intake()
        self.passed: list[tuple[int, int]] = []
        self._turn = 0
        self._counting = asyncio.ensure_future(self._count())

    async def _count(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    def comes(self, number: int, pieces: int = 1) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._take(number, pieces))

    async def _take(self, number: int, pieces: int) -> None:
        for _ in range(pieces):
            await self.intake.pass_through(number)
            self.passed.append((self._turn, number))

    async def whole(self, bodies: list[asyncio.Task[None]]) -> list[int]:
        """The numbers, in the order in which they passed, once all have."""
        await asyncio.gather(*bodies)
        self._counting.cancel()
        return [number for _, number in self.passed]

    def most_in_a_turn(self) -> int:
        turns = [turn for turn, _ in self.passed]
        return max(map(turns.count, turns))


async def test_a_few_pass_in_a_turn_of_the_loop() -> None:
    """P6, P9: each would bring all that has arrived."""
    line = Line()
    numbers = await line.whole([line.comes(number, 3) for number in range(10 * AT_ONCE)])
    assert line.most_in_a_turn() == AT_ONCE
    assert sorted(numbers) == sorted(3 * [*range(10 * AT_ONCE)])


async def test_who_came_first_is_asked_first() -> None:
    """P8: bodies become whole in the order in which they came, and no more of them are half here than must be."""
    line = Line()
    bodies = [line.comes(1000 + number) for number in range(AT_ONCE)]
    bodies += [line.comes(number, 4) for number in (5, 3, 1, 2, 4)]
    bodies += [line.comes(10 + number, 4) for number in range(5 * AT_ONCE)]
    numbers = (await line.whole(bodies))[AT_ONCE:]
    assert numbers[:5] == [1, 2, 3, 4, 5]
    ends = [len(numbers) - numbers[::-1].index(number) for number in sorted(set(numbers))]
    assert ends == sorted(ends)
    assert ends[0] <= 4 * 3 * AT_ONCE


async def test_whoever_passes_alone_does_not_wait() -> None:
    """P3."""
    intake = Intake()
    for number in range(3 * AT_ONCE):
        coroutine = intake.pass_through(number)
        with pytest.raises(StopIteration):
            coroutine.send(None)
        await asyncio.sleep(0)


async def test_who_waited_in_vain_holds_up_nobody() -> None:
    """P6: those who gave up while they stood in line take no place in a turn."""
    line = Line()
    first = [line.comes(number) for number in range(AT_ONCE)]
    vain = [line.comes(AT_ONCE + number) for number in range(5 * AT_ONCE)]
    late = line.comes(1000)
    await asyncio.sleep(0)
    for each in vain:
        each.cancel()
    assert await line.whole([*first, late]) == [*range(AT_ONCE), 1000]
    await asyncio.gather(*vain, return_exceptions=True)
