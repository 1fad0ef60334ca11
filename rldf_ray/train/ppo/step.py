"""The PPO step of one worker: experience from rollouts, then clipped updates of actor and critic.

rollouts -> old log-probabilities, reference's, values -> KL, rewards, advantages (GAE)
         -> for every epoch and optimizer step: ratio, clipped losses, gradients

Where a worker's rollout is one micro-batch, the pass that gives old log-probabilities and values is
also the forward pass of the first update: it is the same policy on the same batch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from rldf_ray.plan.training import KL_ERROR_CLIP
from rldf_ray.train.collectives import all_reduce
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.ppo import losses as ppo_math
from rldf_ray.train.ppo.metrics import (
    Experience,
    actor_figures,
    critic_figures,
    explained_variance,
    mean_of_updates,
    rollout_figures,
)
from rldf_ray.train.ppo.models import (
    Pass,
    PPOModels,
    accumulation,
    full_models,
    logprobs_and_entropy,
    logprobs_of,
    values_of,
)
from rldf_ray.train.ppo.rollout import Batch, Rollout, in_batches
from rldf_ray.train.ppo.shared_base import shared_models
from rldf_ray.train.worker import TrainJob


class PPO:
    """The PPO step of one worker, and the state it carries from step to step.

    Args:
        models: computed with, in place of those of the job's folders.
    """

    def __init__(self, job: TrainJob, models: PPOModels | None = None) -> None:
        self.section, self.seed = job.plan.ppo, job.plan.seed
        self.workers, self.device = job.plan.train.workers, job.placement.device
        self.models = models or (
            shared_models(job) if job.plan.train.lora.rank else full_models(job)
        )
        self.steps_done = 0
        self.reward_scale = ppo_math.RewardScale()
        self.beta = ppo_math.AdaptiveKL(
            beta=self.section.beta,
            target=1.0 if self.section.kl_target is None else self.section.kl_target,
            horizon=self.section.kl_horizon if self.section.kl_target is not None else None,
            clip=KL_ERROR_CLIP,
        )
        self._accumulation = accumulation(job)
        # Recomputed activations would be those of the model as it is then, under its adapter then.
        self._keeps_graphs = not job.plan.train.gradient_checkpointing

    @property
    def engines(self) -> dict[str, Any]:
        critic = {"critic": self.models.critic} if self.section.has_critic else {}
        return {"actor": self.models.actor, **critic}

    def state_dict(self) -> dict[str, Any]:
        """What the step carries beside the engines' weights and optimizers."""
        return {
            "steps_done": self.steps_done,
            "beta": self.beta.state_dict(),
            "reward_scale": self.reward_scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps_done = state["steps_done"]
        self.beta.load_state_dict(state["beta"])
        self.reward_scale.load_state_dict(state["reward_scale"])

    def score(self, rollouts: Sequence[Rollout]) -> Tensor:
        """The reward model's rewards of answers, [B] on the CPU."""
        return self.models.reward.score(
            [r.prompt_ids for r in rollouts], [r.answer_ids for r in rollouts]
        )

    def step(self, rollouts: Sequence[Rollout], scores: Tensor) -> tuple[dict[str, float], Tensor]:
        """One PPO step: experience from this worker's rollouts, then `epochs` passes over it.

        Args:
            scores: reward of each rollout, [B].

        Returns:
            The step's figures over all workers, and the k3 KL of each rollout [B], nats.

        Raises:
            DivergedError: the reward, the KL or a loss is no finite number. Where it is one of the
                first two, no update is made.
        """
        batches = self._batches(rollouts)
        passes = self._passes(batches)
        experience, kl = self._experience(batches, passes, self._shaped(scores))
        figures = {**rollout_figures(rollouts, scores, kl, experience), "beta": self.beta.beta}
        if self.section.has_critic:
            figures |= explained_variance(experience)
        check_finite("ppo", {"step": self.steps_done + 1, **figures})
        updates = self._updates(experience, passes)
        self.beta.update(figures["kl"], self.section.rollout_batch)
        self.steps_done += 1
        # The first update of a rollout is made by the policy that generated it.
        first = {"first_ratio_max": updates[0]["ratio_max"], "first_kl_old": updates[0]["kl_old"]}
        figures |= {**mean_of_updates(updates), **first, "updates": len(updates)}
        check_finite("ppo", {"step": self.steps_done, **figures})
        return figures, kl

    def _shaped(self, scores: Tensor) -> Tensor:
        """Rewards as PPO sees them: normalised and clipped as planned."""
        section, scores = self.section, scores.to(self.device)
        if section.reward_normalise:
            everything = torch.ones_like(scores, dtype=torch.bool)
            self.reward_scale.update(all_reduce(ppo_math.moments(scores, everything)))
            scores = self.reward_scale(scores)
        if section.reward_clip is not None:
            scores = scores.clamp(-section.reward_clip, section.reward_clip)
        return scores

    def _batches(self, rollouts: Sequence[Rollout]) -> list[Batch]:
        pad_id = int(self.models.reward.tokenizer.pad_token_id)
        batches = in_batches(rollouts, self.section.micro_batch, pad_id)
        return [b.to(self.device) for b in batches]

    def _passes(self, batches: Sequence[Batch]) -> list[Pass]:
        """pi_old and the old values; with their graphs where the first update is to use them."""
        with torch.set_grad_enabled(len(batches) == 1 and self._keeps_graphs):
            return [
                Pass(*self._policy(batch), values_of(self.models.critic, batch))
                for batch in batches
            ]

    def _policy(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropy of the policy, without a graph where it is not trained."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._trains_policy):
            return logprobs_and_entropy(self.models.actor, batch, self.section.temperature)

    @property
    def _trains_policy(self) -> bool:
        return self.steps_done >= self.section.value_warmup

    @torch.no_grad()
    def _experience(
        self, batches: Sequence[Batch], passes: Sequence[Pass], rewards: Tensor
    ) -> tuple[list[Experience], Tensor]:
        section, models = self.section, self.models
        old, values = [p.logprobs.detach() for p in passes], [p.values.detach() for p in passes]
        ref = [logprobs_of(models.reference, b, section.temperature) for b in batches]
        made, kls = [], []
        for i, token_rewards in enumerate(self._token_rewards(batches, rewards, old, ref)):
            b = batches[i]
            # Without values to go by, an advantage is all the reward that is to come.
            lam = section.lam if section.has_critic else 1.0
            advantages, returns = ppo_math.gae(token_rewards, values[i], b.mask, section.gamma, lam)
            weights = ppo_math.importance_weights(
                old[i], b.engine_logprobs, b.mask, section.importance_cap
            )
            made.append(
                Experience(
                    batch=b,
                    old_logprobs=old[i],
                    ref_logprobs=ref[i],
                    old_values=values[i],
                    advantages=advantages,
                    returns=returns,
                    importance=weights,
                )
            )
            # What is reported and steered is k3: like k1 unbiased, but never below zero.
            kls.append(ppo_math.answer_sums(ppo_math.kl_estimate(old[i], ref[i], "k3"), b.mask))
        return self._scaled(made), torch.cat(kls)

    def _token_rewards(
        self,
        batches: Sequence[Batch],
        rewards: Tensor,
        old: Sequence[Tensor],
        ref: Sequence[Tensor],
    ) -> list[Tensor]:
        """Rewards of tokens, [B, T-1] a micro-batch: minus the KL at each, an answer's at its last.

        Without a critic the KL is part of what the answers to a prompt are compared by, and all of
        it is at the last token: a KL without a baseline would make every answer look bad.
        """
        section = self.section
        beta = self.beta.beta if section.kl_in == "reward" else 0.0
        kls = [
            ppo_math.kl_estimate(o, r, section.kl_estimator) for o, r in zip(old, ref, strict=True)
        ]
        if not section.has_critic:
            spent = [ppo_math.answer_sums(kl, b.mask) for kl, b in zip(kls, batches, strict=True)]
            rewards = ppo_math.leave_one_out(
                rewards - beta * torch.cat(spent), section.answers_per_prompt
            )
            beta = 0.0
        return [
            ppo_math.bandit_rewards(reward, kl, b.mask, beta)
            for reward, kl, b in zip(rewards.split(section.micro_batch), kls, batches, strict=True)
        ]

    def _scaled(self, made: Sequence[Experience]) -> list[Experience]:
        """Whitened over all workers' tokens, as far as planned.

        Without a critic the mean stays: an answer like all others to its prompt has advantage 0,
        and a mean over tokens, low where long answers are bad, would make that a reason to repeat
        it.
        """
        if not self.section.whiten_advantages:
            return list(made)
        moments = sum(ppo_math.moments(e.advantages, e.batch.mask) for e in made)
        moments = all_reduce(torch.as_tensor(moments))
        shift = self.section.has_critic
        return [
            replace(e, advantages=ppo_math.whiten_with(e.advantages, e.batch.mask, moments, shift))
            for e in made
        ]

    def _updates(
        self, experience: Sequence[Experience], passes: Sequence[Pass]
    ) -> list[dict[str, float]]:
        """`epochs` passes over a rollout, or fewer where `stop_kl` ends them."""
        kept = [p for p in passes if p.logprobs.requires_grad or p.values.requires_grad]
        updates: list[dict[str, float]] = []
        for epoch in range(self.section.epochs):
            order = list(range(0, len(experience), self._accumulation))
            if epoch:
                random.Random(self.seed + epoch).shuffle(order)
            for i in order:
                updates.append(self._update(experience[i : i + self._accumulation], kept))
                kept = []
                stop = self.section.stop_kl
                if stop is not None and updates[-1]["kl_old"] > stop:
                    return updates
        return updates

    def _update(self, experience: Sequence[Experience], kept: Sequence[Pass]) -> dict[str, float]:
        """One optimizer step of actor and critic over its micro-batches.

        Args:
            kept: forward passes by the policy and critic as they are now, or none.
        """
        counts = torch.stack([e.batch.mask.sum() for e in experience])
        # DeepSpeed averages over micro-batches and workers; a mean over all tokens of the step
        # needs sums divided by their global number instead.
        scale = self.workers * len(experience) / all_reduce(counts.sum().double())
        policy, value = [], []
        for e, forward in zip_longest(experience, kept):
            logprobs, entropy = (
                (forward.logprobs, forward.entropy) if forward else self._policy(e.batch)
            )
            policy.append(self._train_actor(e, logprobs, entropy, scale))
            if self.section.has_critic:
                values = forward.values if forward else values_of(self.models.critic, e.batch)
                value.append(self._train_critic(e, values, scale))
        of_critic = critic_figures(reduce(ppo_math.join_stats, value)) if value else {}
        return {**actor_figures(reduce(ppo_math.join_stats, policy)), **of_critic}

    def _train_actor(
        self, e: Experience, logprobs: Tensor, entropy: Tensor, scale: Tensor
    ) -> ppo_math.Stats:
        section, actor, mask = self.section, self.models.actor, e.batch.mask
        loss, stats = ppo_math.policy_loss(
            logprobs, e.old_logprobs, e.advantages, mask, section.clip, e.importance
        )
        if section.kl_in == "loss":
            kl = ppo_math.kl_estimate(logprobs, e.ref_logprobs, section.kl_estimator)
            loss = loss + self.beta.beta * ppo_math.masked_sum(kl, mask)
        if self._trains_policy:
            actor.backward((loss * scale).float())
            actor.step()
        total_entropy = ppo_math.masked_sum(entropy.double(), mask)
        return {**stats, "loss": loss.detach().double(), "entropy": total_entropy}

    def _train_critic(self, e: Experience, values: Tensor, scale: Tensor) -> ppo_math.Stats:
        critic = self.models.critic
        loss, stats = ppo_math.value_loss(
            values, e.old_values, e.returns, e.batch.mask, self.section.value_clip
        )
        critic.backward((loss * scale).float())
        critic.step()
        return {**stats, "loss": loss.detach().double()}

    def held_out_figures(self, rewards: Tensor) -> dict[str, float]:
        """Mean reward [B] of this step's answers to held-out prompts, over all workers."""
        if not self.section.held_out_prompts:
            return {}
        total = [float(rewards.sum()), len(rewards)]
        sums = torch.tensor(total, dtype=torch.float64, device=self.device)
        reward, number = all_reduce(sums).tolist()
        return {"held_out_reward": reward / number}
