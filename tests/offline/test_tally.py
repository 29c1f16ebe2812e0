"""What a run over a file remembers of itself (H14)."""

from __future__ import annotations

from groupjudge.offline.tally import KINDS_AT_MOST, OTHERS, Failures, Pace, Tally
from groupjudge.offline.usage import Usage


def test_failures_are_counted_by_kind_with_the_first_of_each() -> None:
    """H14: and their tries are added up."""
    failures = Failures()
    for line, kind in ((3, "down"), (4, "slow"), (5, "down")):
        usage = Usage()
        usage.tries["transport"] += 2
        failures.add(line, kind, f"{kind} at {line}", usage)
    assert {kind: (f.count, f.line, f.reason) for kind, f in failures.kinds.items()} == {
        "down": (2, 3, "down at 3"),
        "slow": (1, 4, "slow at 4"),
    }
    assert (failures.count, failures.in_a_row, failures.tries["transport"]) == (3, 3, 6)


def test_failures_of_ever_new_kinds_take_bounded_memory() -> None:
    """H14: a million lines in constant memory, failures included."""
    failures = Failures()
    for line in range(500):
        failures.add(line, f"kind {line}", "x" * 10_000, Usage())
    assert len(failures.kinds) == KINDS_AT_MOST + 1
    assert failures.kinds[OTHERS].count == 500 - KINDS_AT_MOST
    assert max(len(kind.reason) for kind in failures.kinds.values()) <= 300


def test_the_summary_speaks_of_one_and_of_many() -> None:
    """H14: no `1 groups`."""
    assert Tally(judged=1, verdicts=1, bad_lines=1).summary() == "1 group judged with 1 verdict; 1 bad line"
    assert Tally(judged=2, verdicts=0, skipped=3).summary() == (
        "2 groups judged with 0 verdicts; 3 had been judged before"
    )


def test_the_summary_says_how_many_verdicts_were_default_scores() -> None:
    """H14, J13: a run full of them must not look like a good one."""
    assert (
        Tally(judged=2, verdicts=6, defaulted=4).summary()
        == "2 groups judged with 6 verdicts, 4 of them default scores"
    )


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    """H14: what was fast long ago says nothing about now."""
    pace = Pace()
    assert pace.per_second(100.0, 0) == 0.0
    assert pace.per_second(110.0, 500) == 50.0
    assert pace.per_second(125.0, 500) == 20.0
    assert pace.per_second(139.0, 529) == 1.0
    assert pace.per_second(1000.0, 529) == 0.0
