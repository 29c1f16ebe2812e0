#!/usr/bin/env bash
# GRPO with verl on rewards from groupjudge: MODEL=Qwen/Qwen3-0.6B TRAIN=train.parquet TEST=test.parquet examples/verl_grpo.sh
# It wants a GPU, and a server: groupjudge serve --set judge.base_url=http://judge:8000/v1
set -euo pipefail

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen3-0.6B}" \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    data.train_files="${TRAIN:-train.parquet}" \
    data.val_files="${TEST:-test.parquet}" \
    data.return_raw_chat=True \
    reward.reward_manager.source=importlib \
    reward.reward_manager.name=GroupRewardManager \
    reward.reward_manager.module.path=pkg://groupjudge.integrations.verl \
    +reward.reward_kwargs.groupjudge.base_url="${REWARD_SERVER:-http://127.0.0.1:8600}" \
    "$@"
