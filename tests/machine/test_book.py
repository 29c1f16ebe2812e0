"""The book against a naive model of the same rules, by Hypothesis and by a long random walk (L1-L20, C15, A3)."""

from __future__ import annotations

import math
import random
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from groupjudge.core.book import Limits
from groupjudge.model import GroupFailure, GroupKey, JudgeFailure, Judgement, UnnamedKey

from .lockstep import Lockstep, named, unnamed
from .model import Life

NAMES = ("a", "b", "c")
QUESTIONS = ("p", "q")
ANSWERS = ("A", "B")
STEPS = (0.25, 1.0, 3.0, 4.0, 8.0, 15.75, 16.0, 40.0, 400.0)
REASONS = (
    JudgeFailure("the judge was away"),
    JudgeFailure("500"),
    GroupFailure("internal", "a defect of the server"),
)
GOOD = (1.0, -2.5, 3.0, 0.0, 1e300)
BAD = (math.nan, math.inf, -math.inf)

CHANGES = (
    *["none"] * 8,
    *["next attempt", "attempt before", "size", "alone", "slot", "way", "question", "answer"],
)
What: TypeAlias = tuple[GroupKey, int, int, int | str, str, str]
"""A request as `Lockstep.arrive` takes it: key, attempt, size, slot or member id, question, answer."""

some_limits = st.builds(
    Limits,
    collection_timeout_s=st.sampled_from([4.0, 8.0]),
    judging_timeout_s=st.sampled_from([4.0, 8.0]),
    ttl_s=st.sampled_from([None, 2.0, 8.0, 16.0]),
    max_results=st.integers(1, 3),
    max_attempt_records=st.integers(1, 3),
    max_active_groups=st.sampled_from([None, 1, 2, 3]),
    default_score=st.just(3.0),
)


class BookAgainstModel(RuleBasedStateMachine):
    """Random inputs over few ids, so that they collide; `Lockstep` compares after each."""

    @initialize(limits=some_limits)
    def begin(self, limits: Limits) -> None:
        self.both = Lockstep(limits)

    @rule(
        name=st.sampled_from([*NAMES, None, 7, "x"]),
        is_name=st.booleans(),
        attempt=st.integers(0, 2),
        size=st.sampled_from([1, 2, 2, 2, 2, 3]),
        slot=st.sampled_from([0, 1, 1, 2, "m", "n"]),
        question=st.sampled_from(["p", "p", "p", "q"]),
        answer=st.sampled_from(["A", "A", "B"]),
    )
    def arrive(self, name, is_name, attempt, size, slot, question, answer) -> None:  # type: ignore[no-untyped-def]
        named_id = isinstance(name, str) and is_name
        key = named(name) if named_id else unnamed(name, question, attempt)
        slot = slot if isinstance(slot, str) else min(slot, size - 1)
        self.both.arrive(key, attempt, size, slot, question, answer)

    @precondition(lambda self: self.both.model.lives)
    @rule(data=st.data())
    def bring_the_rest(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.both.model.lives))
        for member in siblings(life):
            self.both.arrive(*member)

    @precondition(lambda self: self.both.model.lives)
    @rule(data=st.data(), change=st.sampled_from(CHANGES))
    def arrive_again(self, data: st.DataObject, change: str) -> None:
        life = data.draw(st.sampled_from(self.both.model.lives))
        self.both.arrive(*changed(data.draw(st.sampled_from(retries(life))), change))

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


def member(life: Life, slot: int | str, answer: str) -> What:
    return life.key, life.attempt, life.size, slot, life.question.decode(), answer


def retries(life: Life) -> list[What]:
    """An exact retry of each member that came."""
    return [
        member(life, slot if m.member_id is None else m.member_id, m.answer.decode())
        for slot, m in life.members.items()
    ]


def siblings(life: Life) -> list[What]:
    """A first answer for each slot that is still free, by index or by member id, as the group began."""
    free = [slot for slot in range(life.size) if slot not in life.members]
    return [member(life, f"s{slot}" if life.by_member_id else slot, "A") for slot in free]


def changed(what: What, change: str) -> What:
    """The request with one thing changed, or as it was."""
    key, attempt, size, slot, question, answer = what
    attempt += {"next attempt": 1, "attempt before": -(attempt > 0)}.get(change, 0)
    size += change == "size"
    size = 1 if change == "alone" else size
    if change == "slot":
        slot = "other" if isinstance(slot, str) else (slot + 1) % size
    elif change == "alone" and isinstance(slot, int):
        slot = 0
    elif change == "way":
        slot = 0 if isinstance(slot, str) else "m0"
    question = {"p": "q", "q": "p"}[question] if change == "question" else question
    answer = {"A": "B", "B": "A"}[answer] if change == "answer" else answer
    if isinstance(key, UnnamedKey):
        key = unnamed(key.label, question, attempt)
    return key, attempt, size, slot, question, answer


