"""TRL's RewardTrainer alone, in one process; run by benchmarks/reward.py.

    python trl_reward.py MODEL PAIRS BATCH OUT

PAIRS is a JSON file with lists of token ids under "chosen_ids" and "rejected_ids". OUT gets the
trainer's own figures. Imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer


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
        train_dataset=Dataset.from_dict(json.loads(Path(pairs).read_text())),
        processing_class=tokenizer,
    )
    trainer.train()
    figures = trainer.state.log_history[-1]
    Path(out).write_text(json.dumps({k: figures[k] for k in ("train_runtime", "train_loss")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
