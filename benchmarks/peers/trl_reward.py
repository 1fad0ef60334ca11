"""TRL's RewardTrainer alone, in one process; run by benchmarks/reward.py.

    python trl_reward.py MODEL PAIRS BATCH OUT

PAIRS is a JSON file with lists of token ids under "chosen_ids" and "rejected_ids". OUT gets the
seconds from the end of the first step to the end of the last. Imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback
from trl import RewardConfig, RewardTrainer


class Times(TrainerCallback):
    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ended.append(time.monotonic())


def main(model: str, pairs: str, batch: str, out: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    scorer = AutoModelForSequenceClassification.from_pretrained(
        model, num_labels=1, dtype=torch.float32
    )
    scorer.config.pad_token_id = tokenizer.pad_token_id
    trainer = RewardTrainer(
        model=scorer,
        args=RewardConfig(
            output_dir=str(Path(out).parent / "trl"),
            per_device_train_batch_size=int(batch),
            learning_rate=3e-5,
            max_length=256,
            num_train_epochs=1,
            optim="adamw_torch_fused",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(json.loads(Path(pairs).read_text(encoding="utf-8"))),
        processing_class=tokenizer,
        callbacks=[times := Times()],
    )
    trainer.train()
    figures = {
        "seconds": times.ended[-1] - times.ended[0],
        "train_loss": trainer.state.log_history[-1]["train_loss"],
    }
    Path(out).write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
