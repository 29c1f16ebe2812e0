"""One world from one seed: its limits, its nature, its callers, and its end. Every fourth seed is a training run that
checkpoints and crashes (training.py)."""

from __future__ import annotations

import gc
import random
from collections import Counter
from dataclasses import dataclass, field

from groupjudge.core.book import Book, Limits

from .checker import Violation
from .training import Run
from .workload import Habits, Workload
from .world import Host, Loop, Nature

EVENTS_OF_A_WORLD = 50_000
EVENTS_OF_A_RUN = 10_000
EVENTS_BETWEEN_LOOKS = 5_000
RUNS_EACH = 4


@dataclass
class Report:
    """What happened in one world, or in several."""

    events: int = 0
    worlds: int = 0
    trace: int = 0
    told: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    restores: int = 0

    def add(self, other: Report) -> None:
        self.events += other.events
        self.worlds += other.worlds
        self.trace = (self.trace * 1_000_003 + other.trace) % (2**61 - 1)
        self.told.update(other.told)
        self.refused.update(other.refused)
        self.lives += other.lives
        self.restores += other.restores


def simulate(seed: int, events: int) -> Report:
    """Worlds of the seeds `seed`, `seed` + 1, ... until so many events have happened. A Violation names its seed."""
    total = Report()
    while total.events < events:
        try:
            total.add(world_of(seed + total.worlds))
        except Exception as error:
            again = f"python -m tests.simulation --seed {seed + total.worlds} --events 1"
            raise Violation(f"{error or type(error).__name__} (replay: {again})") from error
    return total


def world_of(seed: int) -> Report:
    """What happens in the world of a seed."""
    return World(seed).run() if seed % RUNS_EACH else run_of(seed)


def run_of(seed: int, events: int = EVENTS_OF_A_RUN) -> Report:
    """The same of a training run."""
    run = Run(seed)
    run.run(events)
    return Report(run.loop.count, 1, run.trace, run.told, run.refused, run.lives, run.restores)


class World:
    def __init__(self, seed: int, kind: type[Book] = Book) -> None:
        self.rng = rng = random.Random(seed)
        self.loop = Loop()
        self.limits = _limits(rng)
        nature = Nature(judge_s=rng.choice([0.1, 2.0, 20.0]), cancelled_too_late=rng.choice([0.0, 0.3, 1.0]))
        self.host = Host(self.loop, rng, kind(self.limits), self.limits, nature)
        self.work = Workload(self.loop, rng, self.host, _habits(rng))
        self.closes_early = rng.random() < 0.4

    def run(self, events: int = EVENTS_OF_A_WORLD) -> Report:
        self.work.begin()
        while self.loop.count < events:
            self.loop.run(EVENTS_BETWEEN_LOOKS)
            self._look()
        if self.closes_early:
            self._close_in_the_middle()
        else:
            self._come_to_rest()
        self.host.checker.over()
        return Report(self.loop.count, 1, self.host.trace, Counter(self.work.told), Counter(self.work.refused))

    def _look(self) -> None:
        """Every invariant of the book, and that it holds no more than its groups and limits account for."""
        book = self.host.book
        book.check()
        groups, records = list(book.groups()), list(book.records())
        active = [group for group in groups if group.finished is None]
        _demand(len(groups) - len(active) <= self.limits.max_results, "more results than allowed")
        _demand(sum(1 for record in records if record[3] is not None) <= self.limits.max_attempt_records, "records")
        if self.limits.max_active_groups is not None:
            _demand(len(active) <= self.limits.max_active_groups, "more active groups than allowed")
        parts = 200 + 10 * len(groups) + 4 * len(records) + 2 * sum(group.size + group.callers for group in groups)
        _demand(_weight(book) <= parts, "the book holds more than its groups account for")

    def _close_in_the_middle(self) -> None:
        """L19: everybody has a reply at once, and whoever comes later is refused."""
        self.host.close()
        self.host.checker.over()
        self.loop.run(1_000)
        self.work.stopped = True
        self.loop.run()

    def _come_to_rest(self) -> None:
        """No more callers; then everything ends by its deadline and nothing is left."""
        self.work.stopped = True
        self.host.release()
        self.loop.run()
        book = self.host.book
        book.check()
        _demand(all(group.finished is not None for group in book.groups()), "a group never ended")
        if self.limits.ttl_s is not None:
            _demand(not list(book.groups()) and not list(book.records()), "something was retained for ever")
            _demand(book.next_deadline() is None, "a deadline for nothing")
            _demand(_weight(book) <= _weight(Book(self.limits)) + 20, "something is left of what was forgotten")


def _limits(rng: random.Random) -> Limits:
    counts = [1, 2, 10, 100, 4096]
    return Limits(
        collection_timeout_s=rng.choice([5.0, 30.0, 300.0]),
        judging_timeout_s=rng.choice([3.0, 10.0, 100.0]),
        ttl_s=rng.choice([None, 1.0, 60.0, 600.0]),
        max_results=rng.choice(counts),
        max_attempt_records=rng.choice(counts),
        max_active_groups=rng.choice([None, None, None, None, 2, 10, 100]),
        min_members=rng.choice([None, 2, 3]),
        eager=rng.random() < 0.5,
    )


def simulate_job(job: tuple[int, int]) -> Report:
    """`simulate` of a seed and a number of events; here, and not in `__main__`, so that a spawned process finds it."""
    return simulate(*job)


def _habits(rng: random.Random) -> Habits:
    return Habits(
        groups_each_s=rng.choice([0.5, 2.0, 20.0]),
        spread_s=rng.choice([0.0, 1.0, 4.0]),
        known_ids=rng.choice([1, 5, 50, 5000]),
        fresh_id=rng.choice([0.1, 0.6, 0.85]),
        retries=rng.choice([0.05, 0.15, 0.6]),
        again=rng.choice([0.02, 0.1, 0.4]),
        holds=rng.choice([0.0, 0.0, 0.01, 0.05]),
        jumps=rng.choice([0.0, 0.001, 0.01]),
    )


def _weight(book: Book) -> int:
    """How many objects the book reaches, and how many entries their collections hold; plain values count as entries."""
    seen, todo, entries = set[int](), [book], 0
    while todo:
        thing = todo.pop()
        if id(thing) not in seen and gc.is_tracked(thing) and not callable(thing):
            seen.add(id(thing))
            entries += len(thing) if isinstance(thing, list | dict | set) else 0
            todo.extend(gc.get_referents(thing))
    return len(seen) + entries


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)
