"""PPO arithmetic against plain Python loops, and against a problem whose optimum is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rldf_ray.train import ppo_math as ppo

Row = list[float]
KINDS: list[ppo.KLKind] = ["k1", "k2", "k3"]
quick = settings(max_examples=60, deadline=None)


def randn(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def f64(values: object) -> Tensor:
    """Not torch.tensor(...).double(), which rounds to float32 on the way."""
    return torch.as_tensor(values, dtype=torch.float64)


def close(a: Tensor, b: object, tol: float = 1e-12) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), rtol=tol, atol=tol)


@st.composite
def masks(draw: st.DrawFn, max_rows: int = 4, max_len: int = 9) -> Tensor:
    """Any bool mask: gaps, all-False rows, leading holes, no columns."""
    rows, length = draw(st.integers(1, max_rows)), draw(st.integers(0, max_len))
    flat = draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length))
    return torch.tensor(flat, dtype=torch.bool).reshape(rows, length)


def picked(x: Tensor, mask: Tensor) -> Row:
    """The unmasked entries, row after row."""
    rows = zip(x.tolist(), mask.tolist(), strict=True)
    return [v for row, keep in rows for v, k in zip(row, keep, strict=True) if k]


def poison(x: Tensor, mask: Tensor, value: float = math.nan) -> Tensor:
    return torch.where(mask, x, value)


seeds = st.integers(0, 2**31)
GAPPY = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()


# --- log-probabilities, entropy ---


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_token_logprobs_and_entropy_match_loops(temperature: float) -> None:
    logits, ids = randn(2, 3, 5, seed=0, scale=3.0), torch.tensor([[0, 4, 2], [1, 1, 3]])
    logprobs = ppo.token_logprobs(logits, ids, temperature)
    entropy = ppo.token_entropy(logits, temperature)
    for b in range(2):
        for t in range(3):
            weights = [math.exp(z / temperature) for z in logits[b, t].tolist()]
            probs = [w / sum(weights) for w in weights]
            close(logprobs[b, t], math.log(probs[int(ids[b, t])]))
            close(entropy[b, t], -sum(p * math.log(p) for p in probs))


def test_logprobs_are_float32_unless_float64_and_survive_large_logits() -> None:
    ids = torch.tensor([[1, 0]])
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        logits = torch.tensor([[[0.0, 0.0], [3e4, -3e4]]], dtype=dtype)
        assert ppo.token_logprobs(logits, ids).dtype == torch.float32
        assert ppo.token_entropy(logits).dtype == torch.float32
        close(ppo.token_logprobs(logits, ids), [[-math.log(2), 0.0]], 1e-6)
    assert ppo.token_logprobs(randn(1, 2, 2, seed=0), ids).dtype == torch.float64


def test_entropy_and_its_gradient_with_ruled_out_tokens() -> None:
    logits = torch.tensor([[[0.0, 1.0, -math.inf]]], dtype=torch.float64, requires_grad=True)
    entropy = ppo.token_entropy(logits)
    (grad,) = torch.autograd.grad(entropy.sum(), logits)
    small = logits.detach()[..., :2].requires_grad_()
    close(entropy.detach(), ppo.token_entropy(small).detach())
    (small_grad,) = torch.autograd.grad(ppo.token_entropy(small).sum(), small)
    close(grad, torch.cat([small_grad, torch.zeros(1, 1, 1, dtype=torch.float64)], -1))


# --- masked reductions, whitening ---


@quick
@given(masks(), seeds)
def test_masked_reductions_and_moments(mask: Tensor, seed: int) -> None:
    x = randn(*mask.shape, seed=seed)
    kept, x = picked(x, mask), poison(x, mask)
    close(ppo.masked_sum(x, mask), math.fsum(kept))
    close(ppo.masked_mean(x, mask), math.fsum(kept) / max(len(kept), 1))
    close(ppo.moments(x, mask), [math.fsum(kept), math.fsum(v * v for v in kept), len(kept)])
    mean, variance = ppo.mean_and_variance(ppo.moments(x, mask))
    centre = math.fsum(kept) / max(len(kept), 1)
    close(mean, centre)
    close(variance, math.fsum((v - centre) ** 2 for v in kept) / max(len(kept), 1))


def test_sums_are_taken_in_at_least_float32() -> None:
    x = torch.ones(1, 4096, dtype=torch.bfloat16)
    total = ppo.masked_sum(x, torch.ones_like(x, dtype=torch.bool))
    assert total.dtype == torch.float32 and total.item() == 4096


@quick
@given(masks(), seeds, st.booleans())
def test_whitening_matches_loop(mask: Tensor, seed: int, shift_mean: bool) -> None:
    x = 3 + randn(*mask.shape, seed=seed, scale=2.0)
    kept = picked(x, mask)
    white = ppo.masked_whiten(poison(x, mask), mask, shift_mean)
    assert bool((white[~mask] == 0).all())
    if len(kept) > 1:
        mean = math.fsum(kept) / len(kept) if shift_mean else 0.0
        variance = math.fsum((v - mean) ** 2 for v in kept) / len(kept)
        want = [(v - mean) / math.sqrt(variance + 1e-8) for v in kept]
        close(white[mask], want, 1e-7)


@quick
@given(masks(max_rows=6), st.integers(0, 6), seeds)
def test_whitening_over_workers_equals_whole_batch(mask: Tensor, cut: int, seed: int) -> None:
    x = randn(*mask.shape, seed=seed)
    shards = [(x[:cut], mask[:cut]), (x[cut:], mask[cut:])]
    total = ppo.moments(*shards[0]) + ppo.moments(*shards[1])
    parts = [ppo.whiten_with(a, m, total) for a, m in shards]
    close(torch.cat(parts), ppo.masked_whiten(x, mask), 1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1234.567])
def test_whitening_a_constant_gives_zero_not_noise(dtype: torch.dtype, value: float) -> None:
    x = torch.full((3, 6), value, dtype=dtype)
    white = ppo.masked_whiten(x, GAPPY)
    assert white.dtype == (dtype if dtype == torch.float64 else torch.float32)
    assert float(white.abs().max()) < 1e-6


def test_float32_moments_do_not_cancel() -> None:
    x = (1000 + randn(1, 10_000, seed=1, scale=1e-2)).float()
    mask = torch.ones_like(x, dtype=torch.bool)
    _, variance = ppo.mean_and_variance(ppo.moments(x, mask))
    close(variance, x.double().var(correction=0), 1e-6)


# --- KL estimates ---


@quick
@given(st.floats(-15, 0), st.floats(-15, 0))
def test_kl_estimates_match_definition(logp: float, ref: float) -> None:
    a, b = f64([[logp]]), f64([[ref]])
    ratio = math.exp(ref - logp)
    close(ppo.kl_estimate(a, b, "k1"), [[logp - ref]])
    close(ppo.kl_estimate(a, b, "k2"), [[(logp - ref) ** 2 / 2]])
    close(ppo.kl_estimate(a, b, "k3"), [[ratio - 1 - (ref - logp)]], 1e-9)


@quick
@given(st.lists(st.tuples(st.floats(-200, 0), st.floats(-1e-3, 1e-3)), min_size=1), st.booleans())
def test_k3_is_finite_and_never_negative(pairs: list[tuple[float, float]], far: bool) -> None:
    a = torch.tensor([[p for p, _ in pairs]])
    b = torch.zeros_like(a) if far else a + torch.tensor([[d for _, d in pairs]])
    k3 = ppo.kl_estimate(a, b, "k3")
    assert bool(torch.isfinite(k3).all()) and bool((k3 >= 0).all())
    assert bool((ppo.kl_estimate(a, a, "k3") == 0).all())


def test_k1_and_k3_are_unbiased() -> None:
    p, q = torch.softmax(randn(7, seed=2), 0), torch.softmax(randn(7, seed=3), 0)
    exact = sum(a * math.log(a / b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    for kind in ("k1", "k3"):
        close((p * ppo.kl_estimate(p.log(), q.log(), kind)).sum(), exact)


def test_unknown_kl_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="k4"):
        ppo.kl_estimate(torch.zeros(1, 1), torch.zeros(1, 1), "k4")  # type: ignore[arg-type]


# --- rewards, GAE ---


@quick
@given(masks(), seeds, st.floats(0, 2))
def test_bandit_rewards_match_loop(mask: Tensor, seed: int, beta: float) -> None:
    score, kl = randn(mask.shape[0], seed=seed), randn(*mask.shape, seed=seed + 1)
    want = torch.zeros_like(kl)
    for b in range(mask.shape[0]):
        places = [t for t in range(mask.shape[1]) if mask[b, t]]
        for t in places:
            want[b, t] = -beta * kl[b, t] + (score[b] if t == places[-1] else 0.0)
    close(ppo.bandit_rewards(score, poison(kl, mask), mask, beta), want)


def gae_of_row(rewards: Row, values: Row, gamma: float, lam: float) -> Row:
    """Equation 16 of Schulman et al. 2016 as the double sum that it is."""
    n, v = len(rewards), [*values, 0.0]
    delta = [rewards[t] + gamma * v[t + 1] - v[t] for t in range(n)]
    return [sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, n)) for t in range(n)]


@quick
@given(masks(), seeds, st.floats(0, 1), st.floats(0, 1))
def test_gae_with_gaps_is_gae_of_the_compressed_row(
    mask: Tensor, seed: int, gamma: float, lam: float
) -> None:
    rewards, values = randn(*mask.shape, seed=seed), randn(*mask.shape, seed=seed + 1)
    dirty = poison(rewards, mask), poison(values, mask)
    advantages, returns = ppo.gae(*dirty, mask, gamma, lam)
    assert bool((advantages[~mask] == 0).all()) and bool((returns[~mask] == 0).all())
    for b in range(mask.shape[0]):
        keep = mask[b]
        want = gae_of_row(rewards[b, keep].tolist(), values[b, keep].tolist(), gamma, lam)
        close(advantages[b, keep], want)
        close(returns[b, keep], f64(want) + values[b, keep])


def test_gae_gap_neither_discounts_nor_breaks_the_chain() -> None:
    mask = torch.tensor([[True, False, False, True]])
    rewards = torch.tensor([[0.0, 9.0, 9.0, 1.0]])
    advantages, _ = ppo.gae(rewards, torch.zeros(1, 4), mask, gamma=0.5, lam=1.0)
    assert advantages.tolist() == [[0.5, 0.0, 0.0, 1.0]]


def test_gae_with_lambda_one_is_return_to_go_and_lambda_zero_is_td() -> None:
    rewards, values = randn(2, 5, seed=4), randn(2, 5, seed=5)
    mask = torch.ones(2, 5, dtype=torch.bool)
    to_go = rewards.flip(1).cumsum(1).flip(1)
    close(ppo.gae(rewards, values, mask, 1.0, 1.0)[1], to_go)
    ahead = torch.cat([values[:, 1:], torch.zeros(2, 1).double()], 1)
    close(ppo.gae(rewards, values, mask, 0.9, 0.0)[0], rewards + 0.9 * ahead - values)


def test_targets_carry_no_gradient() -> None:
    values, kl = randn(3, 6, seed=6).requires_grad_(), randn(3, 6, seed=7).requires_grad_()
    rewards = ppo.bandit_rewards(kl.sum(1), kl, GAPPY, 0.1)
    weights = ppo.importance_weights(kl, values, GAPPY, 2.0)
    tensors = [rewards, weights, *ppo.gae(kl, values, GAPPY, 1.0, 0.9), ppo.moments(kl, GAPPY)]
    assert not any(x.requires_grad for x in tensors)


@quick
@given(masks(), seeds, st.floats(0.5, 3))
def test_importance_weights_match_loop(mask: Tensor, seed: int, cap: float) -> None:
    a, b = randn(*mask.shape, seed=seed), randn(*mask.shape, seed=seed + 1)
    weights = ppo.importance_weights(poison(a, mask), poison(b, mask), mask, cap)
    pairs = zip(picked(a, mask), picked(b, mask), strict=True)
    close(weights[mask], [min(math.exp(p - q), cap) for p, q in pairs])
    assert bool((weights[~mask] == 1).all())
    far = torch.full(mask.shape, 1e4)
    assert bool(torch.isfinite(ppo.importance_weights(far, -far, mask, cap)).all())


# --- losses ---


def policy_batch(mask: Tensor, seed: int) -> dict[str, Tensor]:
    old = randn(*mask.shape, seed=seed) - 2
    return {
        "logprobs": old + randn(*mask.shape, seed=seed + 1, scale=0.3),
        "old_logprobs": old,
        "advantages": randn(*mask.shape, seed=seed + 2),
        "mask": mask,
        "importance": randn(*mask.shape, seed=seed + 3).exp(),
    }


def value_batch(mask: Tensor, seed: int) -> dict[str, Tensor]:
    old = randn(*mask.shape, seed=seed)
    values = old + randn(*mask.shape, seed=seed + 1, scale=0.4)
    return {
        "values": values,
        "old_values": old,
        "returns": randn(*mask.shape, seed=seed + 2),
        "mask": mask,
    }


def value_and_grad(
    loss: Callable[..., tuple[Tensor, ppo.Stats]], batch: dict[str, Tensor], clip: float
) -> tuple[Tensor, Tensor, ppo.Stats]:
    """Loss, gradient with respect to the first tensor of the batch, statistics."""
    name = next(iter(batch))
    leaf = batch[name].detach().clone().requires_grad_()
    total, stats = loss(**{**batch, name: leaf}, clip=clip)
    (grad,) = torch.autograd.grad(total, leaf)
    return total.detach(), grad, stats


@quick
@given(masks(), seeds, st.floats(0, 0.5))
def test_policy_loss_matches_loop(mask: Tensor, seed: int, clip: float) -> None:
    batch = policy_batch(mask, seed)
    columns = [picked(batch[k], mask) for k in batch if k != "mask"]
    loss = clipped = k1 = k3 = ratio_sum = ratio_max = 0.0
    want = []
    for new, old, advantage, weight in zip(*columns, strict=True):
        ratio = math.exp(new - old)
        plain = ratio * advantage
        bound = min(max(ratio, 1 - clip), 1 + clip) * advantage
        loss -= min(plain, bound) * weight
        clipped += bound < plain
        k1 += old - new
        k3 += ratio - 1 - (new - old)
        ratio_sum += ratio
        ratio_max = max(ratio_max, ratio)
        want.append(0.0 if bound < plain else -ratio * advantage * weight)
    dirty = {k: v if k == "mask" else poison(v, mask) for k, v in batch.items()}
    total, grad, stats = value_and_grad(ppo.policy_loss, dirty, clip)
    close(total, loss, 1e-11)
    close(grad[mask], want)
    assert bool((grad[~mask] == 0).all())
    found = [stats[k] for k in ("tokens", "clipped", "kl_k1", "kl_k3", "ratio", "ratio_max")]
    close(torch.stack(found), [len(want), clipped, k1, k3, ratio_sum, ratio_max], 1e-11)
    assert not any(x.requires_grad for x in stats.values())


@quick
@given(masks(), seeds, st.floats(0, 1))
def test_value_loss_matches_loop(mask: Tensor, seed: int, clip: float) -> None:
    batch = value_batch(mask, seed)
    columns = [picked(batch[k], mask) for k in batch if k != "mask"]
    loss = clipped = squared = 0.0
    want = []
    for value, old, target in zip(*columns, strict=True):
        near = min(max(value, old - clip), old + clip)
        plain, bound = (value - target) ** 2, (near - target) ** 2
        loss += max(plain, bound) / 2
        clipped += bound > plain
        squared += plain
        want.append(0.0 if bound > plain else value - target)
    dirty = {k: v if k == "mask" else poison(v, mask) for k, v in batch.items()}
    total, grad, stats = value_and_grad(ppo.value_loss, dirty, clip)
    close(total, loss, 1e-11)
    close(grad[mask], want)
    assert bool((grad[~mask] == 0).all())
    found = [stats[k] for k in ("tokens", "clipped", "squared_error")]
    close(torch.stack(found), [len(want), clipped, squared], 1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_logprobs_give_ratio_one_and_no_kl_exactly(dtype: torch.dtype) -> None:
    logprobs = randn(3, 6, seed=8, scale=9.0).to(dtype)
    advantages = randn(3, 6, seed=9).to(dtype)
    loss, stats = ppo.policy_loss(logprobs, logprobs.clone(), advantages, GAPPY, clip=0.2)
    assert loss == -ppo.masked_sum(advantages, GAPPY)
    assert stats["ratio"] == stats["tokens"] == 6 and stats["ratio_max"] == 1
    assert stats["kl_k1"] == stats["kl_k3"] == stats["clipped"] == 0


def test_all_four_clip_cases_and_gradient_signs() -> None:
    """Only a ratio past the bound on the side that the advantage pushes towards is clipped."""
    mask = torch.ones(1, 6, dtype=torch.bool)
    ratio = f64([[1.5, 1.5, 0.5, 0.5, 1.1, 0.9]])
    advantages = f64([[2.0, -2.0, 2.0, -2.0, 2.0, -2.0]])
    batch = {
        "logprobs": ratio.log(),
        "old_logprobs": torch.zeros_like(ratio),
        "advantages": advantages,
        "mask": mask,
    }
    total, grad, stats = value_and_grad(ppo.policy_loss, batch, 0.2)
    surrogate = [1.2 * 2, -1.5 * 2, 0.5 * 2, -0.8 * 2, 1.1 * 2, -0.9 * 2]
    close(total, -sum(surrogate))
    # Descent on the loss raises the log-probability where the advantage is positive.
    close(grad, [[0.0, 3.0, -1.0, 0.0, -2.2, 1.8]])
    assert stats["clipped"] == 2
    _, unclipped_grad, unclipped = value_and_grad(ppo.policy_loss, batch, math.inf)
    close(unclipped_grad, -ratio * advantages)
    assert unclipped["clipped"] == 0


def test_value_clip_cases_and_gradient_signs() -> None:
    # inside the range; beyond it away from the target; beyond it towards the target; below it
    batch = {
        "values": f64([[0.1, 1.0, 1.0, -1.0]]),
        "old_values": torch.zeros(1, 4).double(),
        "returns": f64([[1.0, -1.0, 1.5, -1.5]]),
        "mask": torch.ones(1, 4, dtype=torch.bool),
    }
    total, grad, stats = value_and_grad(ppo.value_loss, batch, 0.2)
    close(total, (0.9**2 + 2.0**2 + 1.3**2 + 1.3**2) / 2)
    close(grad, [[-0.9, 2.0, 0.0, 0.0]])
    assert stats["clipped"] == 2
    _, free, _ = value_and_grad(ppo.value_loss, batch, math.inf)
    close(free, batch["values"] - batch["returns"])


@quick
@given(masks(max_rows=5), seeds, st.data())
def test_loss_gradient_and_stats_are_those_of_any_sharding(
    mask: Tensor, seed: int, data: st.DataObject
) -> None:
    """Every token dealt to one of three micro-batches: dropped from the mask, or packed in 1-D."""
    count = mask.numel()
    owners = st.lists(st.integers(0, 2), min_size=count, max_size=count)
    owner = torch.tensor(data.draw(owners), dtype=torch.long).reshape(mask.shape)
    for loss, batch in (
        (ppo.policy_loss, policy_batch(mask, seed)),
        (ppo.value_loss, value_batch(mask, seed)),
    ):
        whole, whole_grad, whole_stats = value_and_grad(loss, batch, 0.2)
        masked, packed = [], []
        for part in range(3):
            masked.append(value_and_grad(loss, {**batch, "mask": mask & (owner == part)}, 0.2))
            flat = {k: v[owner == part] for k, v in batch.items()}
            packed.append(value_and_grad(loss, flat, 0.2))
        for shards in (masked, packed):
            close(torch.stack([total for total, _, _ in shards]).sum(), whole)
            stats = ppo.join_stats(ppo.join_stats(shards[0][2], shards[1][2]), shards[2][2])
            assert stats.keys() == whole_stats.keys()
            for name, value in whole_stats.items():
                close(stats[name], value)
        close(torch.stack([grad for _, grad, _ in masked]).sum(0), whole_grad)
        scattered = torch.zeros_like(whole_grad)
        for part in range(3):
            scattered[owner == part] = packed[part][1]
        close(scattered, whole_grad)


def test_policy_loss_stays_finite_for_an_absurd_ratio() -> None:
    logprobs = torch.tensor([[0.0, -500.0, 0.0]], requires_grad=True)
    old = torch.tensor([[-500.0, 0.0, -500.0]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    loss, _ = ppo.policy_loss(logprobs, old, torch.tensor([[-1.0, 1.0, 0.0]]), mask, 0.2)
    (grad,) = torch.autograd.grad(loss, logprobs)
    assert bool(torch.isfinite(loss)) and bool(torch.isfinite(grad).all())


def test_gradient_reaches_only_the_first_argument() -> None:
    for loss, batch in (
        (ppo.policy_loss, policy_batch(GAPPY, 1)),
        (ppo.value_loss, value_batch(GAPPY, 1)),
    ):
        leaves = {k: v if k == "mask" else v.requires_grad_() for k, v in batch.items()}
        total, _ = loss(**leaves, clip=0.2)
        total.backward()  # type: ignore[no-untyped-call]
        names = [k for k, v in leaves.items() if v.grad is not None]
        assert names == [next(iter(batch))]


def test_mask_of_wrong_shape_or_type_is_refused() -> None:
    x = torch.zeros(2, 3)
    for mask in (torch.ones(2, 1).bool(), torch.ones(2, 3), torch.ones(2, 3).long()):
        for call in (
            lambda m: ppo.masked_mean(x, m),
            lambda m: ppo.moments(x, m),
            lambda m: ppo.gae(x, x, m, 1.0, 1.0),
            lambda m: ppo.policy_loss(x, x, x, m, 0.2),
            lambda m: ppo.value_loss(x, x, x, m, 0.2),
            lambda m: ppo.importance_weights(x, x, m, 2.0),
        ):
            with pytest.raises(ValueError, match="mask"):
                call(mask)
    with pytest.raises(ValueError, match="mask"):
        ppo.bandit_rewards(torch.zeros(2, 1), x, torch.ones(2, 3).bool(), 0.1)


@quick
@given(masks(), seeds)
def test_explained_variance_matches_loop(mask: Tensor, seed: int) -> None:
    values, returns = randn(*mask.shape, seed=seed), randn(*mask.shape, seed=seed + 1)
    found = ppo.explained_variance(poison(values, mask), poison(returns, mask), mask)
    r, v = picked(returns, mask), picked(values, mask)
    if len(r) < 2:
        assert math.isnan(found)
        return

    def variance(xs: Row) -> float:
        return math.fsum((x - math.fsum(xs) / len(xs)) ** 2 for x in xs) / len(xs)

    close(found, 1 - variance([a - b for a, b in zip(r, v, strict=True)]) / variance(r), 1e-6)


def test_explained_variance_of_perfect_constant_and_hopeless_values() -> None:
    returns = randn(3, 6, seed=10)
    assert ppo.explained_variance(returns, returns, GAPPY) == 1
    close(ppo.explained_variance(returns + 5, returns, GAPPY), 1.0)
    close(ppo.explained_variance(torch.full_like(returns, 0.3), returns, GAPPY), 0.0)
    assert math.isnan(ppo.explained_variance(returns, torch.full_like(returns, 0.1), GAPPY))


@pytest.mark.parametrize("value", [0.1, 0.3, 7.7, -1234.567])
@pytest.mark.parametrize("count", [1, 3, 7, 49, 1000])
def test_a_constant_has_a_variance_of_exactly_zero(value: float, count: int) -> None:
    """Sum of squares minus squared sum leaves rounding of either sign."""
    x, mask = f64([[value] * count]), torch.ones(1, count, dtype=torch.bool)
    assert ppo.mean_and_variance(ppo.moments(x, mask))[1] == 0
    assert math.isnan(ppo.explained_variance(torch.zeros_like(x), x, mask))


# --- the KL controller ---


def test_adaptive_kl_moves_towards_the_target_by_the_paper_rule() -> None:
    for observed, error in [(6.0, 0.0), (6.6, 0.1), (100.0, 0.2), (5.4, -0.1), (-3.0, -0.2)]:
        control = ppo.AdaptiveKL(0.2, target=6.0, horizon=10_000)
        beta = control.update(observed, n_steps=512)
        assert beta == control.beta == pytest.approx(0.2 * (1 + error * 512 / 10_000))


def test_adaptive_kl_holds_a_responding_process_at_its_target() -> None:
    control = ppo.AdaptiveKL(0.01, target=2.0, horizon=1000)
    for _ in range(1000):
        control.update(0.5 / control.beta, n_steps=100)
    assert 0.5 / control.beta == pytest.approx(2.0, rel=1e-3)


def test_kl_state_round_trips_through_json_and_continues_identically() -> None:
    first = ppo.AdaptiveKL(0.1, target=3.0, horizon=100)
    first.update(9.0, 10)
    second = ppo.AdaptiveKL(0.1, target=3.0, horizon=100)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second == first
    assert second.update(1.0, 10) == first.update(1.0, 10)


def test_fixed_kl_never_moves_and_bad_observations_are_refused() -> None:
    fixed = ppo.AdaptiveKL(0.3)
    assert fixed.update(1e9, 10**9) == fixed.update(math.nan, 1) == 0.3
    control = ppo.AdaptiveKL(0.3, horizon=100)
    for observed, steps in [(math.nan, 1), (math.inf, 1), (0.0, 500)]:
        with pytest.raises(ValueError, match="horizon"):
            control.update(observed, steps)
    assert control.beta == 0.3


# --- a KL-regularised bandit with a known optimum ---

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
