"""The places at a judge: bounded, first come first served (J3)."""

from __future__ import annotations

import asyncio

import pytest

from groupjudge.judging.gate import Gate


async def test_places_are_given_in_the_order_of_asking_and_never_more_than_there_are() -> None:
    """J3: also to those that come while others wait."""
    gate, order, leave = Gate(2), [], [asyncio.Event() for _ in range(6)]

    async def caller(number: int) -> None:
        async with gate:
            order.append(number)
            assert gate.in_flight <= 2
            await leave[number].wait()

    tasks = [asyncio.create_task(caller(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert (order, gate.in_flight, gate.waiting) == ([0, 1], 2, 3)
    leave[0].set()
    late = asyncio.create_task(caller(5))
    for event in leave:
        event.set()
    await asyncio.gather(*tasks, late)
    assert order == [0, 1, 2, 3, 4, 5]
    assert (gate.in_flight, gate.waiting) == (0, 0)


async def test_a_place_is_free_again_after_an_error_or_a_cancellation() -> None:
    """J3."""
    gate = Gate(1)
    with pytest.raises(ValueError, match="x"):
        async with gate:
            raise ValueError("x")

    async def hold() -> None:
        async with gate:
            await asyncio.Event().wait()

    holder, waiter = asyncio.create_task(hold()), asyncio.create_task(hold())
    await asyncio.sleep(0)
    for task in (waiter, holder):
        task.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    async with gate:
        assert gate.in_flight == 1
    assert (gate.in_flight, gate.waiting) == (0, 0)


async def test_whoever_is_cancelled_just_as_it_gets_its_place_passes_it_on() -> None:
    """J3: no place is lost."""
    gate, served = Gate(1), []

    async def caller(name: str) -> None:
        async with gate:
            served.append(name)

    await gate.__aenter__()
    first, second = asyncio.create_task(caller("first")), asyncio.create_task(caller("second"))
    await asyncio.sleep(0)
    await gate.__aexit__()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert served == ["second"]
    assert (gate.in_flight, gate.waiting) == (0, 0)
