"""PPO with a critic (METHOD 3): E[R] - beta KL(pi || pi_SFT), one reward at an answer's end.

    prompts -> engines (pi_old) -> rollouts -> reward model -> one reward an answer
                  ^                    |-> actor, critic, reference: logprobs, values, KL
                  |                    v
            weight sync <- actor, critic <- clipped losses <- advantages (GAE)

Really here: old log-probabilities recomputed by the trainer in the batches it trains with,
truncated importance weights for the difference between engine and trainer, KL in the reward,
whitened advantages, clipped ratio and value, one global token mean an optimizer step.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch import Tensor

from rldf_ray.models.reward_score import RewardModel
from rldf_ray.train import ppo_math
from rldf_ray.train.rollout import Batch, Rollout, generate, in_batches, prompt_order
from rldf_ray.train.weight_sync import full_weights, save_model, shared_memory_sync
from rldf_ray.train.worker import (
    OnProgress,
    TrainJob,
    deepspeed_config,
    dtype_of,
    log_step,
    prepare_worker,
    run_training,
)


def train_ppo(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Train `folders["sft"]` against `folders["reward"]` into `folders["out"]`/model.

    `extra["pool"]` is the `EnginePool` that holds pi_SFT at the start; it holds the policy at the
    end. Returns the figures of every rollout step.

    Raises:
        TrainingError: a worker failed, or an engine died.
    """
    return run_training(_loop, job, on_progress)


@dataclass(frozen=True)
class Experience:
    """One micro-batch with everything its update needs, each [B, T-1], 0 where masked."""

    batch: Batch
    old_logprobs: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor
    importance: Tensor


def _loop(config: dict[str, Any]) -> None:
    job: TrainJob = config["job"]
    rank = prepare_worker(job)
    section, workers, seed = job.plan.ppo, job.plan.train.workers, job.plan.seed
    ppo = PPO(job)
    prompts = pq.read_table(Path(job.folders["data"]) / "prompts.parquet").to_pylist()
    prompts = [row for row in prompts if row["split"] == "ppo"]
    order = prompt_order(len(prompts), section.episodes, seed)
    pool, out, steps = (
        job.extra["pool"],
        job.folders["out"],
        section.episodes // section.rollout_batch,
    )
    pool.wait_until_ready()
    with shared_memory_sync(pool) as engines:
        for step in range(steps):
            first = step * section.rollout_batch
            episodes = range(first + rank, first + section.rollout_batch, workers)
            rows = [prompts[order[episode]] for episode in episodes]
            addresses = [f"ppo/{step}/{episode}" for episode in episodes]
            rollouts = asyncio.run(
                generate(pool, [row["prompt"] for row in rows], addresses, section, seed)
            )
            figures = ppo.step(rollouts)
            weights = full_weights(ppo.actor.module)
            if rank == 0:
                engines.sync(weights, f"ppo-{step + 1}")
                log_step(out, {"step": step + 1, "steps": steps, **figures})
            _barrier()
    if rank == 0:
        save_model(ppo.actor.module, ppo.reward.tokenizer, weights, Path(out) / "model")
    _barrier()


