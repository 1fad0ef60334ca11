"""TRL's PPOTrainer (its last versions are before 1.13) on given folders; run by benchmarks/ppo.py.

    python trl_ppo.py MODEL REWARD PROMPTS EPISODES BATCH ANSWER_TOKENS OUT

PROMPTS is a JSON file with lists of token ids. OUT gets the times at which updates ended, seconds.
Imports nothing of this project, as it runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainerCallback,
)
from trl import __version__
from trl.experimental.ppo import PPOConfig, PPOTrainer


class Times(TrainerCallback):
    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ended.append(time.monotonic())


def main(model: str, reward: str, prompts: str, *numbers: str) -> None:
    *sizes, out = numbers
    episodes, batch, answer = map(int, sizes)
    torch.manual_seed(0)

    def scorer() -> Any:
        return AutoModelForSequenceClassification.from_pretrained(
            reward, num_labels=1, dtype=torch.float32
        )

    def speaker() -> Any:
        return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    times = Times()
    trainer = PPOTrainer(
        args=PPOConfig(
            output_dir=str(Path(out).parent / "trl"),
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=1,
            num_mini_batches=1,
            num_ppo_epochs=1,
            local_rollout_forward_batch_size=batch,
            total_episodes=episodes,
            response_length=answer,
            temperature=1.0,
            kl_coef=0.05,
            learning_rate=5e-6,
            num_sample_generations=0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
        processing_class=tokenizer,
        model=speaker(),
        ref_model=speaker(),
        reward_model=scorer(),
        value_model=scorer(),
        train_dataset=Dataset.from_dict(
            {"input_ids": json.loads(Path(prompts).read_text(encoding="utf-8"))}
        ),
        callbacks=[times],
    )
    trainer.train()
    Path(out).write_text(
        json.dumps({"version": __version__, "ended": times.ended}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
