"""The heap of deadlines by itself."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from groupjudge.core.deadlines import Deadlines
from groupjudge.model import Run


def drained(deadlines: Deadlines, now: float) -> list[tuple[float, Run]]:
    due = []
    while (one := deadlines.pop_due(now)) is not None:
        due.append(one)
    return due


def test_deadlines_come_out_in_order_of_time() -> None:
    deadlines = Deadlines()
    for run, when in ((1, 3.0), (2, 1.0), (3, 2.0)):
        deadlines.set(Run(run), when)
    assert drained(deadlines, 9.0) == [(1.0, 2), (2.0, 3), (3.0, 1)]


def test_equal_deadlines_come_out_in_the_order_in_which_they_were_set() -> None:
    """Setting one anew puts it behind its equals; the numbers of the runs play no part."""
    deadlines = Deadlines()
    for run in (3, 1, 2):
        deadlines.set(Run(run), 1.0)
    deadlines.set(Run(3), 1.0)
    assert [run for _, run in drained(deadlines, 1.0)] == [1, 2, 3]


def test_a_deadline_of_exactly_now_is_due() -> None:
    deadlines = Deadlines()
    deadlines.set(Run(1), 1.0)
    assert deadlines.pop_due(0.999) is None
    assert deadlines.pop_due(1.0) == (1.0, 1)
    assert Run(1) not in deadlines


def test_a_run_has_one_deadline_the_last_that_was_set() -> None:
    deadlines = Deadlines()
    deadlines.set(Run(1), 1.0)
    deadlines.set(Run(1), 5.0)
    assert len(deadlines) == 1
    assert deadlines.next() == 5.0
    assert drained(deadlines, 9.0) == [(5.0, 1)]


def test_a_cancelled_deadline_never_comes() -> None:
    deadlines = Deadlines()
    deadlines.set(Run(1), 1.0)
    deadlines.cancel(Run(1))
    deadlines.cancel(Run(1))
    assert deadlines.next() is None
    assert deadlines.pop_due(9.0) is None


def test_removed_deadlines_do_not_pile_up() -> None:
    """A server whose groups never time out sets and cancels for weeks: the heap stays in proportion to what is set."""
    deadlines = Deadlines()
    deadlines.set(Run(0), 1e9)
    for run in range(1, 10_000):
        deadlines.set(Run(run), 1e6)
        deadlines.cancel(Run(run))
        assert len(deadlines._heap) <= 100
    for _ in range(10_000):
        deadlines.set(Run(0), 1e6)
    assert len(deadlines._heap) <= 100
    assert drained(deadlines, 1e6) == [(1e6, 0)]


def test_deadlines_that_are_cancelled_all_at_once_are_forgotten_at_once() -> None:
    """Ten thousand groups are judged, then nothing comes for hours: the heap does not wait for the next one."""
    deadlines = Deadlines()
    for run in range(10_000):
        deadlines.set(Run(run), 1.0)
    for run in range(10_000):
        deadlines.cancel(Run(run))
    assert len(deadlines._heap) <= 64


def test_what_is_left_after_a_great_many_were_cancelled_still_comes_in_order() -> None:
    """The heap is rebuilt now and then; it is a heap afterwards."""
    deadlines, random = Deadlines(), Random(1)
    times = {run: random.random() for run in range(1000)}
    for run, when in times.items():
        deadlines.set(Run(run), when)
    for run in random.sample(range(1000), 700):
        deadlines.cancel(Run(run))
        del times[run]
    expected = sorted((when, run) for run, when in times.items())
    assert drained(deadlines, 1.0) == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 5))), max_size=30))
def test_whatever_is_set_and_cancelled_the_rest_comes_in_order(steps: list[tuple[int, int | None]]) -> None:
    """Beside a plain list: set at a time, or cancelled where there is none. `quiet_until` never promises too much."""
    deadlines, plain = Deadlines(), {}
    for run, when in steps:
        plain.pop(run, None)
        if when is None:
            deadlines.cancel(Run(run))
        else:
            deadlines.set(Run(run), float(when))
            plain[run] = float(when)
        assert deadlines.quiet_until <= min(plain.values(), default=float("inf"))
    expected = sorted(((when, run) for run, when in plain.items()), key=lambda pair: pair[0])
    assert deadlines.next() == (expected[0][0] if expected else None)
    early = drained(deadlines, 2.0)
    assert deadlines.quiet_until > 2.0
    assert early + drained(deadlines, 9.0) == expected
