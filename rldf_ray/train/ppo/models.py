"""The four models of PPO on one worker: actor, critic, frozen reference, reward model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.optim.lr_scheduler import LinearLR

from rldf_ray.models.reward_score import RewardModel
from rldf_ray.plan import Plan
from rldf_ray.train.ppo import losses as ppo_math
from rldf_ray.train.ppo.rollout import Batch
from rldf_ray.train.ppo.weight_sync import Policy, full_weights, save_model
from rldf_ray.train.prompts_once import neighbours, read_prompts_once
from rldf_ray.train.worker import TrainJob, deepspeed_config, dtype_of, skip_reduction


@dataclass(frozen=True, kw_only=True)
class PPOModels:
    """What the PPO step computes with.

    Attributes:
        actor: DeepSpeed engine of a causal language model.
        critic: DeepSpeed engine of a token classifier with one label; None without a critic.
        reference: the frozen causal language model.
        reward: scores whole answers.
        policy: the actor's weights as engines load them; a collective.
        export: writes a policy into a folder as `model/` or `adapter/` (rank 0).
        save: writes the policy at the end, `model/` in any case (rank 0).
    """

    actor: Any
    critic: Any
    reference: Callable[..., Any]
    reward: RewardModel
    policy: Callable[[], Policy]
    export: Callable[[Policy, Path], None]
    save: Callable[[Policy, Path], None]


def full_models(job: TrainJob) -> PPOModels:
    """Models of their own, all parameters of actor and critic trained."""
    from transformers import AutoModelForCausalLM

    section, device = job.plan.ppo, job.placement.device
    dtype = dtype_of(section)
    actor = AutoModelForCausalLM.from_pretrained(job.folders["sft"], dtype=dtype)
    reference = AutoModelForCausalLM.from_pretrained(job.folders["sft"], dtype=dtype)
    reference.eval().requires_grad_(False).to(device)
    reward = RewardModel(job.folders["reward"], device, job.plan.reward.max_length)
    if not section.has_critic:
        together = neighbours(section.answers_per_prompt)
        for model in (actor, reference, reward.model):
            read_prompts_once(model, together)
    engine = training_engine(job, _recomputing(job, actor), section.learning_rate)

    def save(policy: Policy, out: Path) -> None:
        save_model(actor, reward.tokenizer, policy.weights, out / "model")

    return PPOModels(
        actor=engine,
        critic=_critic(job) if section.has_critic else None,
        reference=reference,
        reward=reward,
        policy=lambda: Policy(full_weights(engine.module)),
        export=save,
        save=save,
    )


def _critic(job: TrainJob) -> Any:
    """Begins as the reward model, which already tells good from bad endings."""
    from transformers import AutoConfig, AutoModelForTokenClassification

    section, folder = job.plan.ppo, job.folders["reward"]
    config = AutoConfig.from_pretrained(folder, num_labels=1)
    config.classifier_dropout = 0.0
    critic = AutoModelForTokenClassification.from_pretrained(
        folder, config=config, dtype=dtype_of(section)
    )
    return training_engine(job, _recomputing(job, critic), section.critic_learning_rate)


def _recomputing(job: TrainJob, model: Any) -> Any:
    """The model, made to recompute activations where the plan says so."""
    if job.plan.train.gradient_checkpointing:
        # transformers recomputes in training mode only; these models have no dropout.
        model.gradient_checkpointing_enable()
        model.train()
    return model


def training_engine(job: TrainJob, model: Any, learning_rate: float) -> Any:
    """`model` under DeepSpeed as the plan's `train` section says, with AdamW and its warm-up."""
    import deepspeed

    section, train = job.plan.ppo, job.plan.train
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=train.weight_decay, fused=True
    )
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=optimizer,
        lr_scheduler=lambda optimizer: warm_up(optimizer, job.plan),
        config=deepspeed_config(
            train,
            dtype_of(section),
            micro_batch=section.micro_batch,
            accumulation=accumulation(job),
            max_grad_norm=section.max_grad_norm,
        ),
    )
    skip_reduction(engine, train)
    return engine


def warm_up(optimizer: torch.optim.Optimizer, plan: Plan) -> LinearLR:
    """A learning rate that rises over `train.warmup_share` of all updates, and then stays.

    AdamW's first update moves every parameter by the whole learning rate, however small and noisy
    its gradient.
    """
    updates = plan.ppo.episodes // plan.ppo.batch_size * plan.ppo.epochs
    rising = round(plan.train.warmup_share * updates)
    return LinearLR(optimizer, start_factor=1 / (rising + 1), total_iters=rising)


def accumulation(job: TrainJob) -> int:
    """Micro-batches of one worker in an optimizer step."""
    section = job.plan.ppo
    return section.batch_size // (section.micro_batch * job.plan.train.workers)


@dataclass(frozen=True)
class Pass:
    """A forward pass of policy and critic over a micro-batch, each [B, T-1]; values 0 without."""

    logprobs: Tensor
    entropy: Tensor
    values: Tensor


def answer_logits(model: Any, batch: Batch) -> tuple[Tensor, int]:
    """Next-token logits [B, T-1-n, V] from column n on, the first that is an answer's in any row.

    Padding is on the right, where a causal model's answers do not look: it needs no mask, unless
    rows are put together and where they end has to be known.
    """
    first = int(batch.mask.any(0).float().argmax())
    read = batch.ids[:, :-1]
    given = {"attention_mask": batch.attention[:, :-1]} if batch.prompts_shared else {}
    # Columns by number are copied out. A slice of them is not contiguous, and for that torch
    # copies a frozen head, the largest weight there is, for every row of the batch.
    columns = torch.arange(first, read.shape[1], device=read.device)
    logits: Tensor = model(input_ids=read, logits_to_keep=columns, **given).logits
    return logits, first


def logprobs_of(model: Any, batch: Batch, temperature: float) -> Tensor:
    """Log-probability of every next token, [B, T-1]; 0 in columns that are no answer's."""
    logits, first = answer_logits(model, batch)
    logprobs = ppo_math.token_logprobs(logits, batch.ids[:, first + 1 :], temperature)
    return pad(logprobs, (first, 0))


def logprobs_and_entropy(model: Any, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
    """`logprobs_of`, and the entropy there without a gradient, both [B, T-1]."""
    logits, first = answer_logits(model, batch)
    logprobs = ppo_math.token_logprobs(logits, batch.ids[:, first + 1 :], temperature)
    with torch.no_grad():
        # Row by row: what is computed on the way has the size of all logits.
        entropy = torch.stack([ppo_math.token_entropy(row, temperature) for row in logits])
    return pad(logprobs, (first, 0)), pad(entropy, (first, 0))


def values_of(critic: Any | None, batch: Batch) -> Tensor:
    """The critic's value before every next token, [B, T-1]; 0 where there is none."""
    if critic is None:
        return torch.zeros_like(batch.engine_logprobs)
    values: Tensor = critic(input_ids=batch.ids[:, :-1]).logits[..., 0]
    return values.float()
