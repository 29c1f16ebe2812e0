"""Trains a tiny random model with TRL on rewards from a server, and writes down what the trainer made of them.

python trl_worker.py model FOLDER/model      makes the model
python trl_worker.py SERVER FOLDER COUNT     trains; the first of COUNT processes writes FOLDER/logs.json
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from groupjudge.integrations.trl import GroupReward

SPECIAL = ["<pad>", "<eos>", "<unk>"]
PROMPTS = ["why is the sky blue", "is it wide", "nobody refuses today", "look at the sky", "where is it", "why so wide"]
GENERATIONS, GENERATIONS_EVAL = 4, 2


def make_model(folder: Path) -> None:
    """A model of a few thousand random weights, and a tokenizer that knows a dozen words."""
    known = dict.fromkeys([*SPECIAL, *" ".join(PROMPTS).split()])
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), pad_token_id=0, eos_token_id=1, bos_token_id=None, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train(server: str, folder: Path, processes: int) -> None:
    """Two batches of three groups, with an evaluation of other group sizes after each."""
    config = GRPOConfig(
        output_dir=str(folder / "out"),
        num_generations=GENERATIONS,
        num_generations_eval=GENERATIONS_EVAL,
        per_device_train_batch_size=12 // processes,
        per_device_eval_batch_size=6 // processes,
        max_completion_length=8,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        log_completions=False,
    )
    data = Dataset.from_dict({"prompt": PROMPTS})
    trainer = GRPOTrainer(
        model=str(folder / "model"),
        reward_funcs=GroupReward(server, deadline_s=60),
        args=config,
        train_dataset=data,
        eval_dataset=data.select(range(3)),
    )
    seen: list[dict[str, object]] = []
    calculate = trainer._calculate_rewards

    def noted(*arguments):  # what one batch is, in all processes
        rewards = calculate(*arguments)
        seen.append({"mode": "train" if trainer.model.training else "eval", "size": len(rewards)})
        return rewards

    trainer._calculate_rewards = noted
    trainer._logs |= {"prompt": [], "completion": [], "advantages": [], "rewards": defaultdict(list)}
    trainer.train()
    if trainer.accelerator.is_main_process:
        write(trainer, seen, folder / "logs.json")
    trainer.accelerator.end_training()  # a process that ends with gloo's threads running may be aborted


def write(trainer: GRPOTrainer, batches: list[dict[str, object]], path: Path) -> None:
    """All answers in the order of their batches; a reward that is not there is null."""
    logs = trainer._logs
    rewards = [None if math.isnan(reward) else reward for reward in logs["rewards"]["groupjudge"]]
    rows = list(zip(logs["prompt"], logs["completion"], rewards, logs["advantages"], strict=True))
    path.write_text(json.dumps({"batches": batches, "rows": rows, "history": trainer.state.log_history}))


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "model":
        make_model(where)
    else:
        train(sys.argv[1], where, int(sys.argv[3]))
