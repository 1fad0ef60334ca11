"""The PPO step on tiny random models: real DeepSpeed engines, no Ray, no vLLM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.plan import PlanError, load_plan
from rldf_ray.train.ppo.loop import _sample
from rldf_ray.train.ppo.losses import kl_estimate
from rldf_ray.train.ppo.metrics import append_answers
from rldf_ray.train.ppo.prompts import Prompts
from rldf_ray.train.ppo.rollout import Rollout, RolloutSource
from rldf_ray.train.ppo.step import PPO
from tests.fakes import plan_with
from tests.train.tiny import (
    experience_of,
    prompt_rows,
    random_rollouts,
    sampled_rollouts,
    scores_of,
    tiny_job,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("alone")
IN_LOSS = ("ppo.kl_in=loss", "ppo.kl_estimator=k2", "ppo.whiten_advantages=false")


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], name: str) -> bool:
    return any(not torch.equal(before[k], after[k]) for k in before if k.startswith(name))


def test_first_update_has_ratio_one_and_kl_zero(folders: dict[str, str]) -> None:
    ppo = PPO(tiny_job(folders, "ppo.micro_batch=2", "ppo.epochs=2"))
    figures, kl = ppo.step(random_rollouts(4), scores_of(4))
    assert figures["first_ratio_max"] == 1.0
    assert figures["first_kl_old"] == 0.0
    # Actor and reference are the same model at the start.
    assert figures["kl"] == 0.0 and kl.tolist() == [0.0] * 4
    assert figures["updates"] == 2 and figures["ratio_max"] > 1.0


def test_a_pass_that_is_kept_gives_the_update_of_one_that_is_made_again(
    folders: dict[str, str],
) -> None:
    """One micro-batch keeps its graph for the first update; with checkpointing none is kept."""
    rollouts, found = random_rollouts(4), []
    for again in (False, True):
        ppo = PPO(tiny_job(folders, "ppo.epochs=2", f"train.gradient_checkpointing={again}"))
        assert ppo._passes(ppo._batches(rollouts))[0].values.requires_grad is not again
        figures, _ = ppo.step(rollouts, scores_of(4))
        found.append((figures, weights_of(ppo)))
    (kept, weights), (made, expected) = found
    assert kept["first_ratio_max"] == 1.0 and kept["updates"] == 2
    assert kept == pytest.approx(made, rel=1e-5, abs=1e-7)
    for name in expected:
        torch.testing.assert_close(weights[name], expected[name], rtol=0, atol=1e-5)


def test_learning_rate_zero_leaves_every_figure_flat(folders: dict[str, str]) -> None:
    job = tiny_job(folders, "ppo.learning_rate=1e-30", "ppo.critic_learning_rate=1e-30")
    ppo, rollouts = PPO(job), random_rollouts(4)
    before = weights_of(ppo)
    first, *others = [ppo.step(rollouts, scores_of(4))[0] for _ in range(3)]
    after = weights_of(ppo)
    # A bias that begins at 0 is moved by those 1e-30.
    assert all(torch.allclose(before[k], after[k], rtol=0, atol=1e-25) for k in before)
    assert others == [first, first]


def test_accumulation_does_not_change_the_update(folders: dict[str, str]) -> None:
    rollouts, found = random_rollouts(8, seed=3), []
    for micro in (8, 4, 2, 1):
        job = tiny_job(
            folders,
            f"ppo={{episodes: 8, rollout_batch: 8, batch_size: 8, micro_batch: {micro}, "
            "dtype: float32, learning_rate: 0.001, critic_learning_rate: 0.001}",
        )
        ppo = PPO(job)
        figures, _ = ppo.step(rollouts, scores_of(8))
        found.append((weights_of(ppo), figures))
    (weights, figures), *others = found
    for other_weights, other_figures in others:
        assert other_figures == pytest.approx(figures, rel=1e-4, abs=1e-6)
        for key, value in weights.items():
            # Adam's first step has the size of the learning rate whatever the gradient's, so a
            # gradient of rounding error alone moves a weight: hence not a relative tolerance.
            assert (other_weights[key] - value).abs().max() < 2.1e-3
            assert (other_weights[key] - value).abs().mean() < 2e-6


def test_value_warmup_trains_the_critic_alone(folders: dict[str, str]) -> None:
    ppo = PPO(tiny_job(folders, "ppo.value_warmup=1"))
    start = weights_of(ppo)
    ppo.step(random_rollouts(4), scores_of(4))
    warm = weights_of(ppo)
    assert not moved(start, warm, "actor") and moved(start, warm, "critic")
    ppo.step(random_rollouts(4), scores_of(4))
    assert moved(warm, weights_of(ppo), "actor")


def test_stop_kl_ends_the_updates_of_a_rollout(folders: dict[str, str]) -> None:
    options = ("ppo.epochs=6", "ppo.learning_rate=0.03")
    free, _ = PPO(tiny_job(folders, *options)).step(random_rollouts(4), scores_of(4))
    held, _ = PPO(tiny_job(folders, *options, "ppo.stop_kl=0.0001")).step(
        random_rollouts(4), scores_of(4)
    )
    assert free["updates"] == 6
    # The first update is made at KL 0; the second finds what it did.
    assert held["updates"] == 2


def test_the_learning_rate_rises_over_its_share_of_the_updates(folders: dict[str, str]) -> None:
    """8 updates of 16 episodes: the first does not move every weight by the whole learning rate."""
    rising = ("ppo.batch_size=2", "ppo.micro_batch=2", "train.warmup_share=0.4")
    ppo, rates = PPO(tiny_job(folders, *rising)), []
    for _ in range(4):
        before = weights_of(ppo)
        rates += [engine.get_lr()[0] for engine in ppo.engines.values()]
        ppo.step(random_rollouts(4), scores_of(4))
        farthest = max(
            float((after - before[k]).abs().max()) for k, after in weights_of(ppo).items()
        )
        assert farthest < 2.1 * max(e.get_lr()[0] for e in ppo.engines.values())
    assert rates == pytest.approx([0.25e-3] * 2 + [0.75e-3] * 2 + [1e-3] * 4)


def test_rewards_are_normalised_then_clipped(folders: dict[str, str]) -> None:
    ppo = PPO(tiny_job(folders, "ppo.reward_normalise=true", "ppo.reward_clip=1.5"))
    first = ppo._shaped(torch.tensor([10.0, -10.0, 10.0, -10.0]))
    assert first.tolist() == pytest.approx([1, -1, 1, -1])
    second = ppo._shaped(torch.tensor([40.0, 0.0, 0.0, 0.0]))
    seen = torch.tensor([10.0, -10, 10, -10, 40, 0, 0, 0])
    assert second.tolist() == pytest.approx([min(1.5, 40 / float(seen.std(correction=0))), 0, 0, 0])


def test_advantages_stay_as_they_are_without_whitening(folders: dict[str, str]) -> None:
    plain = PPO(tiny_job(folders, "ppo.whiten_advantages=false"))
    white = PPO(tiny_job(folders))
    (a,), _ = experience_of(plain, random_rollouts(4), scores_of(4))
    (b,), _ = experience_of(white, random_rollouts(4), scores_of(4))
    kept = b.advantages[b.batch.mask]
    assert float(kept.mean()) == pytest.approx(0, abs=1e-5)
    assert float(kept.std(correction=0)) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(a.returns, a.advantages + a.old_values * a.batch.mask)


def test_kl_in_the_loss_keeps_it_out_of_the_reward(folders: dict[str, str]) -> None:
    job = tiny_job(folders, *IN_LOSS, "ppo.beta=100.0")
    ppo = PPO(job)
    with torch.no_grad():
        for parameter in ppo.models.actor.module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    rollouts = random_rollouts(4)
    (made,), before = experience_of(ppo, rollouts, torch.zeros(4))
    assert before.min() > 0
    # No reward and no KL in it: what remains of the return is the critic's own value.
    last = made.batch.mask.flip(1).cumsum(1).flip(1) == 1
    assert made.returns[last & made.batch.mask].abs().max() < 1e-6
    for _ in range(8):
        _, kl = ppo.step(rollouts, torch.zeros(4))
    assert kl.sum() < before.sum()


def test_k1_in_the_loss_is_refused() -> None:
    with pytest.raises(PlanError, match=r"kl_estimator=k1.*allowed in the loss: k2"):
        plan_with("ppo.kl_in=loss")


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_an_estimator_that_a_reward_cannot_have_is_refused(estimator: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=rf"kl_estimator={estimator}.*allowed in the reward: k1"):
        plan_with(f"ppo.kl_estimator={estimator}")
    begun = plan_with(*IN_LOSS).to_yaml().replace("kl_in: loss", "kl_in: reward")
    (tmp_path / "plan.yaml").write_text(begun, encoding="utf-8")
    assert load_plan(str(tmp_path / "plan.yaml"), saved=True).ppo.kl_in == "reward"


def test_rewards_in_another_scale_beside_the_kl_are_refused() -> None:
    with pytest.raises(PlanError, match=r"kl_in=loss.*set whiten_advantages=false"):
        plan_with("ppo.kl_in=loss", "ppo.kl_estimator=k2")
    assert not plan_with(*IN_LOSS).ppo.whiten_advantages


def expected_gradient(
    estimator: Any, place: str, policy: list[float], rewards: list[float], beta: float
) -> torch.Tensor:
    """Of E[R] - beta KL in the logits of a policy of one token, to the reference (0.5, 0.5).

    A term in the reward is multiplied by the score function, one in the loss is differentiated.
    """
    logits = torch.tensor(policy, dtype=torch.float64).log().requires_grad_()
    logprobs = torch.log_softmax(logits, -1)
    reference = torch.full_like(logprobs, 0.5).log()
    kl = kl_estimate(logprobs, reference, estimator)
    weighed = torch.tensor(rewards, dtype=torch.float64)
    chance = logprobs.exp().detach()
    if place == "reward":
        objective = (chance * (weighed - beta * kl.detach()) * logprobs).sum()
    else:
        objective = (chance * (weighed * logprobs - beta * kl)).sum()
    (gradient,) = torch.autograd.grad(objective, logits)
    return gradient


@pytest.mark.parametrize(("estimator", "place"), [("k1", "reward"), ("k2", "loss")])
def test_what_a_plan_may_have_has_its_optimum_where_the_objective_has(
    estimator: str, place: str
) -> None:
    """pi_ref * exp(r / beta), of ten times the rewards with ten times the beta the same."""
    rewards, beta = torch.tensor([1.0, 0.0], dtype=torch.float64), 0.5
    best = torch.softmax(rewards / beta, -1).tolist()
    for scale in (1, 10):
        there = expected_gradient(estimator, place, best, (scale * rewards).tolist(), beta * scale)
        torch.testing.assert_close(there, torch.zeros_like(there), rtol=0, atol=1e-9)
    back = expected_gradient(estimator, place, [0.4, 0.6], [0.0, 0.0], 1.0)
    assert back[0] > 0 > back[1]


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_what_a_plan_may_not_have_leads_away_from_the_reference_or_nowhere(estimator: str) -> None:
    away = expected_gradient(estimator, "reward", [0.4, 0.6], [0.0, 0.0], 1.0)
    assert away[0] < 0 < away[1]
    nowhere = expected_gradient("k1", "loss", [0.4, 0.6], [0.0, 0.0], 1.0)
    torch.testing.assert_close(nowhere, torch.zeros_like(nowhere), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kl_in", "answers", "scale"),
    [("reward", 1, 1.0), ("loss", 1, 1.0), ("loss", 1, 10.0), ("reward", 8, 1.0)],
)
def test_a_tiny_model_learns_the_liked_word_and_no_more_than_beta_allows(
    folders: dict[str, str], kl_in: str, answers: int, scale: float
) -> None:
    """The optimum is pi_ref * exp(r / beta): the liked word's probability settles there."""
    liked, prompt, beta = 9, (4, 20, 21, 5), 0.5
    job = tiny_job(
        folders,
        "ppo={episodes: 64, rollout_batch: 64, batch_size: 64, micro_batch: 64, dtype: float32, "
        "learning_rate: 0.003, critic_learning_rate: 0.01, epochs: 2, "
        f"beta: {beta * scale}, kl_in: {kl_in}, whiten_advantages: false, "
        f"kl_estimator: {'k1' if kl_in == 'reward' else 'k2'}, answers_per_prompt: {answers}}}",
    )
    ppo, generator = PPO(job), torch.Generator().manual_seed(5)

    def chance(model: Any) -> float:
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0, -1]
        return float(torch.softmax(logits, -1)[liked])

    start = chance(ppo.models.reference)
    optimum = start * torch.e ** (1 / beta) / (1 + start * (torch.e ** (1 / beta) - 1))
    late = []
    for step in range(60):
        rollouts = sampled_rollouts(ppo.models.actor.module, prompt, 64, generator)
        scores = torch.tensor([scale * (r.answer_ids[0] == liked) for r in rollouts])
        ppo.step(rollouts, scores)
        if step >= 40:
            late.append(chance(ppo.models.actor.module))
    reached = sum(late) / len(late)
    assert optimum > 4 * start
    assert reached == pytest.approx(optimum, rel=0.35)


