"""PPO's losses against plain Python loops, and in every case of the clip."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rldf_ray.train.ppo import losses as ppo
from tests.train.tensors import GAPPY, close, f64, masks, picked, poison, quick, randn, seeds


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
