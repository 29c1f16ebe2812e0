"""What must hold in a book after every step: all of it in one place, looked up the slow way.

For tests after each step, and for production after a restore. It reads the book's own fields: it is its other half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from groupjudge.core.group import Group
from groupjudge.core.memory import Memory
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Records, Results
from groupjudge.model import GroupKey

if TYPE_CHECKING:
    from groupjudge.core.book import Book


def check_book(book: Book) -> None:
    """Raise AssertionError where an invariant does not hold. Looks at everything."""
    for key, group in book._active.items():
        _check_group(book, key, group)
    _check_indexes(book)
    _check_memory(book._memory, lambda key: key not in book._active, book._now)
    _check_sessions(book)


def _check_group(book: Book, key: GroupKey, group: Group) -> None:
    assert key == group.key, "a group is filed under another key"
    complete = group.seats.taken == group.seats.size
    assert group.seats.taken == len(group.seats.present()) > 0, "a group's members are miscounted"
    assert complete == (group.phase is not Phase.COLLECTING), "a group is judged exactly once it is complete"
    assert book._by_run.get(group.run) is group, "the index by run differs from the active groups"
    assert (group.run in book._held) == (group.phase is Phase.HELD), "held index and phase differ"
    assert (group.run in book._deadlines) == (group.phase is not Phase.HELD), "a deadline is missing or left over"
    assert group.phase is not Phase.HELD or book._holding, "a group is held while nothing holds"
    for ticket, slot in group.callers.items():
        assert book._waiting.get(ticket) is group, "a caller is not known as waiting"
        assert group.seats.answers[slot] is not None, "a caller waits for an empty slot"


def _check_indexes(book: Book) -> None:
    active = len(book._active)
    assert not (book._closed and active), "a group is active after the shutdown"
    assert len(book._by_run) == active, "a finished group is left in the index by run"
    assert len(book._waiting) == sum(len(g.callers) for g in book._active.values()), "a stray caller is waiting"
    held = sum(group.phase is Phase.HELD for group in book._active.values())
    assert len(book._held) == held, "a finished group is still held"
    assert len(book._deadlines) == active - len(book._held), "a deadline of a finished group is left"
    due = book._deadlines.next()
    assert due is None or book._deadlines.quiet_until <= due, "the deadlines promise too long a quiet"


def _check_memory(memory: Memory, is_idle: Callable[[GroupKey], bool], now: float) -> None:
    _check_store(memory.results, is_idle, now)
    _check_store(memory.records, is_idle, now)
    for key, result in memory.results:
        assert key == result.key, "a result is filed under another key"
        assert len(result.outcomes) == result.seats.size, "a result has another number of outcomes than slots"
        assert result.seats.taken == len(result.seats.present()) > 0, "a result's members are miscounted"
        record = memory.records.get(key) if isinstance(key, str) else None
        assert record is None or record.question == result.question, "record and result name different questions"


def _check_store(store: Results | Records, is_idle: Callable[[GroupKey], bool], now: float) -> None:
    store.check(now)
    assert all(is_idle(key) for key, _ in store), "an active group has a finished one's entry"


def _check_sessions(book: Book) -> None:
    """Every session is in the backing of a group that is active, or of a result that can be exported."""
    holders = [group.backing for group in book._active.values() if group.backing is not None]
    holders += [result.backing for _, result in book._memory.results if result.backing is not None]
    for backing in holders:
        for session in backing.sessions:
            assert book._memory.backings.get(session) is backing, "a session is not filed where it is backed"
    assert len(book._memory.backings) == sum(len(b.sessions) for b in holders), "a session backs a group that is gone"
    for _, result in book._memory.results:
        for slot in result.backing.unreplayed if result.backing is not None else ():
            assert result.seats.answers[slot] is not None, "a member that waits for its replay is gone"
            assert result.backing is not None
            assert result.backing.backs(slot), "nobody is left to replay a member"
