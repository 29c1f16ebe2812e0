"""The bounded store by itself, and what eviction costs (L18)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupjudge.core.retention import Store
from groupjudge.errors import AnswerConflict

from .play import Play, arrival, judgement, started


class Entry(NamedTuple):
    since: float


def store(limit: int = 3, ttl_s: float | None = 10.0, **entries: float) -> Store[str, Entry]:
    filled: Store[str, Entry] = Store(limit, ttl_s)
    for key, since in entries.items():
        filled.put(key, Entry(since))
    return filled


def keys(filled: Store[str, Entry]) -> list[str]:
    return [key for key, _ in filled]


def test_a_needed_entry_is_spared_and_counts_as_a_newer_one() -> None:
    """C18: what is needed outlives its number and its time; once it is not, it goes if it is up for eviction, and else
    stays with the others, older than they are."""
    needed = {"a", "b"}
    filled: Store[str, Entry] = Store(2, 10.0, needed.__contains__)
    for since, key in enumerate("abcd"):
        filled.put(key, Entry(float(since)))
        filled.evict(float(since))
    assert (keys(filled), len(filled), filled.spared) == (["a", "b", "c", "d"], 4, 2)
    filled.drop("d")
    needed.clear()
    filled.recheck("a", 3.0)
    assert keys(filled) == ["b", "c"], "two newer ones, of which one is spared, are as many as the limit"
    filled.recheck("b", 3.0)
    assert (keys(filled), filled.next_expiry()) == (["b", "c"], 11.0)
    filled.check(3.0)
    filled.put("e", Entry(4.0))
    filled.evict(4.0)
    assert keys(filled) == ["c", "e"]


def test_a_needed_entry_outlives_its_time_until_it_is_not_needed() -> None:
    """C18: the test is made at once when the need is over."""
    needed = {"a"}
    filled: Store[str, Entry] = Store(2, 10.0, needed.__contains__)
    filled.put("a", Entry(0.0))
    filled.evict(50.0)
    assert keys(filled) == ["a"]
    needed.clear()
    filled.recheck("a", 50.0)
    assert keys(filled) == []


def test_the_oldest_go_when_there_are_too_many() -> None:
    """L18: exactly as many as the limit stay."""
    filled = store(3, a=0, b=1, c=2)
    filled.evict(2.0)
    assert keys(filled) == ["a", "b", "c"]
    filled.put("d", Entry(2.0))
    filled.put("e", Entry(2.0))
    filled.evict(2.0)
    assert keys(filled) == ["c", "d", "e"]


def test_an_entry_of_exactly_the_age_limit_is_gone() -> None:
    """L18: and not a moment earlier."""
    filled = store(a=0, b=1)
    filled.evict(9.999)
    assert keys(filled) == ["a", "b"]
    filled.evict(10.0)
    assert keys(filled) == ["b"]


def test_without_an_age_limit_only_the_count_evicts() -> None:
    """L18, H12: `ttl_s: null`."""
    filled = store(1, None, a=0, b=1)
    assert filled.next_expiry() is None
    filled.evict(1e12)
    assert keys(filled) == ["b"]


def test_a_renewed_entry_is_the_newest() -> None:
    """L18: the time of its renewal is its place in the order too."""
    filled = store(3, 10.0, a=0, b=1)
    filled.put("a", Entry(2.0))
    assert keys(filled) == ["b", "a"]
    assert filled.next_expiry() == 11.0


def test_a_dropped_entry_holds_no_place() -> None:
    """L18: and dropping what is not there does nothing."""
    filled = store(2, 10.0, a=0, b=1)
    filled.drop("a")
    filled.drop("a")
    filled.put("c", Entry(2.0))
    filled.evict(2.0)
    assert keys(filled) == ["b", "c"]
    assert len(filled) == 2
    assert filled.get("a") is None
    assert filled.get("b") == Entry(1.0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.booleans()), max_size=30))
def test_whatever_comes_in_order_of_time_the_store_holds_what_a_plain_list_would(
    steps: list[tuple[str, int, bool]],
) -> None:
    """L18: beside a list that is searched from end to end; `quiet_until` never promises
    too much, and is in the future once time has caught up."""
    filled, plain, now = store(3, 4.0), [], 0
    for key, pause, is_drop in steps:
        now += pause
        plain = [pair for pair in plain if pair[0] != key]
        if is_drop:
            filled.drop(key)
        else:
            filled.put(key, Entry(now))
            plain.append((key, now))
        assert filled.quiet_until <= min((since + 4 for _, since in plain), default=float("inf"))
        filled.evict(now)
        assert filled.quiet_until > now
        plain = [(key, since) for key, since in plain if now - since < 4][-3:]
        assert keys(filled) == [key for key, _ in plain]
        assert filled.next_expiry() == min((since + 4 for _, since in plain), default=None)


class Looks:
    """Entries that count how often their age is asked for."""

    def __init__(self) -> None:
        self.count = 0

    def entry(self, since: float) -> Looked:
        return Looked(self, since)


class Looked:
    """An entry that no session backs."""

    __slots__ = ("_looks", "_since")
    backing = None

    def __init__(self, looks: Looks, since: float) -> None:
        self._looks, self._since = looks, since

    @property
    def since(self) -> float:
        self._looks.count += 1
        return self._since


RETAINED, ACTIVE = 1_000_000, 100_000


@pytest.fixture(scope="module")
def crowd() -> tuple[Play, Looks]:
    """A book with RETAINED results and records, of which 100 are older than the others, and ACTIVE groups. The young
    ones are put in behind the stores' back, in one go."""
    play = Play(max_results=RETAINED, max_attempt_records=RETAINED, ttl_s=100.0, collection_timeout_s=1e6)
    looks = Looks()
    old, young = looks.entry(0.0), looks.entry(50.0)
    for filled in (play.book._memory.results, play.book._memory.records):
        for number in range(100):
            filled.put(number, old)
        filled._queue.update(dict.fromkeys(range(100, RETAINED), young))
    for number in range(ACTIVE):
        play.book.arrive(arrival(key=f"active {number}"), 50.0)
    play.now = 50.0
    play.book.drain()
    return play, looks


def test_eviction_looks_only_at_what_it_evicts(crowd: tuple[Play, Looks]) -> None:
    """L18, P12: beside a million of retained and 100,000 active groups a request looks at no retained entry at all, one
    that evicts by count at those that go, and one that evicts by age at one more in each store."""
    play, looks = crowd
    looks.count = 0
    play.book.arrive(arrival(key="new"), 99.0)
    play.book.arrive(arrival(key="new"), 99.0)
    with pytest.raises(AnswerConflict):
        play.book.arrive(arrival(key="new", answer="x"), 99.0)
    play.book.advance(99.5)
    assert looks.count == 0

    for one in (arrival(0, key="one more"), arrival(1, key="one more")):
        play.book.arrive(one, 99.5)
    (run,) = started(play.book.drain())
    play.book.judged(run, judgement(1.0, 2.0), 99.5)
    assert len(play.book._memory.results) == len(play.book._memory.records) == RETAINED
    assert looks.count == 0

    play.book.advance(100.0)
    assert len(play.book._memory.results) == RETAINED - 99
    assert looks.count <= 2 * (99 + 1)


def test_the_question_for_the_next_deadline_looks_at_one_entry_of_each_store(crowd: tuple[Play, Looks]) -> None:
    """L18, P12: the host asks it after every input."""
    play, looks = crowd
    looks.count = 0
    play.book.next_deadline()
    assert looks.count <= 2
