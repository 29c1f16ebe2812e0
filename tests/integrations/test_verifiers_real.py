"""verifiers itself: a rubric of 0.1, an environment's hook of v1 (A11).

`make test-integrations` runs these; each half is skipped where its release is not installed.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from tests.e2e.groups import rewards_of
from tests.e2e.serving import ROOT

from groupjudge.integrations.verifiers import GroupReward

from .conftest import REFUSED


def release() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version("verifiers").split(".")[:2])
    except PackageNotFoundError:
        return ()


legacy = pytest.mark.skipif(release() != (0, 1), reason="verifiers 0.1 is not installed: make test-integrations")
modern = pytest.mark.skipif(release() < (0, 2), reason="verifiers >= 0.2 is not installed: make test-integrations")
TEXTS = ["one", "two", "three"]


@legacy
async def test_a_rubric_scores_a_group(address: str) -> None:
    """A11: rewards, advantages, and an error on each state of a group without rewards."""
    import verifiers as vf

    rubric = vf.Rubric(funcs=[GroupReward(address)])
    assert rubric.has_group_rewards

    async def scored(prompt: str) -> list[Any]:
        states = [
            vf.State(
                prompt=[vf.UserMessage(content=prompt)],
                completion=[vf.AssistantMessage(content=text)],
                answer="",
                error=None,
                trajectory=[],
            )
            for text in TEXTS
        ]
        await rubric.score_group(states)
        return states

    own = rewards_of("q", TEXTS)
    good = await scored("q")
    assert [state["reward"] for state in good] == own
    assert [state["metrics"] for state in good] == [{"groupjudge": reward} for reward in own]
    assert [state["error"] for state in good] == [None] * 3
    bad = await scored(f"one that {REFUSED}")
    assert [state["advantage"] for state in bad] == [0.0] * 3
    assert all(state["error"]["error"] == "NoReward" for state in bad)


def environment(address: str) -> Any:
    """An environment of v1 whose group is three ready traces; what runs around the hook is verifiers' own."""
    import verifiers.v1 as vf
    from verifiers.v1.trace import AgentInfo, TraceTask

    reward = GroupReward(address)

    class Ready(vf.Env):
        def __init__(self) -> None:  # no harness and no model: `run` needs none
            self.config = vf.EnvConfig()

        def _episode_agents(self, ctx: Any, completed: list[Any], *_: Any) -> Any:
            return completed

        async def run(self, task: Any, agents: Any) -> None:
            info = AgentInfo(config=vf.AgentConfig())
            of = TraceTask(type="Task", data=task.data, key=task.key, hash=task.hash)
            for text in TEXTS:
                node = vf.MessageNode(message=vf.AssistantMessage(content=text), sampled=True)
                agents.append(vf.Trace(task=of, agent=info, nodes=[node], ok=True))

        async def finalize(self, task: Any, episode: Any) -> None:
            await reward.judge_episode(task, episode)

    return Ready()


def a_task(prompt: str) -> Any:
    import verifiers.v1 as vf

    return vf.Task(vf.TaskData(idx=0, prompt=prompt))


@modern
async def test_the_hook_rewards_the_traces_of_an_episode(address: str) -> None:
    """A11."""
    episode = await environment(address).run_episode(a_task("q"), None)
    assert episode.errors == []
    assert [trace.reward for trace in episode.traces] == rewards_of("q", TEXTS)
    assert all(set(trace.rewards) == {"groupjudge"} for trace in episode.traces)


@modern
async def test_an_episode_without_rewards_has_failed(address: str) -> None:
    """A5, A11: the host leaves it out, or tries it again."""
    episode = await environment(address).run_episode(a_task(f"one that {REFUSED}"), None)
    assert not episode.ok
    assert "400" in episode.errors[0].message
    assert all(trace.rewards == {} for trace in episode.traces)


@modern
async def test_the_example_judges_its_episodes(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A13: found by its id, as the command line finds it; over traces that are ready."""
    monkeypatch.setenv("REWARD_SERVER", address)
    from verifiers.v1.envs.best_of_n import BestOfNEnvConfig
    from verifiers.v1.utils.loaders import environment_class

    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    ready = type(environment(address))
    example = environment_class("", "verifiers_env")

    class Judged(example, ready):  # type: ignore[misc, valid-type] -- classes that are known when it runs
        def __init__(self) -> None:
            self.config = BestOfNEnvConfig()

        run = ready.run

    episode = await Judged().run_episode(a_task("q"), None)
    assert episode.errors == []
    assert [trace.rewards["groupjudge"].score for trace in episode.traces] == rewards_of("q", TEXTS)
    assert [trace.metrics["best"] for trace in episode.traces].count(1.0) >= 1
