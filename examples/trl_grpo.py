"""Train a small model with TRL's GRPOTrainer on rewards from groupjudge.

pip install "groupjudge[trl]"
groupjudge serve --set judge.base_url=http://judge:8000/v1
python examples/trl_grpo.py --model Qwen/Qwen3-0.6B                          # one process
torchrun --nproc-per-node 2 examples/trl_grpo.py --model Qwen/Qwen3-0.6B     # two: groups may sit in both
"""

from __future__ import annotations

import argparse

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from groupjudge.integrations.trl import GroupReward

QUESTIONS = [
    "What is the capital of France, and on which river does it lie?",
    "Why is the sky blue?",
    "How do I boil an egg?",
    "Which is heavier, a kilo of feathers or a kilo of lead?",
]


def main() -> None:
    options = argparse.ArgumentParser(description="GRPO on rewards from groupjudge")
    options.add_argument("--model", required=True, help="a name on the Hub, or a folder")
    options.add_argument("--server", default="http://127.0.0.1:8600")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--out", default="trl-grpo")
    options.add_argument("--cpu", action="store_true")
    chosen = options.parse_args()

    config = GRPOConfig(
        output_dir=chosen.out,
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=64,
        max_steps=chosen.steps,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=chosen.cpu,
        bf16=not chosen.cpu,
    )
    trainer = GRPOTrainer(
        model=chosen.model,
        reward_funcs=GroupReward(chosen.server),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": QUESTIONS}),
    )
    trainer.train()


if __name__ == "__main__":
    main()
