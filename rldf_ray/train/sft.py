"""Supervised fine-tuning on low-bias statements (METHOD 3): gives pi_SFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from more_itertools import ilen, longest_common_prefix

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.train.worker import OnProgress, TrainJob, run_training

# What torch's cross-entropy leaves out.
NO_LOSS = -100


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
    template = ChatTemplate(tokenizer, job.folders["model"])
    given = Dataset.from_parquet(str(Path(job.folders["data"]) / "sft.parquet"))
    data = with_room(given, template, "sft.max_length", section.max_length)
    model = AutoModelForCausalLM.from_pretrained(
        job.folders["model"], dtype=dtype_of(job.plan.train)
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        # TRL would leave out the end that a template without one is given.
        train_dataset=data.map(lambda row: encode(row, template), remove_columns=data.column_names),
        processing_class=tokenizer,
        callbacks=[LogProgress(str(out))],
        peft_config=lora_config(job.plan.train.lora, model.config.num_hidden_layers, scores=False),
    )
    if rank == 0:
        RowsUsed(used=len(data), too_long=len(given) - len(data)).write(out)
    trainer.add_callback(SkipReduction(trainer, job.plan.train))
    trainer.train(resume_from_checkpoint=last_checkpoint(job))
    save_trained(trainer, tokenizer, out)


def encode(row: dict[str, Any], template: ChatTemplate) -> dict[str, list[int]]:
    """A finished chat; what is learned of it follows what an engine will be given."""
    ids = template.answered(row["prompt"], row["completion"][-1]["content"]).ids
    given = ilen(longest_common_prefix([template.prompt_ids(row["prompt"]), ids]))
    return {"input_ids": ids, "labels": [*[NO_LOSS] * given, *ids[given:]]}