def judgement(size: int, shape: str, first: float) -> Judgement:
    """A judgement for `size` members whose rewards differ, spoilt as `shape` says."""
    rewards = [first + 10 * slot for slot in range(size)]
    if shape == "bad":
        rewards[-1] = BAD[int(abs(first)) % len(BAD)]
    rewards = {"short": rewards[:-1], "long": [*rewards, 9.0]}.get(shape, rewards)
    noted = ("groupjudge:default_scores", "nobody could read it") if shape == "noted" else (None, None)
    return Judgement(tuple(rewards), (), None, *noted)


class Walk:
    """A random walk over the same inputs: less clever than Hypothesis, a hundred times as far."""

    def __init__(self, seed: int) -> None:
        self.random = rng = random.Random(seed)
        self.both = Lockstep(
            Limits(
                collection_timeout_s=rng.choice([4.0, 8.0, 64.0]),
                judging_timeout_s=rng.choice([4.0, 8.0, 64.0]),
                ttl_s=rng.choice([None, 2.0, 8.0, 16.0, 64.0]),
                max_results=rng.choice([1, 2, 3, 50]),
                max_attempt_records=rng.choice([1, 2, 3, 50]),
                max_active_groups=rng.choice([None, 1, 2, 3]),
            )
        )
        self.by_id = rng.random() < 0.3
        self.step_s = rng.choice([0.0, 0.25, 1.0])

    def go(self, steps: int, moves_per_close: int = 1000) -> None:
        inputs = [self.bring, self.bring_sibling, self.bring_again, self.judge, self.leave, self.pass_time, self.hold]
        for _ in range(steps):
            self.random.choices(inputs, weights=[12, 24, 24, 20, 4, 10, 4])[0]()
            if self.random.random() * moves_per_close < 1:
                self.both.close()

    def bring(self) -> None:
        rng = self.random
        attempt, question = rng.choice([0, 0, 0, 0, 1, 2]), rng.choice("pppppppq")
        key = (
            named(rng.choice(NAMES)) if rng.random() < 0.75 else unnamed(rng.choice([7, None, "a"]), question, attempt)
        )
        size = rng.choice([2, 2, 2, 2, 2, 3, 1])
        slot: int | str = rng.randrange(size)
        if self.by_id and rng.random() < 0.9:
            slot = f"m{rng.randrange(size + 1)}"
        self.both.arrive(key, attempt, size, slot, question, rng.choice("AAAAAB"))

    def bring_sibling(self) -> None:
        members = [member for life in self.both.model.lives if life.active for member in siblings(life)]
        if members:
            self.both.arrive(*self.random.choice(members))

    def bring_again(self) -> None:
        members = [member for life in self.both.model.lives for member in retries(life)]
        if members:
            self.both.arrive(*changed(self.random.choice(members), self.random.choice(CHANGES)))

    def judge(self) -> None:
        rng, both = self.random, self.both
        if not both.calls:
            return
        stale = rng.random() < 0.15 or not both.running
        call = rng.randrange(len(both.calls)) if stale else rng.choice(sorted(both.running))
        if rng.random() < 0.25:
            both.judging_failed(call, rng.choice(REASONS))
        else:
            shape = rng.choice(["good", "good", "good", "good", "bad", "short", "long", "noted"])
            both.judged(call, judgement(both.calls[call].size, shape, rng.choice(GOOD)))

    def leave(self) -> None:
        if self.both.tickets:
            recent = range(len(self.both.tickets))[-6:]
            self.both.leave(self.random.choice(recent))

    def pass_time(self) -> None:
        choice = self.random.random()
        if choice < 0.3:
            self.both.step_to_deadline()
            self.both.step(self.random.choice([0.0, 0.0, -0.25]))
        elif choice < 0.4:
            self.both.step(self.random.choice([*STEPS, -1.0]))
        else:
            self.both.step(self.step_s)
        if self.random.random() < 0.5:
            self.both.advance()

    def hold(self) -> None:
        self.random.choice([self.both.hold, self.both.release, self.both.release])()


@pytest.mark.parametrize("seed", range(8))
def test_a_long_walk_finds_no_difference(seed: int) -> None:
    """L1-L20, C15: whatever comes in, both books answer and retain the same."""
    for n in range(30):
        Walk(seed * 1_000_003 + n).go(400)
