"""PPO's estimators, rewards and KL controller against plain Python loops."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from rldf_ray.train.ppo import losses as ppo
from tests.train.tensors import GAPPY, Row, close, f64, masks, picked, poison, quick, randn, seeds

KINDS: list[ppo.KLKind] = ["k1", "k2", "k3"]


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
    close(ppo.moments(x, mask), [math.fsum(kept), math.fsum(v * v for v in kept), len(kept)])
    mean, variance = ppo.mean_and_variance(ppo.moments(x, mask))
    centre = math.fsum(kept) / max(len(kept), 1)
    close(mean, centre)
    close(variance, math.fsum((v - centre) ** 2 for v in kept) / max(len(kept), 1))


def test_sums_are_taken_in_at_least_float32() -> None:
    x = torch.ones(1, 4096, dtype=torch.bfloat16)
    total = ppo.masked_sum(x, torch.ones_like(x, dtype=torch.bool))
    assert total.dtype == torch.float32 and total.item() == 4096


def whitened(x: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    return ppo.whiten_with(x, mask, ppo.moments(x, mask), shift_mean)


@quick
@given(masks(), seeds, st.booleans())
def test_whitening_matches_loop(mask: Tensor, seed: int, shift_mean: bool) -> None:
    x = 3 + randn(*mask.shape, seed=seed, scale=2.0)
    kept = picked(x, mask)
    white = whitened(poison(x, mask), mask, shift_mean)
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
    close(torch.cat(parts), whitened(x, mask), 1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1234.567])
def test_whitening_a_constant_gives_zero_not_noise(dtype: torch.dtype, value: float) -> None:
    x = torch.full((3, 6), value, dtype=dtype)
    white = whitened(x, GAPPY)
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


def test_mask_of_wrong_shape_or_type_is_refused() -> None:
    x = torch.zeros(2, 3)
    for mask in (torch.ones(2, 1).bool(), torch.ones(2, 3), torch.ones(2, 3).long()):
        for call in (
            lambda m: ppo.masked_sum(x, m),
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


def explained(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    return ppo.explained_share(*ppo.explained_moments(values, returns, mask))


@quick
@given(masks(), seeds)
def test_explained_variance_matches_loop(mask: Tensor, seed: int) -> None:
    values, returns = randn(*mask.shape, seed=seed), randn(*mask.shape, seed=seed + 1)
    found = explained(poison(values, mask), poison(returns, mask), mask)
    r, v = picked(returns, mask), picked(values, mask)
    if len(r) < 2:
        assert math.isnan(found)
        return

    def variance(xs: Row) -> float:
        return math.fsum((x - math.fsum(xs) / len(xs)) ** 2 for x in xs) / len(xs)

    # Two returns that happen to be all but equal: moments of them have no digits left.
    assume(variance(r) > 1e-3)
    close(found, 1 - variance([a - b for a, b in zip(r, v, strict=True)]) / variance(r), 1e-6)


def test_explained_variance_of_perfect_constant_and_hopeless_values() -> None:
    returns = randn(3, 6, seed=10)
    assert explained(returns, returns, GAPPY) == 1
    close(explained(returns + 5, returns, GAPPY), 1.0)
    close(explained(torch.full_like(returns, 0.3), returns, GAPPY), 0.0)
    assert math.isnan(explained(returns, torch.full_like(returns, 0.1), GAPPY))


@pytest.mark.parametrize("value", [0.1, 0.3, 7.7, -1234.567])
@pytest.mark.parametrize("count", [1, 3, 7, 49, 1000])
def test_a_constant_has_a_variance_of_exactly_zero(value: float, count: int) -> None:
    """Sum of squares minus squared sum leaves rounding of either sign."""
    x, mask = f64([[value] * count]), torch.ones(1, count, dtype=torch.bool)
    assert ppo.mean_and_variance(ppo.moments(x, mask))[1] == 0
    assert math.isnan(explained(torch.zeros_like(x), x, mask))


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
