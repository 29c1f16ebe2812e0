"""`Book.check()` notices a broken book: each invariant is broken by hand once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupjudge.core.book import Book
from groupjudge.core.group import Group
from groupjudge.core.phases import Phase
from groupjudge.core.retention import Record
from groupjudge.model import Fingerprint, GroupId, Run, Ticket

from .play import Play, arrival

COLLECTING, JUDGING, HELD, DONE = map(GroupId, ("collecting", "judging", "held", "done"))


@pytest.fixture
def book() -> Book:
    """One group in each active phase, two results with their records."""
    play = Play(max_results=3)
    play.finish("done first")
    play.now = 1.0
    play.finish(DONE)
    run = play.complete(HELD)
    play.book.hold()
    play.judged(run, 1.0, 2.0)
    play.complete(JUDGING)
    play.arrive(0, key=COLLECTING)
    play.book.check()
    return play.book


def group(book: Book, key: GroupId) -> Group:
    return book._active[key]


def record(attempt: int = 0, question: str = "q", since: float = 1.0) -> Record:
    return Record(attempt, Fingerprint(question.encode()), since)


def file_under_another_key(book: Book) -> None:
    book._active[GroupId("x")] = book._active.pop(COLLECTING)


def miscount_members(book: Book) -> None:
    group(book, COLLECTING).seats.taken = 2


def empty_group(book: Book) -> None:
    seats = group(book, COLLECTING).seats
    seats.answers[0], seats.taken = None, 0
    group(book, COLLECTING).callers.clear()


def judge_too_early(book: Book) -> None:
    group(book, COLLECTING).phase = Phase.JUDGING


def forget_the_run(book: Book) -> None:
    del book._by_run[group(book, JUDGING).run]


def swap_runs(book: Book) -> None:
    book._by_run[group(book, JUDGING).run] = group(book, COLLECTING)


def leave_a_run(book: Book) -> None:
    book._by_run[Run(99)] = group(book, JUDGING)


def forget_the_held(book: Book) -> None:
    book._held.clear()


def leave_a_held(book: Book) -> None:
    book._held[Run(99)] = group(book, HELD)


def hold_no_more(book: Book) -> None:
    book._holding = False


def lose_a_deadline(book: Book) -> None:
    book._deadlines.cancel(group(book, JUDGING).run)


def leave_a_deadline(book: Book) -> None:
    book._deadlines.set(Run(99), 5.0)


def give_the_held_a_deadline(book: Book) -> None:
    book._deadlines.set(group(book, HELD).run, 1e6)


def lose_a_caller(book: Book) -> None:
    book._waiting.popitem()


def leave_a_caller(book: Book) -> None:
    book._waiting[Ticket(99)] = group(book, JUDGING)


def wait_for_an_empty_slot(book: Book) -> None:
    callers = group(book, COLLECTING).callers
    callers[next(iter(callers))] = 1


def stop_with_active_groups(book: Book) -> None:
    book._closed = True


def retain_too_much(book: Book) -> None:
    for key in map(GroupId, ("one more", "another")):
        book._memory.results.put(key, book._memory.results.get(DONE)._replace(key=key))


def mix_up_the_order(book: Book) -> None:
    book._memory.records.put(GroupId("late"), record(since=0.5))


def keep_an_active_groups_record(book: Book) -> None:
    book._memory.records.put(COLLECTING, record())


def keep_an_active_groups_result(book: Book) -> None:
    book._memory.results.put(COLLECTING, book._memory.results.get(DONE)._replace(key=COLLECTING))


def keep_what_is_over_age(book: Book) -> None:
    book._now = 1e9


def file_a_result_under_another_key(book: Book) -> None:
    book._memory.results.put(GroupId("x"), book._memory.results.get(DONE))


def lose_an_outcome(book: Book) -> None:
    book._memory.results.put(DONE, book._memory.results.get(DONE)._replace(outcomes=()))


def change_a_records_question(book: Book) -> None:
    book._memory.records.put(DONE, record(question="other"))


def promise_too_long_a_quiet(book: Book) -> None:
    book._memory.results.quiet_until = 1e9


def promise_too_long_a_quiet_between_deadlines(book: Book) -> None:
    book._deadlines.quiet_until = 1e9


def forget_to_count(book: Book) -> None:
    book.census.leaves(group(book, COLLECTING))


def count_under_another_run(book: Book) -> None:
    collecting = book.census._of_phase[Phase.COLLECTING]
    collecting[group(book, COLLECTING).run] = group(book, JUDGING)


def forget_an_attempt(book: Book) -> None:
    book.census.formed -= 1


BREAKS: list[tuple[Callable[[Book], None], str]] = [
    (file_under_another_key, "filed under another key"),
    (miscount_members, "miscounted"),
    (empty_group, "miscounted"),
    (judge_too_early, "once it is complete"),
    (forget_the_run, "index by run"),
    (swap_runs, "index by run"),
    (leave_a_run, "index by run"),
    (forget_the_held, "held"),
    (leave_a_held, "still held"),
    (hold_no_more, "while nothing holds"),
    (lose_a_deadline, "deadline is missing or left"),
    (give_the_held_a_deadline, "deadline is missing or left"),
    (leave_a_deadline, "deadline of a finished group"),
    (lose_a_caller, "not known as waiting"),
    (leave_a_caller, "stray caller"),
    (wait_for_an_empty_slot, "empty slot"),
    (stop_with_active_groups, "after the shutdown"),
    (retain_too_much, "more than its limit"),
    (mix_up_the_order, "out of order"),
    (keep_an_active_groups_record, "active group has"),
    (keep_an_active_groups_result, "active group has"),
    (keep_what_is_over_age, "age limit"),
    (file_a_result_under_another_key, "filed under another key"),
    (lose_an_outcome, "number of outcomes"),
    (change_a_records_question, "different questions"),
    (promise_too_long_a_quiet, "quiet"),
    (promise_too_long_a_quiet_between_deadlines, "quiet"),
    (forget_to_count, "another phase"),
    (count_under_another_run, "another run"),
    (forget_an_attempt, "attempt was not counted"),
]


@pytest.mark.parametrize(("damage", "says"), BREAKS, ids=[damage.__name__ for damage, _ in BREAKS])
def test_the_check_notices(book: Book, damage: Callable[[Book], None], says: str) -> None:
    """L24: what the rules rest on is looked at after every step of a test, and after a restore."""
    damage(book)
    with pytest.raises(AssertionError, match=says):
        book.check()


def test_a_whole_book_passes(book: Book) -> None:
    """L24: and the check changes nothing."""
    book.check()
    book.arrive(arrival(1, key=COLLECTING), 2.0)
    book.check()
