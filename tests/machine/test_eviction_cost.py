"""What an input costs does not grow with what is retained or active: in lines run, not by a clock (L18, P12)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Settle, StartJudging
from groupjudge.model import Arrival, Fingerprint, GroupId, Judgement

QUESTION = Fingerprint(b"question")


def a_book(retained: int, active: int) -> Book:
    """A book whose two stores are full, each with `retained` entries, and that has `active` groups collecting."""
    limits = Limits(ttl_s=1000.0, collection_timeout_s=1e9, max_results=retained, max_attempt_records=retained)
    book = Book(limits)
    for n in range(retained):
        finish(book, f"old {n}", 0.0)
    for n in range(active):
        bring(book, f"active {n}", 0, 1.0)
    book.drain()
    return book


def bring(book: Book, key: str, slot: int, now: float) -> None:
    answer = Fingerprint(b"answer %d" % slot)
    book.arrive(Arrival(GroupId(key), 0, 2, slot, QUESTION, answer, slot, None), now)


def finish(book: Book, key: str, now: float) -> None:
    """One group, from its first member to its reward."""
    bring(book, key, 0, now)
    bring(book, key, 1, now)
    (start,) = (effect for effect in book.drain() if isinstance(effect, StartJudging))
    book.judged(start.run, Judgement((1.0, 2.0), (), None), now)
    assert sum(isinstance(effect, Settle) for effect in book.drain()) == 2


def some_work(book: Book) -> None:
    """A hundred groups finish, so that a hundred are evicted by count; some are asked for again; time passes."""
    for n in range(100):
        finish(book, f"new {n}", 2.0 + n)
        book.next_deadline()
    for n in range(95, 100):
        bring(book, f"new {n}", 0, 200.0)
    book.advance(999.0)


def lines_run(work: Callable[[], None]) -> int:
    """How many lines of the product run during the work."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        lines += event == "line"
        return trace if "groupjudge" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_the_cost_of_an_input_does_not_grow_with_what_is_retained_or_active() -> None:
    """L18: the same inputs, each of which evicts, run as many lines beside many groups as beside few."""
    few, many = a_book(100, 10), a_book(10_000, 5_000)
    lines_of_few = lines_run(lambda: some_work(few))
    assert lines_of_few > 1_000
    assert lines_run(lambda: some_work(many)) <= lines_of_few


def test_what_expires_costs_its_own_eviction() -> None:
    """L18: what goes by age costs a few lines each, and nothing for the groups that are active."""
    lines = lines_run(lambda: a_book(100, 10).advance(1000.0)) - lines_run(lambda: a_book(100, 10).advance(999.0))
    many, more_active = a_book(1_000, 10), a_book(1_000, 5_000)
    lines_of_many = lines_run(lambda: many.advance(1000.0))
    assert lines_of_many <= 10 * lines + 100
    assert lines_run(lambda: more_active.advance(1000.0)) <= lines_of_many
