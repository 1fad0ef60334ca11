"""Supervised fine-tuning on low-bias statements (METHOD 3): gives pi_SFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldf_ray.train.worker import OnProgress, TrainJob, run_training


def train_sft(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Fine-tune `folders["model"]` on `folders["data"]`/sft.parquet into `folders["out"]`/model.

    Raises:
        TrainingError: a worker failed.
    """
    return run_training(_loop, job, on_progress)


def _loop(config: dict[str, Any]) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    from rldf_ray.train.lengths import RowsUsed, with_room
    from rldf_ray.train.lora import lora_config, save_trained
    from rldf_ray.train.trl_callbacks import LogProgress, SkipReduction
    from rldf_ray.train.worker import (
        dtype_of,
        last_checkpoint,
        prepare_worker,
        trainer_arguments,
    )

    job: TrainJob = config["job"]
    rank = prepare_worker(job)
    section, out = job.plan.sft, Path(job.folders["out"])
    tokenizer = AutoTokenizer.from_pretrained(job.folders["model"])
    # Made before the model: under ZeRO-3 it is what makes `from_pretrained` partition the weights.
    arguments = SFTConfig(max_length=section.max_length, **trainer_arguments(job, section))
    given = Dataset.from_parquet(str(Path(job.folders["data"]) / "sft.parquet"))
    data = with_room(given, tokenizer, "sft.max_length", section.max_length)
    model = AutoModelForCausalLM.from_pretrained(
        job.folders["model"], dtype=dtype_of(job.plan.train)
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=data.select_columns(["prompt", "completion"]),
        processing_class=tokenizer,
        callbacks=[LogProgress(str(out))],
        peft_config=lora_config(job.plan.train.lora, model.config.num_hidden_layers, scores=False),
    )
    if rank == 0:
        RowsUsed(used=len(data), too_long=len(given) - len(data)).write(out)
    trainer.add_callback(SkipReduction(trainer, job.plan.train))
    trainer.train(resume_from_checkpoint=last_checkpoint(job))
    save_trained(trainer, tokenizer, out)
