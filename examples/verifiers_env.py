"""An environment of verifiers.v1: n attempts at each task, judged against each other by groupjudge.

groupjudge serve --set judge.base_url=http://judge:8000/v1
vf-eval --env.id verifiers_env --env.n 4 ...     # with this folder on PYTHONPATH, over any taskset
"""

import os

import verifiers.v1 as vf
from verifiers.v1.envs.best_of_n.env import BestOfNEnv

from groupjudge.integrations.verifiers import GroupReward

__all__ = ["JudgedEnv"]

reward = GroupReward(os.environ.get("REWARD_SERVER", "http://127.0.0.1:8600"))


class JudgedEnv(BestOfNEnv):
    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        await reward.judge_episode(task, episode)
        await super().finalize(task, episode)
