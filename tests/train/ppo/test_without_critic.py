"""The PPO step without a critic: the answers to a prompt are each other's baseline."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rldf_ray.plan import PlanError
from rldf_ray.train import prompts_once
from rldf_ray.train.ppo.rollout import Rollout
from rldf_ray.train.ppo.step import PPO
from tests.fakes import plan_with
from tests.train.tiny import (
    answers_to_each,
    experience_of,
    random_rollouts,
    tiny_job,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("alone")


def test_answers_to_a_prompt_are_each_others_baseline(folders: dict[str, str]) -> None:
    """What a prompt is worth moves nothing, and there is no critic to learn it."""
    rollouts, found = random_rollouts(4), []
    for worth in (0.0, 50.0):
        ppo = PPO(tiny_job(folders, "ppo.answers_per_prompt=2"))
        scores = torch.tensor([1.0, -1.0, 0.5, 0.0]) + torch.tensor([worth, worth, 0.0, 0.0])
        figures, _ = ppo.step(rollouts, scores)
        found.append((figures, weights_of(ppo)))
    (figures, weights), (_, other) = found
    assert ppo.engines.keys() == {"actor"}
    assert figures["first_ratio_max"] == 1.0 and figures["reward"] == pytest.approx(0.125)
    assert not figures.keys() & {"value_loss", "value_clip_fraction", "explained_variance"}
    for name in weights:
        torch.testing.assert_close(weights[name], other[name], rtol=0, atol=1e-5)


def test_a_prompt_read_once_for_its_answers_gives_the_same_step(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "batch_size: 8, micro_batch: 8, answers_per_prompt: 4, dtype: float32"
    job = tiny_job(folders, f"ppo={{episodes: 8, rollout_batch: 8, {asked}}}")
    rollouts = answers_to_each(2, 4)
    found = []
    for least_saved in (prompts_once.LEAST_SAVED, 1.0):
        monkeypatch.setattr(prompts_once, "LEAST_SAVED", least_saved)
        found.append(step_of(PPO(job), rollouts))
    (once, weights, tokens), (rows, expected, all_tokens) = found
    assert once == pytest.approx(rows, rel=1e-4, abs=1e-5) and once["first_ratio_max"] == 1.0
    assert tokens < all_tokens / 2
    for name in expected:
        torch.testing.assert_close(weights[name], expected[name], rtol=0, atol=1e-5)


def step_of(ppo: PPO, rollouts: list[Rollout]) -> tuple[dict[str, float], Any, int]:
    """Figures and weights after a step, and the tokens that actor and reference computed."""
    computed = []
    for model in (ppo.models.actor.module, ppo.models.reference):
        model.model.layers[0].register_forward_pre_hook(
            lambda _, given: computed.append(given[0].shape[:2].numel())
        )
    figures, _ = ppo.step(rollouts, ppo.score(rollouts))
    return figures, weights_of(ppo), sum(computed)


def test_an_answer_like_all_others_to_its_prompt_moves_nothing(folders: dict[str, str]) -> None:
    """However long, and therefore heavy in a mean over tokens, the answers to other prompts are."""
    ppo = PPO(tiny_job(folders, "ppo.answers_per_prompt=2"))
    (made,), _ = experience_of(
        ppo, random_rollouts(4), ppo._shaped(torch.tensor([3.0, -9.0, 2.0, 2.0]))
    )
    kept = made.advantages[made.batch.mask]
    assert made.batch.mask[0].sum() != made.batch.mask[1].sum()
    assert float(kept.square().mean()) == pytest.approx(1, abs=1e-5)
    assert made.advantages[0][made.batch.mask[0]].min() > 0 > made.advantages[1].min()
    assert made.advantages[2:].abs().max() == 0


def test_without_a_critic_every_token_of_an_answer_has_its_whole_reward(
    folders: dict[str, str],
) -> None:
    job = tiny_job(folders, "ppo.answers_per_prompt=4", "ppo.whiten_advantages=false", "ppo.lam=0")
    ppo, rewards = PPO(job), torch.tensor([1.0, -2.0, 0.0, 3.0])
    # Actor and reference are the same model at the start: there is no KL in it.
    (made,), _ = experience_of(ppo, random_rollouts(4), ppo._shaped(rewards))
    for row, others in enumerate([1 / 3, 4 / 3, 2 / 3, -1 / 3]):
        found = made.advantages[row][made.batch.mask[row]]
        torch.testing.assert_close(found, torch.full_like(found, float(rewards[row]) - others))


def test_without_a_critic_answers_are_compared_by_reward_less_kl(folders: dict[str, str]) -> None:
    """RLOO: the KL has the other answers' for a baseline, as the reward has."""
    job = tiny_job(
        folders,
        "ppo.answers_per_prompt=2",
        "ppo.whiten_advantages=false",
        "ppo.beta=2.0",
        "ppo.micro_batch=1",
    )
    ppo, rewards = PPO(job), torch.tensor([1.0, -2.0, 0.0, 3.0])
    with torch.no_grad():
        for parameter in ppo.models.actor.module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    made, _ = experience_of(ppo, random_rollouts(4), ppo._shaped(rewards))
    worth = torch.stack(
        [
            reward - 2.0 * ((e.old_logprobs - e.ref_logprobs) * e.batch.mask).sum()
            for reward, e in zip(rewards, made, strict=True)
        ]
    )
    assert (worth - rewards).abs().min() > 0.1
    for e, own, other in zip(made, worth, worth[[1, 0, 3, 2]], strict=True):
        found = e.advantages[e.batch.mask]
        torch.testing.assert_close(found, (own - other).expand_as(found), atol=1e-4, rtol=1e-4)


def test_a_critic_that_is_not_there_cannot_be_warmed_up() -> None:
    with pytest.raises(PlanError, match=r"value_warmup=2 with answers_per_prompt=4.*no critic"):
        plan_with("ppo={answers_per_prompt: 4, value_warmup: 2}")


def test_without_a_critic_nothing_can_be_discounted() -> None:
    with pytest.raises(PlanError, match=r"gamma=0.99 with answers_per_prompt=4.*nothing is disc"):
        plan_with("ppo.answers_per_prompt=4", "ppo.gamma=0.99")
    assert plan_with("ppo.gamma=0.99").ppo.gamma == 0.99
