"""Supervised fine-tuning on low-bias statements (METHOD 3): gives pi_SFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from more_itertools import ilen, longest_common_prefix

from rldf_ray.errors import UserError
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.plan.saved import another_run
from rldf_ray.train.reward import held_out_topics
from rldf_ray.train.worker import OnProgress, TrainJob, run_training


class NothingHeldOutError(UserError):
    """No topic is kept to measure SFT with; the message says which field to change."""


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

    from rldf_ray.train.best_pass import KeepBestPass, save_best
    from rldf_ray.train.labelled_tokens import score_labelled_tokens
    from rldf_ray.train.lengths import RowsUsed, with_room
    from rldf_ray.train.lora import lora_config, save_trained, under_adapter
    from rldf_ray.train.trl_callbacks import CountOn, LogProgress, SkipReduction
    from rldf_ray.train.worker import (
        attention,
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
    arguments = SFTConfig(
        max_length=section.max_length,
        eval_strategy="epoch" if section.held_out_share else "no",
        **trainer_arguments(job, section),
    )
    template = ChatTemplate(tokenizer, job.folders["model"], job.plan.chat_template_kwargs)
    given = Dataset.from_parquet(str(Path(job.folders["data"]) / "sft.parquet"))
    data = with_room(given, template, "sft.max_length", section.max_length)
    learned, test = apart(data, section.held_out_share)
    model = AutoModelForCausalLM.from_pretrained(
        job.folders["model"],
        dtype=dtype_of(job.plan.train),
        attn_implementation=attention(job, section.max_length),
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        # TRL would leave out the end that a template without one is given.
        train_dataset=_encoded(learned, template),
        eval_dataset=None if test is None else _encoded(test, template),
        processing_class=tokenizer,
        callbacks=[LogProgress(str(out))],
        peft_config=lora_config(job.plan.train.lora, model.config.num_hidden_layers, scores=False),
    )
    if job.placement.device == "cpu":
        score_labelled_tokens(under_adapter(trainer.model))
    if rank == 0:
        too_long = len(given) - len(data)
        RowsUsed(
            used=len(learned), held_out=0 if test is None else len(test), too_long=too_long
        ).write(out)
    trainer.add_callback(CountOn(trainer))
    trainer.add_callback(SkipReduction(trainer, job.plan.train))
    if test is not None:
        trainer.add_callback(KeepBestPass(trainer, out))
    trainer.train(resume_from_checkpoint=last_checkpoint(job))
    (save_trained if test is None else save_best)(trainer, tokenizer, out)


def apart(data: Any, share: float) -> tuple[Any, Any]:
    """Examples to learn from, and those of a share of the topics to measure the loss with.

    Returns:
        All of `data` and None where the share is 0.

    Raises:
        NothingHeldOutError: the share is of so few topics that it is none of them.
    """
    if share == 0:
        return data, None
    held_out = held_out_topics(data["topic_id"], share)
    if not held_out:
        raise NothingHeldOutError(
            f"sft.held_out_share={share:g} of {len(set(data['topic_id']))} topics is none of them: "
            + another_run("a higher share, or with 0 and sft.epochs of your choice")
        )
    return (
        data.filter(lambda row: row["topic_id"] not in held_out),
        data.filter(lambda row: row["topic_id"] in held_out),
    )


def _encoded(examples: Any, template: ChatTemplate) -> Any:
    return examples.map(lambda row: encode(row, template), remove_columns=examples.column_names)


def encode(row: dict[str, Any], template: ChatTemplate) -> dict[str, list[int]]:
    """A finished chat; what is learned of it follows what an engine will be given."""
    ids = template.answered(row["prompt"], row["completion"][-1]["content"]).ids
    given = ilen(longest_common_prefix([template.prompt_ids(row["prompt"]), ids]))
    return {"input_ids": ids, "labels": [*[NO_LOSS] * given, *ids[given:]]}
