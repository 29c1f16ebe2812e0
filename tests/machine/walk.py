"""A random walk of the book beside the model: less clever than Hypothesis, a hundred times as far."""

from __future__ import annotations

import math
import random
from typing import TypeAlias

from groupjudge.core.backing import SessionId
from groupjudge.core.book import Limits
from groupjudge.model import GroupFailure, GroupKey, JudgeFailure, Judgement, UnnamedKey

from .lockstep import SESSIONS, Lockstep, named, unnamed
from .model import Life

NAMES = ("a", "b", "c")
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


def answers_of(life: Life) -> list[str]:
    """The whole group's answers, as far as they are known."""
    return [life.members[slot].answer.decode() if slot in life.members else "A" for slot in range(life.size)]


def changed_all(
    key: GroupKey, attempt: int, question: str, answers: list[str], change: str
) -> tuple[GroupKey, int, str, list[str]]:
    """A whole group with one thing changed, or as it was."""
    attempt += {"next attempt": 1, "attempt before": -(attempt > 0)}.get(change, 0)
    question = {"p": "q", "q": "p"}[question] if change == "question" else question
    if change == "answer":
        answers = [*answers[:-1], {"A": "B", "B": "A"}[answers[-1]]]
    return key, attempt, question, {"size": [*answers, "A"], "alone": answers[:1]}.get(change, answers)


def judgement(size: int, shape: str, first: float) -> Judgement:
    """A judgement for `size` members whose rewards differ, spoilt as `shape` says."""
    rewards = [first + 10 * slot for slot in range(size)]
    if shape == "bad":
        rewards[-1] = BAD[int(abs(first)) % len(BAD)]
    rewards = {"short": rewards[:-1], "long": [*rewards, 9.0]}.get(shape, rewards)
    noted = ("groupjudge:default_scores", "nobody could read it") if shape == "noted" else (None, None)
    return Judgement(tuple(rewards), (), None, *noted)


class Walk:
    """One walk from one seed: its limits, and then random inputs over few ids, so that they collide."""

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
                min_members=rng.choice([None, None, 2, 3]),
                eager=rng.random() < 0.5,
            )
        )
        self.by_id = rng.random() < 0.3
        self.step_s = rng.choice([0.0, 0.25, 1.0])
        self.sessions = rng.choice([0.0, 0.5, 0.9])

    def go(self, steps: int, moves_per_close: int = 1000) -> None:
        inputs = {
            self.bring: 12,
            self.bring_sibling: 24,
            self.bring_again: 24,
            self.bring_all: 6,
            self.watch: 8,
            self.judge: 20,
            self.leave: 4,
            self.pass_time: 10,
            self.hold: 4,
            self.end_a_session: 8 * (self.sessions > 0),
            self.restart: 3 * (self.sessions > 0),
        }
        for _ in range(steps):
            self.random.choices(list(inputs), weights=list(inputs.values()))[0]()
            if self.random.random() * moves_per_close < 1:
                self.pass_time()
                self.both.close()

    def bring(self) -> None:
        rng = self.random
        attempt, question = rng.choice([0, 0, 0, 0, 1, 2]), rng.choice("pppppppq")
        key = (
            named(rng.choice(NAMES)) if rng.random() < 0.75 else unnamed(rng.choice([7, None, "a"]), question, attempt)
        )
        size = rng.choice([2, 2, 2, 2, 2, 3, 1] if self.both.limits.min_members is None else [2, 3, 3, 4, 4, 1])
        slot: int | str = rng.randrange(size)
        if self.by_id and rng.random() < 0.9:
            slot = f"m{rng.randrange(size + 1)}"
        self.both.arrive(key, attempt, size, slot, question, rng.choice("AAAAAB"), self.session())

    def session(self) -> SessionId | None:
        return self.random.choice(SESSIONS) if self.random.random() < self.sessions else None

    def end_a_session(self) -> None:
        self.both.session_over(self.random.choice(SESSIONS), self.random.random() < 0.6)

    def restart(self) -> None:
        """A new process, into which somebody may call before the restore, without a session."""
        rng, members = self.random, self.both.export()
        if rng.random() < 0.8:
            self.both.begin()
        for _ in range(rng.choice([0, 0, 1, 3])):
            self.both.arrive(named(rng.choice(NAMES)), rng.randrange(3), 2, rng.randrange(2), "p", "A")
        rng.shuffle(members)
        self.both.install(members)

    def bring_sibling(self) -> None:
        members = [member for life in self.both.model.lives if life.active for member in siblings(life)]
        if members:
            self.both.arrive(*self.random.choice(members), self.session())

    def bring_again(self) -> None:
        members = [member for life in self.both.model.lives for member in retries(life)]
        if members:
            self.both.arrive(*changed(self.random.choice(members), self.random.choice(CHANGES)), self.session())

    def bring_all(self) -> None:
        """A whole group: a new one, or one that is known, with a change now and then."""
        rng, lives = self.random, self.both.model.lives
        if lives and rng.random() < 0.7:
            life = rng.choice(lives)
            what = (life.key, life.attempt, life.question.decode(), answers_of(life))
        else:
            answers = [rng.choice("AAAAAB") for _ in range(rng.choice([1, 2, 2, 2, 3]))]
            what = (named(rng.choice(NAMES)), rng.choice([0, 0, 1, 2]), rng.choice("pppppq"), answers)
        if not isinstance(what[0], UnnamedKey):
            self.both.arrive_all(*changed_all(*what, rng.choice(CHANGES)))

    def watch(self) -> None:
        rng, lives = self.random, self.both.model.lives
        if lives and rng.random() < 0.8:
            life = rng.choice(lives)
            attempt = max(0, life.attempt + rng.choice([0, 0, 0, 0, 0, 1, -1]))
            what = (life.key, attempt, rng.randrange(life.size + 1))
        else:
            what = (named(rng.choice(NAMES)), rng.randrange(3), rng.randrange(2))
        if not isinstance(what[0], UnnamedKey):
            self.both.watch(*what)

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
