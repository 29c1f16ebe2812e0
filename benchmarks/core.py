"""How many events a second the pure core takes, and what one costs beside much that is retained (P12, P14).

    python benchmarks/core.py [--quick]

An event is one input to the book (a member, a retry, a judgement, a caller that leaves) with the `drain()` that the
host does after it. Every figure is CPU time and the best of several rounds: other work on the machine can only make a
round slower. The last column is the cost in calls of an empty function, timed beside it: a ratio that moves less.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from time import process_time

from groupjudge.core.book import Book, Limits
from groupjudge.core.effects import StartJudging
from groupjudge.model import Arrival, Fingerprint, GroupId, Judgement, Ticket

N = 16
QUESTION = Fingerprint(b"question".ljust(32))
ANSWERS = [Fingerprint(b"answer %d".ljust(32) % slot) for slot in range(1024)]
JUDGEMENT = Judgement(tuple(float(slot) for slot in range(N)), (), None)
ROUNDS = 25


def best(rounds: int, prepare: Callable[[], Callable[[], int]]) -> float:
    """Seconds an event, the best of `rounds`; `prepare` gives what is timed, which says how many events it made."""
    costs = []
    for _ in range(rounds):
        timed = prepare()
        gc.collect()
        start = process_time()
        events = timed()
        costs.append((process_time() - start) / events)
    return min(costs)


def members(group: str, size: int = N) -> list[Arrival]:
    return [Arrival(GroupId(group), 0, size, slot, QUESTION, ANSWERS[slot], None, None) for slot in range(size)]


def yardstick() -> Callable[[], int]:
    def nothing() -> None:
        return None

    def timed() -> int:
        for _ in range(200_000):
            nothing()
        return 200_000

    return timed


def whole_groups(book: Book, groups: int, *, prefix: str = "new") -> Callable[[], int]:
    """New members in groups of 16, each group judged when it is complete: 17 events a group."""
    arrivals = [members(f"{prefix}-{number}") for number in range(groups)]

    def timed() -> int:
        for group in arrivals:
            for arrival in group:
                book.arrive(arrival, 0.0)
                effects = book.drain()
            start = effects[-1]
            assert isinstance(start, StartJudging)
            book.judged(start.run, JUDGEMENT, 0.0)
            book.drain()
        return groups * (N + 1)

    return timed


def exact_retries(groups: int) -> Callable[[], int]:
    """Every member of completed groups asks again."""
    book = Book(Limits())
    whole_groups(book, groups)()
    arrivals = [arrival for number in range(groups) for arrival in members(f"new-{number}")]

    def timed() -> int:
        for arrival in arrivals:
            book.arrive(arrival, 0.0)
            book.drain()
        return len(arrivals)

    return timed


def leaves(callers: int) -> Callable[[], int]:
    """Callers that wait for a collecting group hang up."""
    book = Book(Limits())
    tickets: list[Ticket] = []
    for number in range(callers // 15):
        tickets += [book.arrive(arrival, 0.0) for arrival in members(f"new-{number}")[:15]]
    book.drain()

    def timed() -> int:
        for ticket in tickets:
            book.leave(ticket)
            book.drain()
        return len(tickets)

    return timed


def crowded(retained: int, active: int) -> Book:
    """A book that already holds `retained` judged groups of two and `active` groups that wait for their second."""
    book = Book(Limits(max_results=max(retained, 1), max_attempt_records=max(retained, 1), ttl_s=1e9))
    judgement = Judgement((1.0, 2.0), (), None)
    for number in range(retained):
        for arrival in members(f"old-{number}", 2):
            book.arrive(arrival, 0.0)
        start = book.drain()[-1]
        assert isinstance(start, StartJudging)
        book.judged(start.run, judgement, 0.0)
        book.drain()
    for number in range(active):
        book.arrive(members(f"waiting-{number}", 2)[0], 0.0)
    book.drain()
    return book


def row(label: str, prepare: Callable[[], Callable[[], int]]) -> None:
    """Time and print; the yardstick is taken anew for each row, since other work comes and goes."""
    call = best(ROUNDS, yardstick)
    cost = best(ROUNDS, prepare)
    print(f"{label:<66} {1e6 * cost:8.2f} us {1 / cost:12,.0f} /s {cost / call:8.0f} calls", flush=True)


def beside(retained: int, active: int, groups: int) -> None:
    """What a million of neighbours cost: an event, and a full run of the garbage collector, which the rounds are spared
    (it comes whenever a quarter of all objects are new; how often, and when, is the host's to say)."""
    gc.disable()
    book = crowded(retained, active)
    gc.enable()
    start = process_time()
    gc.collect()
    collection = process_time() - start
    gc.freeze()
    numbers = iter(range(ROUNDS))
    label = f"the same beside {retained:,} retained and {active:,} active groups"
    row(label, lambda: whole_groups(book, groups, prefix=f"round-{next(numbers)}"))
    print(f"{'    a full garbage collection beside them':<66} {1e3 * collection:8.2f} ms", flush=True)
    gc.unfreeze()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller rounds, and no million of retained groups")
    quick = parser.parse_args().quick
    groups = 200 if quick else 500
    row("new members in groups of 16, judged", lambda: whole_groups(Book(Limits()), groups))
    row("exact retries of completed members", lambda: exact_retries(groups))
    row("callers that leave", lambda: leaves(groups * N))
    for retained, active in ((0, 0), (4_096, 0), (4_096, 100_000), (0 if quick else 1_000_000, 100_000)):
        beside(retained, active, groups)


if __name__ == "__main__":
    main()
