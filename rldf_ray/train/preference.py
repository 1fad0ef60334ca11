"""What DPO and KTO share: a policy learns from pairs which answers to make likelier than it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.plan import DPOSection, KTOSection
from rldf_ray.train.reward import held_out_topics
from rldf_ray.train.worker import TrainJob

REFERENCE = "ref"
"""The adapter that TRL adds as a reference."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What one of TRL's trainers makes of the pairs.

    Attributes:
        name: of the stage, and of its section in the plan.
        trainer, configuration: TRL's own.
        settings: of the configuration, by the rows that are learned from.
        rows: encoded pairs -> what the trainer is given of them.
        reference: its column of the reference's log-probabilities -> that of the answers' ids.
        counts: what the stage is told of the rows learned from, beside the number of pairs.
    """

    name: Literal["dpo", "kto"]
    trainer: type[Any]
    configuration: type[Any]
    settings: Callable[[Any], Mapping[str, Any]]
    rows: Callable[[Any], Any]
    reference: Mapping[str, str]
    counts: Callable[[Any], Mapping[str, int]]


def learn(job: TrainJob, rank: int, objective: Objective) -> None:
    """Train `folders["model"]`, or its adapter in `folders["adapter"]`, into `folders["out"]`.

    Topics are held out by hash, as for the reward model; at the end the share of their pairs whose
    chosen answer has become likelier than it was by more than the rejected one is logged as
    `eval_accuracy`, and how many of each topic have is left in the folder (`train/held_out.py`).
    """
    from transformers import AutoTokenizer

    from rldf_ray.train.held_out import right_by_topic, write_right
    from rldf_ray.train.lengths import RowsUsed
    from rldf_ray.train.likelihoods import beginning, learning_from_rows, margins
    from rldf_ray.train.lora import save_trained
    from rldf_ray.train.trl_callbacks import CountOn, LogProgress, SkipReduction
    from rldf_ray.train.worker import last_checkpoint, trainer_arguments

    section: DPOSection | KTOSection = getattr(job.plan, objective.name)
    out = Path(job.folders["out"])
    tokenizer = AutoTokenizer.from_pretrained(job.folders["model"])
    template = ChatTemplate(tokenizer, job.folders["model"], job.plan.chat_template_kwargs)
    train, held_out, too_long = _split(job, objective.name, section, template)
    test = held_out.remove_columns("topic_id")
    rows = objective.rows(train)
    # Made before the model: under ZeRO-3 it is what makes `from_pretrained` partition the weights.
    arguments = objective.configuration(
        beta=section.beta,
        max_length=section.max_length,
        precompute_ref_log_probs=True,
        **objective.settings(rows),
        **trainer_arguments(job, section),
    )
    if rank == 0:
        counts = objective.counts(rows)
        RowsUsed(used=len(train), held_out=len(test), too_long=too_long, **counts).write(out)
    trainer = learning_from_rows(objective.trainer, objective.reference)(
        model=_beginning_policy(job, section.max_length),
        args=arguments,
        train_dataset=rows,
        eval_dataset=objective.rows(test) if len(test) else None,
        processing_class=tokenizer,
        callbacks=[LogProgress(str(out))],
    )
    if REFERENCE in getattr(trainer.model, "peft_config", ()):
        # Its log-probabilities are known by now.
        trainer.model.delete_adapter(REFERENCE)
    before = margins(trainer, beginning(trainer), test) if len(test) else []
    trainer._precompute_engine = None
    trainer.add_callback(CountOn(trainer))
    trainer.add_callback(SkipReduction(trainer, job.plan.train))
    trainer.train(resume_from_checkpoint=last_checkpoint(job))
    if before:
        trainer.evaluate()
        after = margins(trainer, trainer.deepspeed, test)
        moved = [section.beta * (a - b) for a, b in zip(after, before, strict=True)]
        right = sum(margin > 0 for margin in moved)
        trainer.log({"eval_accuracy": right / len(moved), "eval_margin": sum(moved) / len(moved)})
        if rank == 0:
            write_right(out, right_by_topic(held_out["topic_id"], moved))
    save_trained(trainer, tokenizer, out)


def _split(
    job: TrainJob, name: str, section: DPOSection | KTOSection, template: ChatTemplate
) -> tuple[Any, Any, int]:
    """Encoded pairs to learn from, those held out with their topics, and how many are too long."""
    from datasets import Dataset

    from rldf_ray.train.lengths import check_some_left, measured_once, that_differ
    from rldf_ray.train.preference_rows import encode_pair

    pairs = Dataset.from_parquet(str(Path(job.folders["data"]) / "pairs.parquet"))
    held_out = held_out_topics(pairs["topic_id"], section.held_out_share)
    encoded = pairs.map(
        lambda row: encode_pair(row, template, section.max_length),
        remove_columns=[c for c in pairs.column_names if c != "topic_id"],
    )
    length = f"{name}.max_length"
    kept = that_differ(encoded, length, section.max_length)
    train = kept.filter(lambda row: row["topic_id"] not in held_out)
    test = measured_once(kept.filter(lambda row: row["topic_id"] in held_out))
    check_some_left(len(train), len(pairs), "pairs to train on", length, section.max_length)
    return train.remove_columns("topic_id"), test, len(pairs) - len(kept)


def _beginning_policy(job: TrainJob, longest: int) -> Any:
    """The policy as it was left before; with adapters, a base and the adapter to go on with.

    Args:
        longest: row [tokens].
    """
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from rldf_ray.train.lora import begin_as, lora_config
    from rldf_ray.train.worker import attention, dtype_of

    train = job.plan.train
    model = AutoModelForCausalLM.from_pretrained(
        job.folders["model"],
        dtype=dtype_of(train),
        attn_implementation=attention(job, longest),
    )
    adapters = lora_config(train.lora, model.config.num_hidden_layers, scores=False)
    if adapters is None:
        return model
    adapted = get_peft_model(model, adapters)
    begin_as(adapted, Path(job.folders["adapter"]))
    return adapted
