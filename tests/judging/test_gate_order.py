"""Who may go next, and where to: several groups, several desks, time (F10, F11, F13)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from groupjudge.judging.desk import Desk, Place
from groupjudge.judging.gate import TURN, Gate, Line

from ..support.clock import Clock


class Groups:
    """Calls of named groups at a gate, and the order in which they got their places."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.places: list[Place] = []

    def call(self, name: str, line: Line, calls: int = 1, tokens: float = 0.0) -> list[asyncio.Task[None]]:
        """So many calls of a group come."""
        made = [asyncio.create_task(self._call(name, line, tokens)) for _ in range(calls)]
        self.tasks += made
        return made

    async def _call(self, name: str, line: Line, tokens: float) -> None:
        place = await self.gate.enter(line, tokens)
        self.order.append(name)
        self.places.append(place)

    def end(self, count: int = 1) -> None:
        """The calls that have been under way for longest end."""
        for _ in range(count):
            self.gate.leave(self.places.pop(0))

    async def run_down(self) -> None:
        """End calls one by one until nobody waits."""
        await settled()
        while self.places:
            self.end()
            await settled()
        await asyncio.gather(*self.tasks)
        assert (self.gate.in_flight, self.gate.waiting) == (0, 0)


async def settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def test_groups_are_served_in_the_order_in_which_they_became_complete() -> None:
    """F13: though the calls of the second came first."""
    gate = Gate(1)
    groups = Groups(gate)
    first, second, third = (gate.line() for _ in range(3))
    groups.call("held", gate.line())
    groups.call("b", second, 3)
    groups.call("c", third, 2)
    groups.call("a", first, 3)
    await groups.run_down()
    assert groups.order == ["held", *"aaabbbcc"]


async def test_a_call_that_comes_back_from_a_pause_goes_before_later_groups() -> None:
    """F13, J3."""
    gate = Gate(1)
    groups = Groups(gate)
    first, second = gate.line(), gate.line()
    groups.call("a", first)
    groups.call("b", second, 5)
    await settled()
    groups.end()
    await settled()
    groups.call("a again", first)
    await groups.run_down()
    assert groups.order == ["a", "b", "a again", *"bbbb"]


async def test_a_huge_group_keeps_a_small_one_waiting_for_one_turn_at_most() -> None:
    """F13: and the small ones that come later do not starve the huge one."""
    gate = Gate(1)
    groups = Groups(gate)
    groups.call("huge", gate.line(), 3 * TURN)
    await settled()
    small = [gate.line() for _ in range(3)]
    for line in small:
        groups.call("small", line, 16)
    while len(groups.order) < TURN + 20:
        groups.end()
        await settled()
    groups.call("late", gate.line(), 16)
    await groups.run_down()
    assert groups.order[:TURN] == ["huge"] * TURN
    assert groups.order[TURN : TURN + 48] == ["small"] * 48
    after = groups.order[TURN + 48 :]
    assert after == ["huge"] * TURN + ["late"] * 16 + ["huge"] * TURN


@pytest.mark.parametrize("places", [1, 7, 64])
async def test_hundreds_of_groups_at_once_each_get_all_their_calls(places: int) -> None:
    """F13, J3: nobody is forgotten, nobody is served twice, and the bound holds."""
    gate = Gate(places)
    groups = Groups(gate)
    lines = [gate.line() for _ in range(300)]
    for number, line in enumerate(lines):
        groups.call(str(number), line, 4)
    await settled()
    assert gate.in_flight == places
    await groups.run_down()
    assert Counter(groups.order) == {str(number): 4 for number in range(300)}
    starts = [groups.order.index(str(number)) for number in range(300)]
    assert starts == sorted(starts)


async def test_groups_that_are_cancelled_are_forgotten() -> None:
    """L11: neither their calls nor their lines stay in the queue."""
    gate = Gate(1)
    groups = Groups(gate)
    groups.call("held", gate.line())
    await settled()
    cancelled = [task for _ in range(500) for task in groups.call("gone", gate.line(), 2)]
    groups.call("last", gate.line())
    await settled()
    assert gate.waiting == 1001
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
    assert gate.waiting == 1
    assert len(gate._queue) < 100
    groups.tasks = [task for task in groups.tasks if not task.cancelled()]
    await groups.run_down()
    assert groups.order == ["held", "last"]


