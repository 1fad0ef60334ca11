"""Tensor arithmetic of PPO for language models: no I/O, no workers.

State is kept by `AdaptiveKL` and `RewardScale` alone.

Per-token tensors are [B, T] over response tokens; `mask` bool [B, T] is True on the tokens the
policy chose and may have gaps. What a masked position holds, even NaN, reaches no result and no
gradient. `bandit_rewards` and `gae` need one response per row; all else takes any packing and
shape. Results are float32, or float64 where an input is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

KLKind = Literal["k1", "k2", "k3"]
Stats = dict[str, Tensor]
# exp() saturates at e^20: an overflow to inf would turn `inf * 0` into NaN for the whole batch.
MAX_LOG_RATIO = 20.0


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _check(mask: Tensor, *tensors: Tensor) -> None:
    # A mask that merely broadcasts would give right sums with a wrong token count.
    if mask.dtype != torch.bool or any(x.shape != mask.shape for x in tensors):
        raise ValueError(f"mask {mask.dtype} {mask.shape}, tensors {[x.shape for x in tensors]}")


def _zero_masked(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, torch.zeros_like(x))


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    logits = _wide(logits)
    return torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)


def token_logprobs(logits: Tensor, ids: Tensor, temperature: float = 1.0) -> Tensor:
    """log softmax(logits / temperature) at `ids`, int64 in [0, V): [B, T, V], [B, T] -> [B, T]."""
    return _log_softmax(logits, temperature).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of softmax(logits / temperature): [B, T, V] -> [B, T]."""
    logp = _log_softmax(logits, temperature)
    # For a logit of -inf, 0 * -inf is NaN and so is its gradient; the clamp makes both 0.
    return -(logp.exp() * logp.clamp(min=torch.finfo(logp.dtype).min)).sum(-1)


def masked_sum(x: Tensor, mask: Tensor) -> Tensor:
    """Sum of x over the True positions of mask: [B, T] -> []."""
    _check(mask, x)
    return _zero_masked(_wide(x), mask).sum()


def answer_sums(x: Tensor, mask: Tensor) -> Tensor:
    """Sum over every row's unmasked positions, [B, T] -> [B]; what is masked reaches nothing."""
    _check(mask, x)
    return _zero_masked(_wide(x), mask).sum(1)


def moments(x: Tensor, mask: Tensor) -> Tensor:
    """Detached float64 [3] (sum, sum of squares, count) of x over mask; workers' moments add up."""
    _check(mask, x)
    # float64 because the variance is the difference of two nearly equal sums.
    kept = _zero_masked(x.detach().double(), mask)
    return torch.stack([kept.sum(), kept.square().sum(), mask.sum().double()])


