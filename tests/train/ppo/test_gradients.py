"""What reaches the gradients of a PPO step: compared as gradients, for Adam hides their size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rldf_ray.train.ppo import losses as ppo_math
from rldf_ray.train.ppo import step as ppo_step
from rldf_ray.train.ppo.step import PPO
from tests.train.tiny import experience_of, random_rollouts, scores_of, tiny_job, weights_of

pytestmark = pytest.mark.usefixtures("alone")


def gradients_of(ppo: PPO, rewards: torch.Tensor) -> dict[str, torch.Tensor]:
    """Those of the first update, by model and parameter; no optimizer step is made."""
    for engine in ppo.engines.values():
        engine.step = lambda: None
    ppo.step(random_rollouts(4), rewards)
    return {
        f"{name}.{key}": parameter.grad.clone()
        for name, engine in ppo.engines.items()
        for key, parameter in engine.module.named_parameters()
        if parameter.grad is not None
    }


def answer_logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids[:, :-1]).logits.float()


def test_the_actors_gradient_is_that_of_the_weighted_advantages(folders: dict[str, str]) -> None:
    """At ratio 1: minus the token mean of importance x advantage x gradient of log pi."""
    ppo = PPO(tiny_job(folders, "ppo.importance_cap=2.0"))
    (e,), _ = experience_of(ppo, random_rollouts(4), scores_of(4))
    chosen = e.importance[e.batch.mask]
    assert float(chosen.std()) > 0.05  # weights that are all the same would show nothing
    actor = ppo.models.actor.module
    logprobs = ppo_math.token_logprobs(answer_logits_of(actor, e.batch.ids), e.batch.ids[:, 1:])
    weighted = torch.where(e.batch.mask, e.importance * e.advantages * logprobs, 0.0)
    parameters = dict(actor.named_parameters())
    wanted = torch.autograd.grad(
        -weighted.sum() / e.batch.mask.sum(), list(parameters.values()), allow_unused=True
    )
    found = gradients_of(ppo, scores_of(4))
    for key, gradient in zip(parameters, wanted, strict=True):
        if gradient is not None:
            torch.testing.assert_close(found[f"actor.{key}"], gradient, rtol=1e-3, atol=1e-6)


def test_two_workers_with_the_same_rollouts_have_the_gradient_of_one(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSpeed takes the mean over workers, so each gives twice its share of all tokens."""
    one = gradients_of(PPO(tiny_job(folders)), scores_of(4))
    both = PPO(tiny_job(folders))
    both.workers = 2
    monkeypatch.setattr(ppo_step, "all_reduce", lambda own: own * 2)
    two = gradients_of(both, scores_of(4))
    assert one.keys() == two.keys() and any(float(g.abs().max()) > 1e-4 for g in one.values())
    for key, gradient in one.items():
        torch.testing.assert_close(two[key], gradient, rtol=1e-4, atol=1e-7)


def test_policy_and_reference_are_read_at_the_temperature_of_sampling(
    folders: dict[str, str],
) -> None:
    ppo = PPO(tiny_job(folders, "ppo.temperature=2.0"))
    (e,), _ = experience_of(ppo, random_rollouts(4), scores_of(4))
    with torch.no_grad():
        logits = answer_logits_of(ppo.models.actor.module, e.batch.ids)
    ids, mask = e.batch.ids[:, 1:], e.batch.mask
    wanted = ppo_math.token_logprobs(logits, ids, 2.0)[mask]
    assert float((wanted - ppo_math.token_logprobs(logits, ids)[mask]).abs().max()) > 1e-3
    for read in (e.old_logprobs, e.ref_logprobs):
        torch.testing.assert_close(read[mask], wanted, rtol=1e-4, atol=1e-5)


def test_an_update_is_made_at_the_temperature_of_sampling(folders: dict[str, str]) -> None:
    """Read at any other, the first ratio would not be 1."""
    options = ("ppo.temperature=2.0", "ppo.micro_batch=2", "ppo.batch_size=4")
    figures, _ = PPO(tiny_job(folders, *options)).step(random_rollouts(4), scores_of(4))
    assert figures["first_ratio_max"] == pytest.approx(1.0, abs=1e-6)


def test_gradients_are_clipped_to_the_planned_norm(folders: dict[str, str]) -> None:
    """Clipped to less than Adam's epsilon, they move next to nothing."""
    farthest = {}
    for norm in (1.0, 1e-12):
        ppo = PPO(tiny_job(folders, f"ppo.max_grad_norm={norm}"))
        before = weights_of(ppo)
        ppo.step(random_rollouts(4), scores_of(4))
        after = weights_of(ppo)
        farthest[norm] = max(float((after[k] - w).abs().max()) for k, w in before.items())
    assert farthest[1.0] > 5e-4 and farthest[1e-12] < 1e-6


def test_the_adaptive_coefficient_is_steered_by_the_episodes_of_a_rollout(
    folders: dict[str, str],
) -> None:
    """4 episodes in two batches; the KL of 0 is below the target, as far as the clip goes."""
    options = ("ppo.kl_target=1.0", "ppo.kl_horizon=100", "ppo.batch_size=2", "ppo.micro_batch=2")
    ppo = PPO(tiny_job(folders, "ppo.beta=0.5", *options))
    ppo.step(random_rollouts(4), scores_of(4))
    assert ppo.beta.beta == pytest.approx(0.5 * (1 - 0.2 * 4 / 100))


def test_rewards_are_scaled_by_all_rollouts_so_far(folders: dict[str, str]) -> None:
    ppo = PPO(tiny_job(folders, "ppo.reward_normalise=true", "ppo.reward_clip=null"))
    ppo._shaped(torch.tensor([10.0, -10.0, 10.0, -10.0]))
    second = ppo._shaped(torch.tensor([40.0, 0.0, 0.0, 0.0]))
    # Variance of all eight: 250 - 25. Of the last four alone it is 300.
    assert second.tolist() == pytest.approx([40 / 15, 0, 0, 0])
