"""What holds at all times: one reply each, no mixed-up reward, nothing but finite ones (L24, L25, J19)."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from contextlib import suppress
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupjudge.core
from groupjudge.core.effects import Release, Settle
from groupjudge.errors import GroupJudgeError
from groupjudge.model import GroupFailure, JudgeFailure, Judgement, Rewarded, Run

from .play import Play, arrival, judgement, kinds, outcomes, rewards, started


@pytest.mark.parametrize(
    "bad",
    [(nan, 1.0), (1.0, inf), (-inf, 1.0), (), (1.0,), (1.0, 2.0, 3.0)],
    ids=["NaN", "Infinity", "-Infinity", "none", "too few", "too many"],
)
def test_rewards_that_are_not_finite_or_not_one_a_member_fail_the_group(bad: tuple[float, ...]) -> None:
    """J19, L24: no caller gets an invented reward; a retry hears of the same failure."""
    play = Play()
    run = play.complete()
    effects = play.judged(run, *bad)
    assert kinds(effects) == ["Settle", "Settle", "Release", "Release"]
    assert {outcome.kind for outcome in outcomes(effects).values()} == {"internal"}
    assert play.phases() == {"g": "group_failed"}


def test_extreme_but_finite_rewards_are_rewards() -> None:
    """J19: zero, a negative one and the largest float are as good as any."""
    play = Play()
    run = play.complete(size=3)
    told = rewards(play.judged(run, -0.0, -7.25, 1.7976931348623157e308))
    assert list(told.values()) == [-0.0, -7.25, 1.7976931348623157e308]


def test_callers_are_told_in_the_order_they_came() -> None:
    """L24: one reply each, all callers of one member alike, then each answer is let go, in slot order."""
    play = Play()
    tickets = [play.arrive(slot) for slot in (1, 1, 0, 1, 0)]
    play.book.drain()
    effects = play.judged(Run(1), 4.0, 2.0)
    slots = [1, 1, 0, 1, 0]
    told = [Settle(t, slot, Rewarded((4.0, 2.0)[slot])) for t, slot in zip(tickets, slots, strict=True)]
    assert effects == [*told, Release("material of answer of 0"), Release("material of answer of 1")]


LATE: list[Callable[[Play, Run], object]] = [
    lambda play, run: play.judged(run, 8.0, 9.0),
    lambda play, run: play.judged(run, nan),
    lambda play, run: play.judge_failed(run),
    lambda play, run: play.book.judging_failed(run, GroupFailure("internal", "?"), play.now),
]


@pytest.mark.parametrize("late", LATE, ids=["verdicts", "bad verdicts", "judge failure", "own error"])
@pytest.mark.parametrize("end", ["completed", "judge_failed", "group_failed", "superseded", "never was"])
def test_what_comes_late_for_a_run_changes_nothing(end: str, late: Callable[[Play, Run], object]) -> None:
    """L24: no group publishes twice, whatever is reported again."""
    play = Play()
    run = play.complete()
    if end == "completed":
        play.judged(run, 1.0, 2.0)
    elif end == "judge_failed":
        play.judge_failed(run)
    elif end == "group_failed":
        play.judged(run, nan, nan)
    elif end == "superseded":
        play.complete(attempt=1)
    else:
        run = Run(99)
    before = play.state()
    late(play, run)
    assert play.book.drain() == []
    assert play.state() == before


def test_a_verdict_for_a_group_that_still_collects_changes_nothing() -> None:
    """L24: its run is known to nobody yet; a host that guesses it gets nowhere."""
    play = Play()
    play.arrive(0)
    before = play.state()
    assert play.judged(Run(1), 1.0, 2.0) == []
    assert play.state() == before


def test_a_defect_of_our_own_fails_the_group_and_says_what() -> None:
    """H5: as the host reports it."""
    play = Play()
    run = play.complete()
    play.book.judging_failed(run, GroupFailure("internal", "a defect of ours"), play.now)
    assert set(outcomes(play.book.drain()).values()) == {GroupFailure("internal", "a defect of ours")}
    assert play.phases() == {"g": "group_failed"}


def test_each_effect_is_given_out_once() -> None:
    """Architecture: `drain` hands over and forgets."""
    play = Play()
    play.complete()
    play.book.advance(1800.0)
    assert play.book.drain() != []
    assert play.book.drain() == []


def test_effects_that_were_not_drained_keep_their_order() -> None:
    """A host that drains late loses nothing and mixes nothing up."""
    play = Play()
    alone = play.arrive(0, key="alone", size=1)
    play.arrive(0)
    play.arrive(1)
    play.book.judged(Run(1), judgement(1.0, 2.0), play.now)
    effects = play.book.drain()
    assert kinds(effects) == ["Settle", "Release", "StartJudging", "Settle", "Settle", "Release", "Release"]
    assert isinstance(effects[0], Settle)
    assert effects[0].ticket == alone


FORBIDDEN = {"asyncio", "concurrent", "datetime", "logging", "os", "random", "socket", "threading", "time", "uuid"}
SOURCES = sorted(Path(groupjudge.core.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_core_knows_no_clock_no_task_and_no_lock(source: Path) -> None:
    """L25: nothing in it can suspend, and none of its imports could."""
    for node in ast.walk(ast.parse(source.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & FORBIDDEN


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "judged", "failed", "leave", "advance", "hold", "release"]),
        st.sampled_from("ab"),
        st.integers(0, 2),
        st.integers(0, 1),
        st.sampled_from([0.0, 0.0, 1.0, 4.0]),
    ),
    max_size=40,
)


def take(play: Play, step: tuple[str, str, int, int, float], known: dict[str, list]) -> list:
    """One step of a random life; refusals are part of it. The effects it had."""
    name, key, attempt, slot, pause = step
    play.now += pause
    with suppress(GroupJudgeError):
        if name == "arrive":
            one = arrival(slot, key=key, attempt=attempt, answer=f"{key}{attempt}{slot}")
            known["tickets"].append((play.book.arrive(one, play.now), key, attempt, slot))
        elif name == "leave" and known["tickets"]:
            ticket = known["tickets"][slot - 1][0]
            play.book.leave(ticket)
            known["left"].append(ticket)
        elif name == "judged" and known["runs"]:
            run = known["runs"][-1 - slot % len(known["runs"])]
            play.book.judged(run, judgement(10.0 * run, 10.0 * run + 1), play.now)
        elif name == "failed" and known["runs"]:
            play.book.judging_failed(known["runs"][-1], JudgeFailure("?"), play.now)
        elif name == "hold":
            play.book.hold()
        elif name == "release":
            play.book.release(play.now)
        else:
            play.book.advance(play.now)
    effects = play.book.drain()
    known["runs"] += started(effects)
    play.book.check()
    return effects


@given(STEPS)
def test_every_caller_gets_exactly_one_reply_and_its_own_members_reward(steps: list) -> None:
    """L24: after any life, once all is released and stopped: those that did not leave were told once, those that left
    at most once; a reward is that of the ticket's own slot, and of one run for each attempt of an id."""
    play = Play(collection_timeout_s=6.0, judging_timeout_s=5.0, ttl_s=1e6)
    known: dict[str, list] = {"tickets": [], "runs": [], "left": []}
    effects = [effect for step in steps for effect in take(play, step, known)]
    effects += play.release() + play.close()
    told = outcomes(effects)
    run_of: dict[tuple[str, int], float] = {}
    for ticket, key, attempt, slot in known["tickets"]:
        assert ticket in told or ticket in known["left"]
        outcome = told.get(ticket)
        if isinstance(outcome, Rewarded):
            assert outcome.reward % 10 == slot
            run = outcome.reward // 10
            assert run_of.setdefault((key, attempt), run) == run


@given(STEPS)
def test_the_same_inputs_at_the_same_times_have_the_same_effects(steps: list) -> None:
    """L25: so that any life can be replayed; and a copy of the book goes on like the original."""
    half = len(steps) // 2
    one, two = Play(ttl_s=3.0), Play(ttl_s=3.0)
    known_one: dict[str, list] = {"tickets": [], "runs": [], "left": []}
    known_two = copy.deepcopy(known_one)
    for step in steps[:half]:
        assert take(one, step, known_one) == take(two, step, known_two)
    two.book = copy.deepcopy(two.book)
    for step in steps[half:]:
        assert take(one, step, known_one) == take(two, step, known_two)
    assert one.state() == two.state()


def test_a_judgements_note_goes_to_every_member() -> None:
    """J13: where default scores stood in, each reply says so."""
    play = Play()
    run = play.complete()
    play.book.judged(run, Judgement((3.0, 4.0), (), None, "unreadable", "why"), play.now)
    told = outcomes(play.book.drain())
    assert list(told.values()) == [Rewarded(3.0, "unreadable", "why"), Rewarded(4.0, "unreadable", "why")]