def mean_and_variance(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population variance, float64 [] each, from the float64 [3] of `moments`."""
    mean, mean_square = (moments[:2] / moments[2].clamp(min=1)).unbind()
    variance = mean_square - mean.square()
    # Below this the difference is rounding, and a constant x must have a variance of exactly 0.
    return mean, torch.where(variance > 1e-13 * mean_square, variance, torch.zeros_like(variance))


def whiten_with(x: Tensor, mask: Tensor, moments: Tensor, shift_mean: bool = True) -> Tensor:
    """x [B, T] scaled to variance 1 by given (global) `moments`, 0 where masked.

    shift_mean=False keeps 0 where it is: x has mean square 1, and its signs are those it had.
    """
    _check(mask, x)
    mean, variance = mean_and_variance(moments)
    if not shift_mean:
        mean, variance = torch.zeros_like(mean), variance + mean.square()
    white = (x.double() - mean) * torch.rsqrt(variance + 1e-8)
    return _zero_masked(white, mask).to(_wide(x).dtype)


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, kind: KLKind) -> Tensor:
    """Per-token estimate of KL(policy || ref) at tokens drawn from the policy: [B, T] -> [B, T].

    Schulman, "Approximating KL Divergence" (2020), with r = ref / policy: k1 = -log r and
    k3 = r - 1 - log r >= 0 are unbiased, k2 = (log r)^2 / 2 is not.
    """
    log_r = _wide(ref_logprobs) - _wide(logprobs)
    if kind == "k1":
        return -log_r
    if kind == "k2":
        return 0.5 * log_r.square()
    if kind == "k3":
        # The outer clamp guards against an expm1 that is not correctly rounded on some device.
        return (torch.expm1(log_r.clamp(max=MAX_LOG_RATIO)) - log_r).clamp(min=0)
    raise ValueError(f"unknown KL estimate {kind!r}")


def leave_one_out(rewards: Tensor, answers: int) -> Tensor:
    """Rewards less the mean reward of the other answers to their prompt: [B] -> [B], detached.

    Kool et al. 2019 and Ahmadian et al. 2024 (arXiv:2402.14740), section 2.2: what a prompt is
    worth drops out, and as an answer is no part of its own baseline, no gradient is biased.

    Args:
        rewards: those of the `answers` (at least 2) to a prompt stand one after the other.
    """
    by_prompt = _wide(rewards.detach()).reshape(-1, answers)
    others = (by_prompt.sum(1, keepdim=True) - by_prompt) / (answers - 1)
    return (by_prompt - others).flatten()


def bandit_rewards(score: Tensor, kl: Tensor, mask: Tensor, beta: float) -> Tensor:
    """-beta * kl on every response token, plus score [B] on the last of each row: -> [B, T].

    Ziegler et al. 2019 (arXiv:1909.08593), eq. 2. Detached, 0 where masked. Give it k1: a reward
    is not differentiated, and k2 or k3 would move the optimum off pi_ref * exp(score / beta).
    """
    _check(mask, kl)
    _check(mask.any(1), score)
    # Counted from the right, the last unmasked token is 1; masked ones behind it are 0, and masked
    # ones before it are zeroed below.
    is_last = mask.flip(1).cumsum(1).flip(1) == 1
    at_last = torch.where(is_last, _wide(score.detach()).unsqueeze(1), 0.0)
    return _zero_masked(at_last - beta * _wide(kl.detach()), mask)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and returns (advantage + value), both [B, T], detached.

    Schulman et al. 2016 (arXiv:1506.02438), eq. 11 and 16, value 0 after the last token. Unmasked
    tokens get the result of the row with its masked tokens removed; masked positions become 0.
    """
    _check(mask, rewards, values)
    rewards, values = _wide(rewards.detach()), _wide(values.detach())
    advantages = torch.zeros_like(rewards + values)
    next_value = next_advantage = advantages.new_zeros(mask.shape[0])
    for t in reversed(range(mask.shape[1])):
        here = mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        # Over a gap both carries pass unchanged: its neighbours become adjacent.
        next_advantage = torch.where(here, delta + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(here, values[:, t], next_value)
        advantages[:, t] = torch.where(here, next_advantage, 0.0)
    return advantages, _zero_masked(advantages + values, mask)


def importance_weights(
    trainer_logprobs: Tensor, engine_logprobs: Tensor, mask: Tensor, cap: float
) -> Tensor:
    """min(exp(trainer - engine), cap) [B, T], detached; 1 where masked (Ionides 2008)."""
    _check(mask, trainer_logprobs, engine_logprobs)
    log_weight = _wide(trainer_logprobs.detach()) - _wide(engine_logprobs.detach())
    return torch.where(mask, log_weight.exp().clamp(max=cap), 1.0)


def _token_sums(mask: Tensor, **terms: Tensor) -> Stats:
    return {k: masked_sum(x.detach().double(), mask) for k, x in ({"tokens": mask} | terms).items()}


def join_stats(a: Stats, b: Stats) -> Stats:
    """Statistics of two micro-batches or workers taken together: maximum of `*_max`, else sum."""
    return {k: torch.maximum(a[k], b[k]) if k.endswith("_max") else a[k] + b[k] for k in a}


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: float,
    importance: Tensor | None = None,
) -> tuple[Tensor, Stats]:
    """Clipped surrogate, Schulman et al. 2017 (arXiv:1707.06347) eq. 7, negated: a SUM over tokens.

    All tensors [B, T]; loss [] differentiable in logprobs only, each token's term multiplied by
    `importance`. Divided by the token count of the whole optimizer step, it does not depend on
    micro-batches or shards. Stats (detached float64 [] sums over tokens): `clipped` counts those
    whose gradient the clip removed, `kl_k1` and `kl_k3` estimate KL(old || new).
    """
    weight = torch.ones_like(advantages) if importance is None else importance
    _check(mask, logprobs, old_logprobs, advantages, weight)
    advantages = _wide(advantages.detach())
    log_ratio = _zero_masked(_wide(logprobs) - _wide(old_logprobs.detach()), mask)
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    plain, clipped = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    loss = -masked_sum(torch.minimum(plain, clipped) * _wide(weight.detach()), mask)
    # The tokens are the old policy's, so old takes the policy's place and new the reference's.
    k3 = kl_estimate(torch.zeros_like(log_ratio), log_ratio, "k3")
    stats = _token_sums(mask, clipped=clipped < plain, kl_k1=-log_ratio, kl_k3=k3, ratio=ratio)
    # A ratio is above 0, so a 0 can stand for "no token".
    kept = _zero_masked(ratio.detach().double(), mask).flatten()
    stats["ratio_max"] = torch.cat([kept, kept.new_zeros(1)]).max()
    return loss, stats


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float
) -> tuple[Tensor, Stats]:
    """SUM over tokens of max((v - R)^2, (clip(v, old - clip, old + clip) - R)^2) / 2.

    From OpenAI baselines (ppo2). All tensors [B, T]; loss [] differentiable in values only. Stats
    as in `policy_loss`; `squared_error` is unclipped and lacks the 1/2.
    """
    _check(mask, values, old_values, returns)
    # Before any arithmetic: 0 * NaN in the backward pass would let a masked NaN reach a gradient.
    values = _zero_masked(_wide(values), mask)
    old, target = _wide(old_values.detach()), _wide(returns.detach())
    plain = (values - target).square()
    clipped = (torch.clamp(values, old - clip, old + clip) - target).square()
    stats = _token_sums(mask, clipped=clipped > plain, squared_error=plain)
    return 0.5 * masked_sum(torch.maximum(plain, clipped), mask), stats


