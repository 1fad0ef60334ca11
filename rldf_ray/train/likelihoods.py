"""How likely a model under DeepSpeed makes answers, by which DPO and KTO know their reference.

A policy begins as its reference, so the reference's log-probabilities are the policy's before the
first step: they are computed once, and no second model is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from rldf_ray.train.labelled_tokens import score_labelled_tokens
from rldf_ray.train.lora import under_adapter
from rldf_ray.train.sft import NO_LOSS

Row = tuple[Sequence[int], Sequence[int]]


def log_likelihoods(
    trainer: Any, engine: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> list[float]:
    """The log-probability of each answer after its prompt; a collective, all workers get all.

    Args:
        trainer: of TRL, whose model has the head that makes log-probabilities of labels.
        engine: that model under DeepSpeed.
    """
    accelerator = trainer.accelerator
    rows: Any = list(zip(prompts, answers, strict=True))
    loader = accelerator.prepare_data_loader(
        DataLoader(
            rows,
            batch_size=trainer.args.per_device_eval_batch_size,
            collate_fn=collating(trainer.processing_class.pad_token_id),
        )
    )
    sums = []
    with torch.no_grad(), accelerator.autocast():
        for batch in loader:
            outputs = engine(**batch, use_cache=False, fused_lm_head=True)
            sums.append(accelerator.gather_for_metrics(outputs.log_probs.sum(dim=1)).float().cpu())
    return list(torch.cat(sums).tolist()) if sums else []


def collating(pad: int) -> Callable[[Sequence[Row]], dict[str, torch.Tensor]]:
    """Rows of prompt and answer as a batch, padded on the right; only answers have labels."""

    def padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
        return pad_sequence([torch.tensor(row) for row in rows], True, value)

    def collate(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return {
            "input_ids": padded([[*prompt, *answer] for prompt, answer in rows], pad),
            "attention_mask": padded([[1] * (len(p) + len(a)) for p, a in rows], 0),
            "labels": padded([[*[NO_LOSS] * len(p), *a] for p, a in rows], NO_LOSS),
        }

    return collate


def learning_from_rows(trainer: type[Any], reference: Mapping[str, str]) -> type[Any]:
    """TRL's trainer on rows that have token ids, with the reference's log-probabilities as above.

    TRL's own way keeps them in a file that only one machine has, under a name that under ZeRO-3
    is the same for all models.

    Args:
        reference: column of log-probabilities -> column of the answers' ids.
    """

    class Learner(trainer):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
            return dataset

        def _precompute_ref_logps(self, dataset: Any, *_: Any) -> Any:
            engine = beginning(self)
            for column, ids in reference.items():
                known = log_likelihoods(self, engine, dataset["prompt_ids"], dataset[ids])
                dataset = dataset.add_column(column, known)
            return dataset

    return Learner


def beginning(trainer: Any) -> Any:
    """The model of one of TRL's trainers before its first step, under DeepSpeed."""
    from trl.models.utils import prepare_deepspeed

    if trainer._precompute_engine is None:
        if trainer.args.use_cpu:
            score_labelled_tokens(under_adapter(trainer.model))
        trainer._precompute_engine = prepare_deepspeed(trainer.model, trainer.accelerator)
    return trainer._precompute_engine


def margins(trainer: Any, engine: Any, pairs: Any) -> list[float]:
    """How much likelier each pair's chosen answer is than the rejected one."""
    chosen, rejected = (
        log_likelihoods(trainer, engine, pairs["prompt_ids"], pairs[f"{side}_ids"])
        for side in ("chosen", "rejected")
    )
    return [a - b for a, b in zip(chosen, rejected, strict=True)]
