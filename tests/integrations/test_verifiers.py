"""The reward for verifiers without verifiers (A5, A11)."""

from __future__ import annotations

import logging
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.groups import rewards_of

from groupjudge import DeadlinePassed
from groupjudge.integrations.verifiers import GroupReward, NoReward

from .conftest import REFUSED

TEXTS = ["one", "two", "three"]


class Message:
    """As verifiers has them: a model, not a mapping."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content

    def model_dump(self, **_: object) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


def states(count: int) -> list[dict[str, Any]]:
    return [{"error": None} for _ in range(count)]


async def test_a_group_gets_its_rewards_in_order(address: str) -> None:
    """A11: prompts and completions are texts or messages."""
    completions = [[Message("assistant", text)] for text in TEXTS]
    rewards = await GroupReward(address)([[Message("user", "q")]] * 3, completions, states(3))
    assert rewards == rewards_of("q", TEXTS)
    assert await GroupReward(address)(["q"] * 3, TEXTS, states(3)) == rewards


async def test_a_failed_group_is_marked_on_its_states(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5, A11: a rubric turns what is raised into zeros, so the states say that these are no rewards."""
    marked, reward = states(2), GroupReward(address)
    with caplog.at_level(logging.WARNING):
        for group in (marked, states(2)):
            assert await reward([f"one that {REFUSED}"] * 2, ["a", "b"], group) == [0.0, 0.0]
    assert [set(state["error"]) for state in marked] == [{"error", "error_chain_repr", "error_chain_str"}] * 2
    assert marked[0]["error"]["error"] == "NoReward"
    assert len([record for record in caplog.records if record.name == "groupjudge.integrations.verifiers"]) == 1


async def test_a_server_that_is_not_there_is_marked_too() -> None:
    """A11."""
    marked = states(2)
    assert await GroupReward("http://127.0.0.1:9", deadline_s=0.3)(["q"] * 2, ["a", "b"], marked) == [0.0, 0.0]
    assert [state["error"]["error"] for state in marked] == ["DeadlinePassed"] * 2


async def test_a_rollout_that_failed_before_is_not_judged(address: str) -> None:
    """A5: it gets the mean of the others, and no other reward depends on it."""
    broken = states(4)
    broken[1]["error"] = ValueError("no model")
    rewards = await GroupReward(address)(["q"] * 4, ["one", "", "two", "three"], broken)
    own = rewards_of("q", TEXTS)
    assert rewards == [own[0], sum(own) / 3, own[1], own[2]]
    await GroupReward(address)([f"one that {REFUSED}"] * 4, ["one", "", "two", "three"], broken)
    assert isinstance(broken[1]["error"], ValueError)
    assert broken[0]["error"]["error"] == "NoReward"
    assert await GroupReward(address)(["q"], ["a"], [{"error": "x"}]) == [0.0]


class Trace:
    """What the hook does with a v1 trace."""

    def __init__(self, reply: str, *, ok: bool = True) -> None:
        self.last_reply, self.ok, self.rewards = reply, ok, {}

    def record_reward(self, name: str, value: float) -> None:
        self.rewards[name] = value


def task(prompt: object, system: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(data=SimpleNamespace(prompt=prompt, system_prompt=system))


async def test_the_hook_records_the_reward_of_each_trace(address: str) -> None:
    """A11: those that failed before are neither judged nor rewarded."""
    traces = [Trace("one"), Trace("broken", ok=False), Trace("two"), Trace("three")]
    await GroupReward(address).judge_episode(task("q"), SimpleNamespace(traces=traces))
    own = [{"groupjudge": reward} for reward in rewards_of("q", TEXTS)]
    assert [trace.rewards for trace in traces] == [own[0], {}, own[1], own[2]]


async def test_the_hook_raises_for_a_group_without_rewards(address: str) -> None:
    """A5, A11: then the episode has failed, and nothing is recorded."""
    traces = [Trace("a"), Trace("b")]
    with pytest.raises(NoReward, match="400"):
        await GroupReward(address).judge_episode(task(f"one that {REFUSED}"), SimpleNamespace(traces=traces))
    reward = GroupReward("http://127.0.0.1:9", deadline_s=0.3)
    with pytest.raises(DeadlinePassed):
        await reward.judge_episode(task("q"), SimpleNamespace(traces=traces))
    assert [trace.rewards for trace in traces] == [{}, {}]


async def test_what_the_judge_is_shown_may_be_chosen(address: str) -> None:
    """A11: by default the prompt behind its system prompt, and the last reply."""
    reward = GroupReward(address, question=lambda task: "q", answer=lambda trace: trace.last_reply.upper())
    traces = [Trace("a"), Trace("b")]
    await reward.judge_episode(task("other"), SimpleNamespace(traces=traces))
    assert [trace.rewards["groupjudge"] for trace in traces] == rewards_of("q", ["A", "B"])


async def test_an_answer_that_is_alone_has_no_reward(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A5, L9: the default score of a group of one is no judgement."""
    traces = [Trace("one"), Trace("x", ok=False), Trace("y", ok=False)]
    for group in (traces, traces[:1]):
        with pytest.raises(NoReward, match="only one answer"):
            await GroupReward(address).judge_episode(task("q"), SimpleNamespace(traces=group))
    assert [trace.rewards for trace in traces] == [{}, {}, {}]
    lone: list[dict[str, Any]] = [{"error": "x"}, {"error": None}, {"error": "y"}]
    assert await GroupReward(address)(["q"] * 3, ["a", "b", "c"], lone) == [0.0] * 3
    assert lone[1]["error"]["error"] == "NoReward"
    assert "only one answer" in caplog.text


@pytest.mark.parametrize(
    ("prompts", "completions", "said"),
    [
        (["p1", "p2"], ["a", "b"], "different prompts"),
        (["q", "q"], ["a"], "equally many"),
        (["q", "q"], ["a", "b", "c"], "equally many"),
        (["q"], ["a", "b"], "equally many"),
    ],
)
async def test_lists_that_are_no_group_are_refused(
    address: str, prompts: list[str], completions: list[str], said: str
) -> None:
    """A11: raised, and marked on the states, since a rubric makes zeros of what is raised."""
    marked = states(2)
    with pytest.raises(ValueError, match=said):
        await GroupReward(address)(prompts, completions, marked)
    assert [state["error"]["error"] for state in marked] == ["ValueError"] * 2


async def test_an_answer_that_is_none_is_an_empty_one(address: str) -> None:
    """A11: in both forms."""
    expected = await GroupReward(address)(["q"] * 2, ["a", ""], states(2))
    assert await GroupReward(address)(["q"] * 2, ["a", None], states(2)) == expected
    traces = [Trace("a"), Trace("")]
    traces[1].last_reply = None
    await GroupReward(address).judge_episode(task("q"), SimpleNamespace(traces=traces))
    assert [trace.rewards["groupjudge"] for trace in traces] == expected


async def test_it_may_be_handed_to_another_process(address: str) -> None:
    """A11: an environment may run in a worker; its rubric goes there pickled."""
    reward = pickle.loads(pickle.dumps(GroupReward(address)))
    assert await reward(["q"] * 2, ["a", "b"], states(2)) == rewards_of("q", ["a", "b"])