def explained_moments(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Moments of returns - values and of returns, float64 [2, 3]; workers' add up."""
    _check(mask, values, returns)
    residual = returns.double() - values.double()
    return torch.stack([moments(residual, mask), moments(returns, mask)])


def explained_share(residual_moments: Tensor, return_moments: Tensor) -> Tensor:
    """Share of returns that values explain, from the rows of `explained_moments`: float64 [].

    1 - Var[returns - values] / Var[returns]; NaN where all returns are equal.
    """
    _, residual = mean_and_variance(residual_moments)
    _, spread = mean_and_variance(return_moments)
    return torch.where(spread > 0, 1 - residual / spread, torch.nan)


@dataclass
class RewardScale:
    """Divides rewards by the standard deviation of all seen so far, keeping their mean's sign.

    Engstrom et al. 2020 (arXiv:2005.12729), appendix A.2. Like theirs it does not centre: a shift
    of a bandit's reward changes no advantage that a critic can learn.
    """

    seen: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def update(self, moments: Tensor) -> None:
        """Add the `moments` of a rollout's rewards, over all workers."""
        before = torch.tensor(self.seen, dtype=torch.float64)
        total, squares, count = (before + moments.cpu()).tolist()
        self.seen = (total, squares, count)

    def __call__(self, rewards: Tensor) -> Tensor:
        """Rewards [B] in units of that deviation; as they are while it is 0."""
        _, variance = mean_and_variance(torch.tensor(self.seen, dtype=torch.float64))
        return rewards / float(variance.sqrt()) if variance > 0 else rewards

    def state_dict(self) -> dict[str, list[float]]:
        return {"seen": list(self.seen)}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        total, squares, count = state["seen"]
        self.seen = (total, squares, count)


@dataclass
class AdaptiveKL:
    """KL coefficient steered to `target` nats per response (Ziegler et al. 2019, section 2.2).

    beta *= 1 + clip(kl / target - 1, -clip, clip) * n_steps / horizon; fixed if horizon is None.
    """

    beta: float
    target: float = 6.0
    horizon: float | None = None
    clip: float = 0.2

    def update(self, observed_kl: float, n_steps: int) -> float:
        """The new beta, after `n_steps` episodes with mean KL `observed_kl`."""
        if self.horizon is not None:
            error = min(max(observed_kl / self.target - 1, -self.clip), self.clip)
            factor = 1 + error * n_steps / self.horizon
            if not (factor > 0 and abs(observed_kl) < float("inf")):
                raise ValueError(f"KL {observed_kl} over {n_steps} steps, horizon {self.horizon}")
            self.beta *= factor
        return self.beta

    def state_dict(self) -> dict[str, float]:
        """What `update` changes; target, horizon and clip belong to the configuration."""
        return {"beta": self.beta}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take over the beta of a `state_dict`."""
        self.beta = float(state["beta"])