async def test_a_line_whose_calls_were_cancelled_can_queue_again() -> None:
    """L11: one call of a group may be cancelled and another come later."""
    gate = Gate(1)
    groups = Groups(gate)
    early, late = gate.line(), gate.line()
    groups.call("held", gate.line())
    groups.call("late", late)
    (gone,) = groups.call("gone", early)
    await settled()
    gone.cancel()
    await settled()
    groups.call("early", early)
    groups.tasks.remove(gone)
    await groups.run_down()
    assert groups.order == ["held", "early", "late"]


async def test_a_call_that_is_cancelled_in_the_same_breath_as_a_place_comes_free_passes_it_on() -> None:
    """J3, F11: the place goes to the next one, and what was taken of the limits is given back."""
    clock = Clock()
    gate = Gate([Desk(1, requests_per_minute=60)], now=clock.read, later=clock.later)
    groups = Groups(gate)
    groups.call("a", gate.line())
    (gone,) = groups.call("gone", gate.line())
    groups.call("b", gate.line())
    await settled()
    clock.advance(5)
    groups.end()  # the place is given to the second call, which does not run any more
    gone.cancel()
    await settled()
    assert groups.order == ["a", "b"]
    assert gate.desks[0].in_flight == 1


async def test_cancelled_calls_do_not_stand_in_the_way_before_they_know() -> None:
    """J3: a place that comes free in the same turn of the loop goes to one who can use it."""
    gate = Gate(1)
    groups = Groups(gate)
    groups.call("a", gate.line())
    (gone,) = groups.call("gone", gate.line())
    groups.call("b", gate.line())
    await settled()
    gone.cancel()
    groups.end()
    await settled()
    assert groups.order == ["a", "b"]
    groups.tasks.remove(gone)
    await groups.run_down()


async def test_a_rest_holds_all_calls_back_and_they_go_in_order_after_it() -> None:
    """F11: one that was told to wait speaks for all."""
    clock = Clock()
    gate = Gate(2, now=clock.read, later=clock.later)
    groups = Groups(gate)
    gate.rest(gate.desks[0], 30.0)
    groups.call("a", gate.line(), 2)
    groups.call("b", gate.line(), 1)
    await settled()
    clock.advance(29.9)
    await settled()
    assert groups.order == []
    clock.advance(0.1)
    await groups.run_down()
    assert groups.order == ["a", "a", "b"]


async def test_calls_go_at_the_rate_that_is_allowed_in_the_order_of_the_queue() -> None:
    """F11: 60 requests a minute; ends of calls do not hurry them."""
    clock = Clock()
    gate = Gate([Desk(50, requests_per_minute=60)], now=clock.read, later=clock.later)
    groups = Groups(gate)
    groups.call("a", gate.line(), 3)
    groups.call("b", gate.line(), 3)
    times: list[float] = []
    for _ in range(80):
        await settled()
        times += [clock.now] * (len(groups.order) - len(times))
        if groups.places:
            groups.end()
        clock.advance(0.1)
    assert groups.order == list("aaabbb")
    assert times == pytest.approx([0, 1, 2, 3, 4, 5], abs=0.11)


async def test_tokens_a_minute_hold_back_who_comes_next() -> None:
    """F11."""
    clock = Clock()
    gate = Gate([Desk(50, tokens_per_minute=60)], now=clock.read, later=clock.later)
    groups = Groups(gate)
    groups.call("a", gate.line(), tokens=10)
    groups.call("b", gate.line(), tokens=1)
    await settled()
    assert groups.order == ["a"]
    assert clock.next_timer == pytest.approx(10)
    place = groups.places[0]
    place.desk.used(place, 3)
    groups.end()
    await settled()
    assert clock.next_timer == pytest.approx(3)
    clock.advance(3)
    await settled()
    assert groups.order == ["a", "b"]


