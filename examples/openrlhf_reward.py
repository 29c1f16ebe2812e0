r"""The file for OpenRLHF's --reward.remote_url. It takes two settings from the environment.

groupjudge serve --set judge.base_url=http://judge:8000/v1
SAMPLES=8 python -m openrlhf.cli.train_ppo_ray --reward.remote_url examples/openrlhf_reward.py \
    --rollout.n_samples_per_prompt 8 --eval.n_samples_per_prompt 8 ...
"""

import os

from groupjudge.integrations.openrlhf import GroupReward

reward_func = GroupReward(
    os.environ.get("REWARD_SERVER", "http://127.0.0.1:8600"), samples_per_prompt=int(os.environ["SAMPLES"])
)
