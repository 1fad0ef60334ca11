"""The reward model (METHOD 3): -log sigmoid(R(x, y_good) - R(x, y_bad)), by TRL's trainer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.plan import RefereeFitSection
from rldf_ray.train.worker import OnProgress, TrainJob, run_training


def train_reward(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Fit a reward model on `folders["data"]`/pairs.parquet into `folders["out"]`/model.

    It begins as `folders["model"]` with a new score head; where adapters are trained, the adapter
    begins as that of `folders["adapter"]`, if there is one.

    Topics are held out by hash; the accuracy on their pairs is logged as `eval_accuracy`, and how
    many of each topic it is right on is left in the folder (`train/held_out.py`). The plan's
    `reward` says how, or `extra["fit"]` in its place, for a trained referee.

    Raises:
        TrainingError: a worker failed.
    """
    return run_training(_loop, job, on_progress)


def held_out_topics(topics: Sequence[str], share: float) -> set[str]:
    """The topics whose pairs measure the reward model instead of training it.

    The `share` of topics with the smallest hashes; none if that would leave nothing to train on.
    """
    ordered = sorted(set(topics), key=lambda t: hashlib.sha256(f"held/{t}".encode()).hexdigest())
    number = round(len(ordered) * share)
    return set(ordered[:number]) if number < len(ordered) else set()


def _loop(config: dict[str, Any]) -> None:
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from trl import RewardConfig, RewardTrainer

    from rldf_ray.models.reward_score import score_last_token
    from rldf_ray.train.held_out import keeping_margins, right_by_topic, write_right
    from rldf_ray.train.layers import lower_layers
    from rldf_ray.train.lengths import RowsUsed, check_some_left, measured_once, that_differ
    from rldf_ray.train.lora import begin_as, lora_config, save_trained
    from rldf_ray.train.prompts_once import chosen_and_rejected, read_prompts_once
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
    fit: RefereeFitSection | None = job.extra.get("fit")
    section, out = fit or job.plan.reward, Path(job.folders["out"])
    tokenizer = AutoTokenizer.from_pretrained(job.folders["model"])
    template = ChatTemplate(tokenizer, job.folders["model"], job.plan.chat_template_kwargs)
    arguments = RewardConfig(
        max_length=section.max_length,
        center_rewards_coefficient=section.centre or None,
        **trainer_arguments(job, section),
    )
    pairs = Dataset.from_parquet(str(Path(job.folders["data"]) / "pairs.parquet"))
    held_out = held_out_topics(pairs["topic_id"], section.held_out_share)
    # TRL drops pairs longer than max_length; given ids, it takes them as we cut them.
    encoded = pairs.map(
        lambda row: _encode(row, template, section.max_length),
        remove_columns=[c for c in pairs.column_names if c != "topic_id"],
    )
    length = "referee.fit.max_length" if fit else "reward.max_length"
    kept = that_differ(encoded, length, section.max_length)
    train = kept.filter(lambda row: row["topic_id"] not in held_out)
    test = measured_once(kept.filter(lambda row: row["topic_id"] in held_out))
    check_some_left(len(train), len(pairs), "pairs to train on", length, section.max_length)
    if rank == 0:
        too_long = len(pairs) - len(kept)
        RowsUsed(used=len(train), held_out=len(test), too_long=too_long).write(out)
    model = AutoModelForSequenceClassification.from_pretrained(
        job.folders["model"],
        num_labels=1,
        dtype=dtype_of(job.plan.train),
        attn_implementation=attention(job, section.max_length),
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    score_last_token(model)
    if fit is not None:
        lower_layers(model, fit.layers, fit.trained_layers)
    read_prompts_once(model, chosen_and_rejected)
    trainer = keeping_margins(RewardTrainer)(
        model=model,
        args=arguments,
        train_dataset=train.remove_columns("topic_id"),
        eval_dataset=test.remove_columns("topic_id") if len(test) else None,
        processing_class=tokenizer,
        callbacks=[LogProgress(str(out))],
        peft_config=None
        if fit
        else lora_config(job.plan.train.lora, model.config.num_hidden_layers, scores=True),
    )
    if "adapter" in job.folders:
        begin_as(trainer.model, Path(job.folders["adapter"]))
    trainer.add_callback(CountOn(trainer))
    trainer.add_callback(SkipReduction(trainer, job.plan.train))
    trainer.train(resume_from_checkpoint=last_checkpoint(job))
    if len(test):
        trainer.evaluate()
        if rank == 0:
            write_right(out, right_by_topic(test["topic_id"], trainer.margins))
    save_trained(trainer, tokenizer, out)


def _encode(row: dict[str, Any], template: ChatTemplate, max_length: int) -> dict[str, list[int]]:
    return {
        f"{side}_ids": template.answered(row["prompt"], row[side][-1]["content"]).cut(max_length)
        for side in ("chosen", "rejected")
    }
