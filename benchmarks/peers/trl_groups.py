"""TRL's RLOO or GRPO with adapters on a given folder; run by benchmarks/ppo_groups.py.

    python trl_groups.py rloo|grpo MODEL PROMPTS STEPS PROMPTS_A_STEP ANSWERS MICRO TOKENS OUT

PROMPTS is a Parquet file with chats. OUT gets the times at which steps ended, seconds. Imports
nothing of this project.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import (
    GRPOConfig,
    GRPOTrainer,
    RLOOConfig,
    RLOOTrainer,
    __version__,
)

TRAINERS = {"rloo": (RLOOTrainer, RLOOConfig), "grpo": (GRPOTrainer, GRPOConfig)}


class Times(TrainerCallback):
    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ended.append(time.monotonic())


def main(name: str, model: str, prompts: str, *numbers: str) -> None:
    *sizes, out = numbers
    steps, prompts_a_step, answers, micro, tokens = map(int, sizes)
    torch.manual_seed(0)
    lengths: list[int] = []

    def longer(completion_ids: list[list[int]], **_: Any) -> list[float]:
        lengths.extend(len(ids) for ids in completion_ids)
        return [float(len(ids)) for ids in completion_ids]

    times = Times()
    trainer, configuration = TRAINERS[name]
    batch = prompts_a_step * answers
    trainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        reward_funcs=longer,
        train_dataset=Dataset.from_parquet(prompts).select_columns(["prompt"]),
        peft_config=LoraConfig(
            r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[times],
        args=configuration(
            output_dir=str(Path(out).parent / name),
            max_steps=steps,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=batch // micro,
            num_generations=answers,
            max_completion_length=tokens,
            temperature=1.0,
            beta=0.05,
            learning_rate=5e-6,
            use_cpu=True,
            bf16=True,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
    ).train()
    figures = {
        "version": __version__,
        "ended": times.ended,
        "answer_tokens": round(sum(lengths) / len(lengths), 1),
    }
    Path(out).write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
