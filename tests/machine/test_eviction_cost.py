"""Eviction looks only at what it evicts: counted in entries visited and lines run, not by a clock (L18, P12)."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import repeat
from types import FrameType
from typing import Any

import pytest

import groupjudge.core.retention
from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import Settle, StartJudging
from groupjudge.model import Arrival, Fingerprint, GroupId, Judgement

QUESTION = Fingerprint(b"question")


class Visits:
    """How many entries of the book's tables were looked at one after the other."""

    count = 0


class CountedTable(OrderedDict[Any, Any]):
    """A table that counts each entry that somebody walks over or evicts; a look-up by key walks over nothing."""

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            Visits.count += 1
            yield key

    def keys(self) -> Any:
        return iter(self)

    def values(self) -> Any:
        return (self[key] for key in self)

    def items(self) -> Any:
        return ((key, self[key]) for key in self)

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        Visits.count += 1
        return super().popitem(last)


def a_book(monkeypatch: pytest.MonkeyPatch, retained: int, active: int) -> Book:
    """A book whose two stores are full, each with `retained` entries, and that has `active` groups collecting."""
    monkeypatch.setattr(groupjudge.core.retention, "OrderedDict", CountedTable)
    limits = Limits(ttl_s=1000.0, collection_timeout_s=1e9, max_results=retained, max_attempt_records=retained)
    book = Book(limits)
    for table in ("_active", "_held", "_waiting", "_by_run"):
        setattr(book, table, CountedTable(getattr(book, table)))
    finish(book, "the first", 0.0)
    _, result = next(iter(book._results))
    _, record = next(iter(book._records))
    old = [GroupId(f"old {n}") for n in range(retained - 1)]
    book._results._entries.update(zip(old, repeat(result)))
    book._records._entries.update(zip(old, repeat(record)))
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


def count(work: Callable[[], None]) -> tuple[int, int]:
    """How many entries were visited, and how many lines of the core run, during the work."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        lines += event == "line"
        return trace if "groupjudge" in frame.f_code.co_filename else None

    Visits.count = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return Visits.count, lines


def test_the_cost_of_an_input_does_not_grow_with_what_is_retained_or_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """L18: with a million results and records retained and 100,000 groups active, as much is looked at as with few."""
    few, many = a_book(monkeypatch, 100, 10), a_book(monkeypatch, 1_000_000, 100_000)
    visits_of_few, lines_of_few = count(lambda: some_work(few))
    visits_of_many, lines_of_many = count(lambda: some_work(many))
    assert visits_of_many <= visits_of_few
    assert lines_of_many <= lines_of_few
    evicted, inputs = 2 * 100, 100 * 4 + 5 + 1
    assert evicted <= visits_of_many <= 2 * evicted + 2 * inputs


def test_what_expires_is_visited_once_or_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """L18: what is evicted by age is looked at when it goes, and the active groups are not looked at."""
    book = a_book(monkeypatch, 10_000, 50_000)
    visits, _ = count(lambda: book.advance(1000.0))
    assert 2 * 10_000 <= visits <= 4 * 10_000 + 10
    assert not list(book._results)
    assert not list(book._records)