async def test_calls_are_spread_over_desks_by_their_load() -> None:
    """F10: by calls in flight for the places that a desk has; the idle one first."""
    gate = Gate([Desk(8), Desk(4), Desk(4)])
    groups = Groups(gate)
    groups.call("a", gate.line(), 8)
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [4, 2, 2]
    groups.call("b", gate.line(), 20)
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [8, 4, 4]
    await groups.run_down()


async def test_single_calls_go_to_all_desks_in_turn() -> None:
    """F10: idle desks are no reason to ask always the same one."""
    gate = Gate([Desk(8), Desk(8), Desk(8)])
    asked = []
    for _ in range(6):
        place = await gate.enter(gate.line())
        asked.append(place.desk.index)
        gate.leave(place)
    assert asked == [0, 1, 2, 0, 1, 2]


async def test_a_place_at_any_desk_goes_to_whoever_waits_longest() -> None:
    """F10, F13: no desk is idle while another one has calls waiting."""
    gate = Gate([Desk(1), Desk(1)])
    groups = Groups(gate)
    groups.call("a", gate.line(), 2)
    groups.call("b", gate.line(), 3)
    await settled()
    fast = groups.places[1]
    for _ in range(3):
        gate.leave(fast)
        await settled()
        fast = groups.places[-1]
    assert groups.order == list("aabbb")
    assert [place.desk.index for place in groups.places[1:]] == [1, 1, 1, 1]


def fail(gate: Gate, place: Place) -> None:
    gate.heard(place, too_many=False, fault=True)
    gate.leave(place)


async def test_a_desk_at_fault_is_left_out_then_tried_by_one_call_and_back_when_that_went_well() -> None:
    """F10."""
    clock = Clock()
    gate = Gate([Desk(4), Desk(4)], now=clock.read, later=clock.later)
    groups = Groups(gate)
    first = await gate.enter(gate.line())
    assert gate.has_another(first.desk)
    fail(gate, first)
    assert not gate.has_another(gate.desks[1])
    groups.call("a", gate.line(), 6)
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [0, 4]
    clock.advance(1.0)  # nothing else wakes those who wait
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [1, 4]
    trial = groups.places[-1]
    gate.heard(trial, too_many=False, fault=False)
    groups.places.remove(trial)
    gate.leave(trial)
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [1, 4]
    await groups.run_down()


async def test_where_all_desks_are_left_out_all_are_asked() -> None:
    """F10: so that a call fails as it would with one judge, instead of waiting."""
    clock = Clock()
    gate = Gate([Desk(1), Desk(1)], now=clock.read, later=clock.later)
    for _ in range(2):
        fail(gate, await gate.enter(gate.line()))
    asked = [await gate.enter(gate.line()), await gate.enter(gate.line())]
    assert {place.desk.index for place in asked} == {0, 1}


async def test_while_the_only_one_that_may_be_well_is_on_trial_calls_wait_for_what_comes_of_it() -> None:
    """F10: they would use up their tries for nothing."""
    clock = Clock()
    gate = Gate([Desk(4), Desk(4)], now=clock.read, later=clock.later)
    for _ in range(2):
        fail(gate, await gate.enter(gate.line()))
    clock.advance(1.0)
    groups = Groups(gate)
    groups.call("a", gate.line(), 8)
    await settled()
    assert [desk.in_flight for desk in gate.desks] == [1, 1]
    place = groups.places.pop()
    gate.heard(place, too_many=False, fault=False)
    gate.leave(place)
    await settled()
    assert sorted(desk.in_flight for desk in gate.desks) == [1, 4]
    await groups.run_down()


async def test_a_closed_desk_is_asked_only_where_all_are_closed() -> None:
    """F12: its budget is used up."""
    gate = Gate([Desk(2), Desk(2)])
    gate.desks[0].is_closed = True
    places = [await gate.enter(gate.line()) for _ in range(2)]
    assert [place.desk.index for place in places] == [1, 1]
    fail(gate, places[0])
    assert (await gate.enter(gate.line())).desk.index == 1
    gate.desks[1].is_closed = True
    assert await gate.enter(gate.line())