def test_held_out_prompts_are_never_trained_on() -> None:
    rows = prompt_rows(9)
    split = Prompts.split(rows, 3)
    assert len(split.train) == 6 and len(split.held_out) == 3
    assert not [p for p in split.held_out if p in split.train]
    assert Prompts.split(rows[::-1], 3).held_out == split.held_out[::-1]
    assert Prompts.split(rows, 0).train == tuple(rows)
    with pytest.raises(ValueError, match="held_out_prompts=9 leaves none of 9"):
        Prompts.split(rows, 9)


def test_workers_answer_every_prompt_once_between_them() -> None:
    rows = prompt_rows(9)
    prompts = Prompts.split(rows, 2)
    section = plan_with("ppo={episodes: 8, rollout_batch: 4, batch_size: 4}").ppo

    def shares(workers: int, step: int) -> list[str]:
        sources = [RolloutSource(None, prompts, section, 0, r, workers) for r in range(workers)]  # type: ignore[arg-type]
        return sorted(p["prompt_id"] for s in sources for p in s.rows_of(step))

    for step in (0, 1):
        assert shares(1, step) == shares(2, step) == shares(4, step)
        assert len(shares(4, step)) == 4


def test_all_answers_to_a_prompt_are_one_workers() -> None:
    prompts = Prompts.split(prompt_rows(5), 0)
    section = plan_with(
        "ppo={episodes: 16, rollout_batch: 8, batch_size: 4, answers_per_prompt: 2}"
    ).ppo
    asked: list[str] = []
    for step in (0, 1):
        shares = []
        for rank in (0, 1):
            source = RolloutSource(None, prompts, section, 0, rank, 2)  # type: ignore[arg-type]
            share = [p["prompt_id"] for p in source.rows_of(step)]
            assert share[::2] == share[1::2] and len(share) == 4
            shares.append(share[::2])
        asked += [p for both in zip(*shares, strict=True) for p in both]
    # A pass over all prompts before any is asked again.
    assert len(asked) == 8 and len(set(asked[:5])) == 5


