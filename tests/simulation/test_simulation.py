"""A million events of seeded worlds, watched by a checker that knows only what must hold at all times (L24)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from groupjudge.core.book import Book
from groupjudge.core.effects import Effect, Release, Settle, SettleAll, StartJudging, StopJudging
from groupjudge.model import JudgeFailure, Rewarded

from .checker import Violation
from .run import World, simulate

SEEDS = (1_000, 2_000, 3_000, 4_000)
EVENTS_OF_A_SEED = 250_000


@pytest.mark.parametrize("seed", SEEDS)
def test_what_must_hold_at_all_times_holds(seed: int) -> None:
    """L24, L8, L16, L19: nobody gets another's reward, two replies or none, and nothing is left behind."""
    report = simulate(seed, EVENTS_OF_A_SEED)
    print(f"seed {seed}: {report.events} events, told {dict(report.told)}, refused {dict(report.refused)}")
    assert report.events >= EVENTS_OF_A_SEED
    assert min(report.told["Rewarded"], report.told["JudgeFailure"], report.told["GroupFailure"]) > 1_000


def test_a_seed_tells_the_whole_story() -> None:
    """The same seed gives the same run in any process, so that a violation can be replayed."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.simulation", "--seed", "9", "--events", "1"]
    traces = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
        traces.add(done.stdout.splitlines()[-1])
    assert len(traces) == 1
    assert "Rewarded" in traces.pop()


Sabotage = Callable[[list[Effect]], list[Effect]]


def _answer_twice(effects: list[Effect]) -> list[Effect]:
    return [e for effect in effects for e in [effect] * (1 + isinstance(effect, Settle))]


def _answer_nobody(effects: list[Effect]) -> list[Effect]:
    return [e for e in effects if not isinstance(e, Settle) or e.ticket % 100]


def _next_slot(effects: list[Effect]) -> list[Effect]:
    return [e._replace(slot=e.slot + 1) if isinstance(e, Settle) else e for e in effects]


def _reward(change: float) -> Sabotage:
    def sabotage(effects: list[Effect]) -> list[Effect]:
        return [
            e._replace(outcome=replace(e.outcome, reward=e.outcome.reward + change))
            if isinstance(e, Settle) and isinstance(e.outcome, Rewarded)
            else e
            for e in effects
        ]

    return sabotage


def _fail_some(effects: list[Effect]) -> list[Effect]:
    """Some callers of a rewarded group are told a failure."""
    return [
        e._replace(outcome=JudgeFailure(f"{e.ticket}")) if isinstance(e, Settle) and not e.ticket % 50 else e
        for e in effects
    ]


def _mix_whole(effects: list[Effect]) -> list[Effect]:
    """Whoever brought a whole group is told its outcomes in another order."""
    return [e._replace(outcomes=e.outcomes[::-1]) if isinstance(e, SettleAll) else e for e in effects]


def _judge_twice(effects: list[Effect]) -> list[Effect]:
    return [e for effect in effects for e in [effect] * (1 + isinstance(effect, StartJudging))]


def _judge_some(effects: list[Effect]) -> list[Effect]:
    return [e._replace(materials=e.materials[1:]) if isinstance(e, StartJudging) else e for e in effects]


def _judge_mixed(effects: list[Effect]) -> list[Effect]:
    return [e._replace(materials=e.materials[::-1]) if isinstance(e, StartJudging) else e for e in effects]


def _never_stop(effects: list[Effect]) -> list[Effect]:
    return [e for e in effects if not isinstance(e, StopJudging)]


def _keep(effects: list[Effect]) -> list[Effect]:
    return [e for e in effects if not isinstance(e, Release)]


def _let_go_twice(effects: list[Effect]) -> list[Effect]:
    return [e for effect in effects for e in [effect] * (1 + isinstance(effect, Release))]


@pytest.mark.parametrize(
    "sabotage",
    [
        pytest.param(_answer_twice, id="a caller is answered twice"),
        pytest.param(_answer_nobody, id="a caller is never answered"),
        pytest.param(_next_slot, id="a reply names another slot"),
        pytest.param(_reward(1.0), id="another member's reward"),
        pytest.param(_reward(1e9), id="an invented reward"),
        pytest.param(_fail_some, id="callers of a group hear different things"),
        pytest.param(_mix_whole, id="a whole group's outcomes are mixed up"),
        pytest.param(_judge_twice, id="a group is judged twice"),
        pytest.param(_judge_some, id="an incomplete group is judged"),
        pytest.param(_judge_mixed, id="answers are judged out of order"),
        pytest.param(_never_stop, id="a judging is never stopped"),
        pytest.param(_keep, id="material is never let go"),
        pytest.param(_let_go_twice, id="material is let go twice"),
    ],
)
def test_the_checker_sees_a_fault(sabotage: Sabotage) -> None:
    """Each promise of L24, broken on purpose, is a violation."""

    class Sabotaged(Book):
        def drain(self) -> list[Effect]:
            return sabotage(super().drain())

    with pytest.raises(Violation):
        World(3, Sabotaged).run(5_000)


def test_the_checker_sees_what_is_never_forgotten() -> None:
    """A book that keeps something of every answer is found out by its size."""

    class Hoarder(Book):
        def drain(self) -> list[Effect]:
            effects = super().drain()
            self.__dict__.setdefault("hoard", []).extend([e] for e in effects)
            return effects

    with pytest.raises(Violation, match=r"left of what was forgotten|more than its groups"):
        World(3, Hoarder).run(5_000)


def test_the_command_runs_in_several_processes() -> None:
    """`python -m tests.simulation` spreads its worlds over processes, and as many tell the same story as one."""
    told = []
    for processes in ("2", "1"):
        options = ("--seed", "5", "--events", "6000", "--job", "2000", "--processes", processes)
        command = (sys.executable, "-m", "tests.simulation", *options)
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2], timeout=300
        )
        told.append(done.stdout.splitlines()[-1])
    assert told[0] == told[1]