class PPO:
    """Actor, critic, frozen reference and reward model of one worker, and the PPO step."""

    def __init__(self, job: TrainJob) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

        self.section, self.seed = job.plan.ppo, job.plan.seed
        self.workers = job.plan.train.workers
        self.device = job.placement.device
        dtype = dtype_of(self.section)
        actor = AutoModelForCausalLM.from_pretrained(job.folders["sft"], dtype=dtype)
        reference = AutoModelForCausalLM.from_pretrained(job.folders["sft"], dtype=dtype)
        # The critic begins as the reward model, which already tells good from bad endings.
        critic_config = AutoConfig.from_pretrained(job.folders["reward"], num_labels=1)
        critic_config.classifier_dropout = 0.0
        critic = AutoModelForTokenClassification.from_pretrained(
            job.folders["reward"], config=critic_config, dtype=dtype
        )
        self.actor = self._engine(job, actor, self.section.learning_rate)
        self.critic = self._engine(job, critic, self.section.critic_learning_rate)
        self.reference: Any = reference.eval().requires_grad_(False).to(self.device)
        self.reward = RewardModel(job.folders["reward"], self.device, job.plan.reward.max_length)
        self.beta = ppo_math.AdaptiveKL(
            beta=self.section.beta,
            target=1.0 if self.section.kl_target is None else self.section.kl_target,
            horizon=self.section.kl_horizon if self.section.kl_target is not None else None,
        )

    def _engine(self, job: TrainJob, model: Any, learning_rate: float) -> Any:
        import deepspeed

        section, train = self.section, job.plan.train
        if train.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=learning_rate, weight_decay=train.weight_decay, fused=True
        )
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            config=deepspeed_config(
                train,
                dtype_of(section),
                micro_batch=section.micro_batch,
                accumulation=self._accumulation,
                max_grad_norm=section.max_grad_norm,
            ),
        )
        if self.workers == 1 and train.zero_stage == 0:
            # There is nobody to reduce with, and DeepSpeed would flatten every gradient to do it.
            engine.enable_backward_allreduce = False
        return engine

    @property
    def _accumulation(self) -> int:
        return self.section.batch_size // (self.section.micro_batch * self.workers)

    def step(self, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """One PPO step: experience from this worker's rollouts, then `epochs` passes over it."""
        scores = self.reward.score(
            [r.prompt_ids for r in rollouts], [r.answer_ids for r in rollouts]
        )
        experience, figures = self._experience(rollouts, scores)
        updates: list[dict[str, float]] = []
        for epoch in range(self.section.epochs):
            order = list(range(0, len(experience), self._accumulation))
            if epoch:
                random.Random(self.seed + epoch).shuffle(order)
            for i in order:
                updates.append(self._update(experience[i : i + self._accumulation]))
        self.beta.update(figures["kl"], self.section.rollout_batch)
        # The first update of a rollout is made by the policy that generated it.
        first = {"first_ratio_max": updates[0]["ratio_max"], "first_kl_old": updates[0]["kl_old"]}
        return {**figures, **_mean(updates), **first}

    @torch.no_grad()
    def _experience(
        self, rollouts: Sequence[Rollout], scores: Tensor
    ) -> tuple[list[Experience], dict[str, float]]:
        section, size = self.section, self.section.micro_batch
        batches = [b.to(self.device) for b in in_batches(rollouts, size, self._pad_id)]
        old = [self._logprobs(self.actor, b)[0] for b in batches]
        ref = [self._logprobs(self.reference, b)[0] for b in batches]
        values = [self._values(b) for b in batches]
        made, kls, moments = [], [], torch.zeros(3, dtype=torch.float64, device=self.device)
        for i, b in enumerate(batches):
            kl = ppo_math.kl_estimate(old[i], ref[i], section.kl_estimator)
            score = scores[i * size : (i + 1) * size].to(self.device)
            rewards = ppo_math.bandit_rewards(score, kl, b.mask, self.beta.beta)
            advantages, returns = ppo_math.gae(
                rewards, values[i], b.mask, section.gamma, section.lam
            )
            moments += ppo_math.moments(advantages, b.mask)
            made.append((advantages, returns))
            # What is reported and steered is k3: like k1 unbiased, but never below zero.
            kls.append(ppo_math.kl_estimate(old[i], ref[i], "k3").masked_fill(~b.mask, 0).sum(1))
        moments = _all_reduce(moments)
        experience = [
            Experience(
                b,
                old[i],
                values[i],
                ppo_math.whiten_with(made[i][0], b.mask, moments),
                made[i][1],
                ppo_math.importance_weights(
                    old[i], b.engine_logprobs, b.mask, section.importance_cap
                ),
            )
            for i, b in enumerate(batches)
        ]
        return experience, self._rollout_figures(rollouts, scores, torch.cat(kls), experience)

    def _update(self, experience: Sequence[Experience]) -> dict[str, float]:
        """One optimizer step of actor and critic over its micro-batches."""
        tokens = _all_reduce(sum(e.batch.mask.sum() for e in experience).double())  # type: ignore[union-attr]
        # DeepSpeed averages over micro-batches and workers; a mean over all tokens of the step
        # needs sums divided by their global number instead.
        scale = self.workers * len(experience) / tokens
        policy_stats, value_stats, entropy = [], [], []
        for e in experience:
            logprobs, token_entropy = self._logprobs(self.actor, e.batch)
            policy_loss, stats = ppo_math.policy_loss(
                logprobs,
                e.old_logprobs,
                e.advantages,
                e.batch.mask,
                self.section.clip,
                e.importance,
            )
            self.actor.backward((policy_loss * scale).float())
            self.actor.step()
            value_loss, value_stat = ppo_math.value_loss(
                self._values(e.batch),
                e.old_values,
                e.returns,
                e.batch.mask,
                self.section.value_clip,
            )
            self.critic.backward((value_loss * scale).float())
            self.critic.step()
            policy_stats.append({**stats, "loss": policy_loss.detach().double()})
            value_stats.append({**value_stat, "loss": value_loss.detach().double()})
            entropy.append(ppo_math.masked_sum(token_entropy.double(), e.batch.mask))
        policy = _reduced(reduce(ppo_math.join_stats, policy_stats))
        value = _reduced(reduce(ppo_math.join_stats, value_stats))
        count = policy["tokens"]
        return {
            "policy_loss": policy["loss"] / count,
            "value_loss": value["loss"] / count,
            "ratio_mean": policy["ratio"] / count,
            "ratio_max": policy["ratio_max"],
            "clip_fraction": policy["clipped"] / count,
            "value_clip_fraction": value["clipped"] / count,
            "kl_old": policy["kl_k3"] / count,
            "entropy": float(_all_reduce(torch.stack(entropy).sum())) / count,
        }

    def _logprobs(self, model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probability of every next token and the entropy there, both [B, T-1].

        Columns that are no answer's in any row are 0: their logits are never computed.
        """
        first = int(batch.mask.any(0).float().argmax())
        logits = model(
            input_ids=batch.ids,
            attention_mask=batch.attention,
            logits_to_keep=batch.ids.shape[1] - first,
        ).logits[:, :-1]
        temperature = self.section.temperature
        logprobs = ppo_math.token_logprobs(logits, batch.ids[:, first + 1 :], temperature)
        with torch.no_grad():
            entropy = ppo_math.token_entropy(logits.detach(), temperature)
        before = (first, 0)
        return torch.nn.functional.pad(logprobs, before), torch.nn.functional.pad(entropy, before)

    def _values(self, batch: Batch) -> Tensor:
        """The critic's value before every next token, [B, T-1]."""
        logits = self.critic(input_ids=batch.ids, attention_mask=batch.attention).logits
        values: Tensor = logits[:, :-1, 0].float()
        return values

    @property
    def _pad_id(self) -> int:
        return int(self.reward.tokenizer.pad_token_id)

    def _rollout_figures(
        self, rollouts: Sequence[Rollout], scores: Tensor, kl: Tensor, made: Sequence[Experience]
    ) -> dict[str, float]:
        """What is known of a rollout before any update, over all workers."""
        mismatch = [
            (e.old_logprobs - e.batch.engine_logprobs).abs().masked_fill(~e.batch.mask, 0)
            for e in made
        ]
        returns = torch.cat([e.returns[e.batch.mask] for e in made])
        values = torch.cat([e.old_values[e.batch.mask] for e in made])
        everything = torch.ones_like(returns, dtype=torch.bool)
        sums = _all_reduce(
            torch.tensor(
                [
                    len(rollouts),
                    float(scores.sum()),
                    float(kl.sum()),
                    sum(r.ended for r in rollouts),
                    sum(len(r.answer_ids) for r in rollouts),
                    float(sum(m.sum() for m in mismatch)),
                    sum(len(r.prompt_ids) for r in rollouts),
                ],
                dtype=torch.float64,
                device=self.device,
            )
        )
        number, reward, kl_sum, ended, tokens, difference, prompt_tokens = sums.tolist()
        worst = _all_reduce(torch.stack([m.max() for m in mismatch]).max(), largest=True)
        explained = float(ppo_math.explained_variance(values, returns, everything))
        return {
            "reward": reward / number,
            "kl": kl_sum / number,
            "beta": self.beta.beta,
            "share_ended": ended / number,
            "response_tokens": tokens / number,
            "generated_tokens": tokens,
            "prompt_tokens": prompt_tokens,
            "engine_mismatch_mean": difference / tokens,
            "engine_mismatch_max": float(worst),
            **({"explained_variance": explained} if math.isfinite(explained) else {}),
        }


def _all_reduce(x: Tensor, *, largest: bool = False) -> Tensor:
    """`x` summed (or its maximum) over all workers."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
    return x


def _reduced(stats: ppo_math.Stats) -> dict[str, float]:
    """Statistics of all workers together."""
    return {
        name: float(_all_reduce(value.clone(), largest=name.endswith("_max")))
        for name, value in stats.items()
    }


def _mean(updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure over the updates of a step; the largest of a `_max`."""
    return {
        name: max(u[name] for u in updates)
        if name.endswith("_max")
        else sum(u[name] for u in updates) / len(updates)
        for name in updates[0]
    }


def _barrier() -> None:
    if dist.is_initialized():
        dist.barrier()
