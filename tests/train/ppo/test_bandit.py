"""PPO's arithmetic on a KL-regularised bandit whose optimum is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rldf_ray.train.ppo import losses as ppo
from tests.train.tensors import close, f64, randn

BETA = 0.5
SCORES = f64([1.0, 0.2, -0.5, 0.8, 0.0, -1.0])
REF = torch.log_softmax(f64([-1.0, 0.5, 0.0, 0.3, 1.0, -0.5]), 0)
OPTIMUM = torch.softmax(REF + SCORES / BETA, 0)


def train_exact_bandit(kind: ppo.KLKind) -> Tensor:
    """One row per arm, weighted by its probability: the expectation without sampling."""
    mask = torch.ones(6, 1, dtype=torch.bool)
    logits = REF.clone().unsqueeze(0).requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.05)
    arms = torch.arange(6).unsqueeze(1)
    for _ in range(250):
        with torch.no_grad():
            old = ppo.token_logprobs(logits.expand(6, 1, 6), arms)
            kl = ppo.kl_estimate(old, REF.unsqueeze(1), kind)
            rewards = ppo.bandit_rewards(SCORES, kl, mask, BETA)
            values = (old.exp() * rewards).sum().expand(6, 1)
            advantages, _ = ppo.gae(rewards, values, mask, 1.0, 0.95)
        for _ in range(2):
            logprobs = ppo.token_logprobs(logits.expand(6, 1, 6), arms)
            loss, _ = ppo.policy_loss(logprobs, old, advantages, mask, 0.2, importance=old.exp())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return torch.softmax(logits.detach()[0], 0)


def distance(p: Tensor, q: Tensor) -> float:
    """Total variation."""
    return float((p - q).abs().sum() / 2)


def test_bandit_reaches_the_optimum_in_exact_expectation() -> None:
    assert distance(REF.exp(), OPTIMUM) > 0.3
    assert distance(train_exact_bandit("k1"), OPTIMUM) < 1e-4


@pytest.mark.parametrize("kind", ["k2", "k3"])
def test_other_kl_estimates_in_the_reward_miss_the_optimum(kind: ppo.KLKind) -> None:
    """Why `bandit_rewards` asks for k1: the loop is the same, only the estimate differs."""
    assert distance(train_exact_bandit(kind), OPTIMUM) > 0.02


def test_bandit_reaches_the_optimum_from_samples_with_a_learned_value() -> None:
    """The full loop: sampled arms, a critic, two epochs, two unequal micro-batches."""
    generator = torch.Generator().manual_seed(0)
    batch = 512
    mask = torch.ones(batch, 1, dtype=torch.bool)
    logits = REF.clone().unsqueeze(0).requires_grad_()
    value = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [logits], "lr": 0.5}, {"params": [value], "lr": 0.2}])
    steps, average = 400, torch.zeros(6).double()
    for step in range(steps):
        with torch.no_grad():
            probs = torch.softmax(logits[0], 0)
            arms = torch.multinomial(probs, batch, replacement=True, generator=generator)[:, None]
            old = ppo.token_logprobs(logits.expand(batch, 1, 6), arms)
            kl = ppo.kl_estimate(old, REF[arms], "k1")
            rewards = ppo.bandit_rewards(SCORES[arms[:, 0]], kl, mask, BETA)
            old_values = value.expand(batch, 1).clone()
            advantages, returns = ppo.gae(rewards, old_values, mask, 1.0, 0.95)
        for _ in range(2):
            optimizer.zero_grad()
            for rows in (slice(0, 100), slice(100, batch)):
                logprobs = ppo.token_logprobs(logits.expand(batch, 1, 6), arms)[rows]
                policy, _ = ppo.policy_loss(
                    logprobs, old[rows], advantages[rows], mask[rows], clip=0.2
                )
                critic, _ = ppo.value_loss(
                    value.expand(batch, 1)[rows], old_values[rows], returns[rows], mask[rows], 0.2
                )
                ((policy + critic) / batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if step >= steps // 2:
            average += torch.softmax(logits.detach()[0], 0) / (steps - steps // 2)
    assert distance(average, OPTIMUM) < 0.01
    # At the optimum the value is the soft maximum: beta * log sum pi_ref exp(score / beta).
    soft = BETA * float(torch.logsumexp(REF + SCORES / BETA, 0))
    assert value.item() == pytest.approx(soft, abs=0.05)


def test_leave_one_out_by_hand() -> None:
    rewards = f64([1.0, 2.0, 6.0, 5.0, 5.0, 5.0])
    close(ppo.leave_one_out(rewards, 3), f64([1 - 4, 2 - 3.5, 6 - 1.5, 0, 0, 0]))


def test_leave_one_out_gives_the_gradient_without_a_baseline_on_average() -> None:
    """All pairs of arms, each with its probability: exact, so no room for a biased baseline."""
    logits = REF.clone().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    (plain,) = torch.autograd.grad((logp.exp() * SCORES).sum(), logits, retain_graph=True)
    first, second = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    arms = torch.stack([first.flatten(), second.flatten()], 1)
    advantages = ppo.leave_one_out(SCORES[arms].flatten(), 2).reshape(-1, 2)
    chance = logp.detach()[arms].sum(1).exp()
    surrogate = (chance * (advantages * logp[arms]).mean(1)).sum()
    (found,) = torch.autograd.grad(surrogate, logits)
    close(found, plain)


def test_two_token_answers_with_a_gap_reach_the_optimum_over_sequences() -> None:
    """Per-token KL, one score at the end, lambda 1, and a token in between that is not ours."""
    n = 3
    first = torch.arange(n).repeat_interleave(n)
    second = torch.arange(n).repeat(n)
    score = randn(n * n, seed=11)
    ids = torch.stack([first, torch.zeros_like(first), second], 1)
    mask = torch.tensor([[True, False, True]]).expand(n * n, 3)
    ref_first, ref_second = randn(1, n, seed=12), randn(n, n, seed=13)

    def logprobs_of(head: Tensor, tail: Tensor) -> Tensor:
        logits = torch.stack(
            [head[0].expand(n * n, n), torch.full((n * n, n), 7.0), tail[first]], 1
        )
        return ppo.token_logprobs(logits, ids)

    ref = logprobs_of(ref_first, ref_second)
    optimum = torch.softmax(torch.where(mask, ref, 0.0).sum(1) + score / BETA, 0)
    head, tail = ref_first.clone().requires_grad_(), ref_second.clone().requires_grad_()
    optimizer = torch.optim.Adam([head, tail], lr=0.05)
    for _ in range(400):
        with torch.no_grad():
            old = logprobs_of(head, tail)
            weight = torch.where(mask, old, 0.0).sum(1, keepdim=True).exp().expand(-1, 3)
            rewards = ppo.bandit_rewards(score, ppo.kl_estimate(old, ref, "k1"), mask, BETA)
            advantages, _ = ppo.gae(rewards, torch.zeros_like(rewards), mask, 1.0, 1.0)
        loss, _ = ppo.policy_loss(logprobs_of(head, tail), old, advantages, mask, 0.2, weight)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    final = torch.where(mask, logprobs_of(head, tail).detach(), 0.0).sum(1).exp()
    assert distance(torch.where(mask, ref, 0.0).sum(1).exp(), optimum) > 0.1
    assert distance(final, optimum) < 1e-3
