"""The book against a naive model of the rules, by Hypothesis and random walks (L1-L20, C4, C15-C23, A1-A3, F7-F8)."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from groupjudge.core.backing import SessionId
from groupjudge.core.book import Limits
from groupjudge.model import GroupFailure, JudgeFailure

from .lockstep import SESSIONS, Lockstep, named, unnamed
from .walk import (
    CHANGES,
    GOOD,
    NAMES,
    REASONS,
    STEPS,
    Walk,
    answers_of,
    changed,
    changed_all,
    judgement,
    retries,
    siblings,
)

some_limits = st.builds(
    Limits,
    collection_timeout_s=st.sampled_from([4.0, 8.0]),
    judging_timeout_s=st.sampled_from([4.0, 8.0]),
    ttl_s=st.sampled_from([None, 2.0, 8.0, 16.0]),
    max_results=st.integers(1, 3),
    max_attempt_records=st.integers(1, 3),
    max_active_groups=st.sampled_from([None, 1, 2, 3]),
    default_score=st.just(3.0),
    min_members=st.sampled_from([None, 2, 3]),
    eager=st.booleans(),
)

some_session = st.none() | st.sampled_from(SESSIONS)


class BookAgainstModel(RuleBasedStateMachine):
    """Random inputs over few ids, so that they collide; `Lockstep` compares after each."""

    @initialize(limits=some_limits)
    def begin(self, limits: Limits) -> None:
        self.both = Lockstep(limits)

    @rule(
        name=st.sampled_from([*NAMES, None, 7, "x"]),
        is_name=st.booleans(),
        attempt=st.integers(0, 2),
        size=st.sampled_from([1, 2, 2, 2, 2, 3, 4]),
        slot=st.sampled_from([0, 1, 1, 2, "m", "n"]),
        question=st.sampled_from(["p", "p", "p", "q"]),
        answer=st.sampled_from(["A", "A", "B"]),
        session=some_session,
    )
    def arrive(
        self,
        name: str | int | None,
        is_name: bool,
        attempt: int,
        size: int,
        slot: int | str,
        question: str,
        answer: str,
        session: SessionId | None,
    ) -> None:
        key = named(name) if isinstance(name, str) and is_name else unnamed(name, question, attempt)
        slot = slot if isinstance(slot, str) else min(slot, size - 1)
        self.both.arrive(key, attempt, size, slot, question, answer, session)

    @precondition(lambda self: self.both.model.lives)
    @rule(data=st.data())
    def bring_the_rest(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.both.model.lives))
        for member in siblings(life):
            self.both.arrive(*member)

    @precondition(lambda self: self.both.model.lives)
    @rule(data=st.data(), change=st.sampled_from(CHANGES), session=some_session)
    def arrive_again(self, data: st.DataObject, change: str, session: SessionId | None) -> None:
        life = data.draw(st.sampled_from(self.both.model.lives))
        self.both.arrive(*changed(data.draw(st.sampled_from(retries(life))), change), session)

    @rule(
        name=st.sampled_from(NAMES),
        attempt=st.integers(0, 2),
        question=st.sampled_from(["p", "p", "p", "q"]),
        answers=st.lists(st.sampled_from(["A", "A", "B"]), min_size=1, max_size=3),
    )
    def arrive_all(self, name: str, attempt: int, question: str, answers: list[str]) -> None:
        self.both.arrive_all(named(name), attempt, question, answers)

    @precondition(lambda self: any(isinstance(life.key, str) for life in self.both.model.lives))
    @rule(data=st.data(), change=st.sampled_from(CHANGES))
    def arrive_all_again(self, data: st.DataObject, change: str) -> None:
        life = data.draw(st.sampled_from([life for life in self.both.model.lives if isinstance(life.key, str)]))
        what = (life.key, life.attempt, life.question.decode(), answers_of(life))
        self.both.arrive_all(*changed_all(*what, change))

    @rule(name=st.sampled_from(NAMES), attempt=st.integers(0, 2), slot=st.integers(0, 3))
    def watch(self, name: str, attempt: int, slot: int) -> None:
        self.both.watch(named(name), attempt, slot)

    @rule(session=st.sampled_from(SESSIONS), dropped=st.booleans())
    def session_over(self, session: SessionId, dropped: bool) -> None:
        self.both.session_over(session, dropped)

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order: random.Random) -> None:
        members = self.both.export()
        order.shuffle(members)
        self.both.begin()
        self.both.install(members)

    @precondition(lambda self: self.both.tickets)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.both.leave(data.draw(st.integers(0, len(self.both.tickets) - 1)))

    @precondition(lambda self: self.both.calls)
    @rule(data=st.data(), shape=st.sampled_from(["good", "good", "good", "good", "short", "long", "bad", "noted"]))
    def judged(self, data: st.DataObject, shape: str) -> None:
        call = self._some_call(data)
        self.both.judged(call, judgement(self.both.calls[call].size, shape, data.draw(st.sampled_from(GOOD))))

    @precondition(lambda self: self.both.calls)
    @rule(data=st.data(), why=st.sampled_from(REASONS))
    def judging_failed(self, data: st.DataObject, why: JudgeFailure | GroupFailure) -> None:
        self.both.judging_failed(self._some_call(data), why)

    def _some_call(self, data: st.DataObject) -> int:
        pool = sorted(self.both.running) or list(range(len(self.both.calls)))
        return data.draw(st.sampled_from(pool) | st.integers(0, len(self.both.calls) - 1))

    @rule()
    def judged_unknown(self) -> None:
        self.both.judged_unknown(judgement(2, "good", 1.0))

    @rule(seconds=st.sampled_from([*STEPS, -1.0, -8.0]), look=st.booleans())
    def step(self, seconds: float, look: bool) -> None:
        self.both.step(seconds)
        if look:
            self.both.advance()

    @rule(look=st.booleans(), short=st.sampled_from([0.0, 0.0, -0.25]))
    def step_to_deadline(self, look: bool, short: float) -> None:
        self.both.step_to_deadline()
        self.both.step(short)
        if look:
            self.both.advance()

    @rule()
    def hold(self) -> None:
        self.both.hold()

    @rule()
    def release(self) -> None:
        self.both.release()

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def close(self, really: bool) -> None:
        if really:
            self.both.close()


TestBookAgainstModel = BookAgainstModel.TestCase
TestBookAgainstModel.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("seed", range(8))
def test_a_long_walk_finds_no_difference(seed: int) -> None:
    """L1-L20, C4, C15, C16, C18, C21-C23, A1-A3, F7, F8: whatever comes in, both books answer and retain the same."""
    for n in range(30):
        Walk(seed * 1_000_003 + n).go(400)