def test_a_sample_is_of_as_many_prompts_as_it_can_have(
    folders: dict[str, str], tmp_path: Path
) -> None:
    job = replace(
        tiny_job(folders, "ppo.answers_per_prompt=2", "ppo.sample_size=3"),
        folders={"out": str(tmp_path)},
    )
    prompts = [[{"role": "user", "content": f"q{i // 2}"}] for i in range(4)]
    rollouts = [replace(r, text=f"answer {i}") for i, r in enumerate(random_rollouts(4))]
    _sample(job, 0, prompts, rollouts, scores_of(4), torch.zeros(4))
    lines = [
        json.loads(line)
        for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [x["answer"] for x in lines] == ["answer 0", "answer 2", "answer 1"]
    assert [x["prompt"][0]["content"] for x in lines] == ["q0", "q1", "q0"]
    assert [x["reward"] for x in lines] == pytest.approx([-1, 1 / 3, -1 / 3])


def test_sampled_answers_can_be_read_beside_their_rewards(tmp_path: Path) -> None:
    rollouts = [replace(r, text=f"answer {i}") for i, r in enumerate(random_rollouts(2))]
    prompts = [[{"role": "user", "content": f"q{i}"}] for i in range(2)]
    append_answers(
        tmp_path, 1, prompts, rollouts, torch.tensor([0.5, 1.5]), torch.tensor([0.0, 2.0])
    )
    append_answers(tmp_path, 2, prompts[:1], rollouts[:1], torch.tensor([9.0]), torch.tensor([1.0]))
    lines = [
        json.loads(line)
        for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [(x["step"], x["answer"], x["reward"], x["kl"]) for x in lines] == [
        (1, "answer 0", 0.5, 0.0),
        (1, "answer 1", 1.5, 2.0),
        (2, "answer 0", 9.0, 1.0),
    ]
    assert lines[0]["prompt"] == prompts[0]


def test_one_text_has_one_reward_in_training_ppo_and_evaluation(folders: dict[str, str]) -> None:
    """The ids TRL's collator pads for training, and the ids an engine returned, score alike."""
    from transformers import AutoModelForSequenceClassification
    from trl.trainer.reward_trainer import DataCollatorForPreference

    from rldf_ray.models.reward_score import RewardModel, score_last_token
    from rldf_ray.train.reward import _encode

    ppo = PPO(tiny_job(folders))
    tokenizer = ppo.models.reward.tokenizer
    question = [{"role": "user", "content": "w1 w2 w3"}]
    texts = ["w5 w6", "w7 w8 w9 w10 w11 w12 w13"]
    sides = {
        name: [{"role": "assistant", "content": text}]
        for name, text in zip(("chosen", "rejected"), texts, strict=True)
    }
    row = _encode({"prompt": question, **sides}, ppo.models.reward.template, 128)
    batch = DataCollatorForPreference(pad_token_id=tokenizer.pad_token_id)([row])
    model = AutoModelForSequenceClassification.from_pretrained(folders["reward"], num_labels=1)
    score_last_token(model)
    with torch.no_grad():
        inputs = {k: v for k, v in batch.items() if k in ("input_ids", "attention_mask")}
        in_training = model(**inputs).logits[:, 0]

    prompt = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    answers = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    # One answer was ended by the engine, the other ran into its limit.
    answers[0].append(tokenizer.eos_token_id)
    rollouts = [
        Rollout(
            prompt_ids=tuple(prompt),
            answer_ids=tuple(a),
            engine_logprobs=(0.0,) * len(a),
            text="",
            ended=True,
        )
        for a in answers
    ]
    in_ppo = ppo.score(rollouts)
    in_evaluation = RewardModel(folders["reward"], "cpu", 128).score([prompt] * 2, answers)
    assert torch.equal(in_ppo, in_evaluation)
    torch.testing.assert_close(in_training, in_ppo)
    assert in_ppo[0] != in_ppo[1]
