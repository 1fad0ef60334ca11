"""One frozen base for four models computes what four models of their own compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.engines.merged import merged
from rldf_ray.models.reward_score import RewardModel
from rldf_ray.plan import PlanError
from rldf_ray.train import prompts_once
from rldf_ray.train.ppo.models import logprobs_and_entropy, values_of
from rldf_ray.train.ppo.rollout import batch_of
from rldf_ray.train.ppo.step import PPO
from tests.fakes import plan_with
from tests.train.conftest import with_adapters
from tests.train.tiny import answers_to_each, random_rollouts, tiny_job

pytestmark = pytest.mark.usefixtures("alone")
LORA = "train.lora={rank: 4, alpha: 8}"


@pytest.fixture(params=[1.0, 0.5], ids=["all layers", "upper layers"])
def adapters(folders: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """Adapters on every layer, and on the upper one above a trunk that all four models share."""
    return with_adapters(folders, request.param)


def separate(adapters: dict[str, str], name: str) -> Any:
    """A model of its own with the same adapter, trainable."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    kind = AutoModelForCausalLM if name == "sft" else AutoModelForSequenceClassification
    options = {} if name == "sft" else {"num_labels": 1}
    base = kind.from_pretrained(adapters["model"], **options)
    folder = Path(adapters[name]).parent / "adapter"
    return PeftModel.from_pretrained(base, folder, is_trainable=True)


def lora_gradients(model: Any, adapter: str) -> dict[str, torch.Tensor]:
    return {
        name.split(".layers.")[1].replace(f".{adapter}.", "."): parameter.grad
        for name, parameter in model.named_parameters()
        if f".{adapter}." in name and "lora" in name
    }


def test_actor_and_reference_are_the_sft_model(adapters: dict[str, str]) -> None:
    models = PPO(tiny_job(adapters, LORA)).models
    batch = batch_of(random_rollouts(4), 0)
    alone, _ = logprobs_and_entropy(separate(adapters, "sft"), batch, 1.0)
    with torch.no_grad():
        actor, _ = logprobs_and_entropy(models.actor, batch, 1.0)
        reference, _ = logprobs_and_entropy(models.reference, batch, 1.0)
    torch.testing.assert_close(actor, alone.detach())
    assert torch.equal(actor, reference)


def test_the_frozen_head_reads_contiguous_states(adapters: dict[str, str]) -> None:
    """torch copies a frozen weight for every row of a batch that is not contiguous."""
    ppo, rollouts = PPO(tiny_job(adapters, LORA, "ppo.answers_per_prompt=4")), answers_to_each(1, 4)
    contiguous: list[bool] = []
    ppo.models.actor.module._shared[0]._peft.get_base_model().lm_head.register_forward_pre_hook(
        lambda _, given: contiguous.append(given[0].is_contiguous())
    )
    ppo.step(rollouts, ppo.score(rollouts))
    assert contiguous and all(contiguous)


def test_rewards_equal_those_of_the_merged_reward_model(adapters: dict[str, str]) -> None:
    """What evaluation loads from the folder and what PPO computes on the shared base."""
    ppo, rollouts = PPO(tiny_job(adapters, LORA)), random_rollouts(5)
    merged = RewardModel(adapters["reward"], "cpu", 128)
    expected = merged.score([r.prompt_ids for r in rollouts], [r.answer_ids for r in rollouts])
    torch.testing.assert_close(ppo.score(rollouts), expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 0


def test_rewards_are_equal_where_padding_is_the_end_of_sequence(adapters: dict[str, str]) -> None:
    """As in Llama and Mistral after TRL."""
    file = Path(adapters["reward"]) / "config.json"
    file.write_text(
        json.dumps({**json.loads(file.read_text(encoding="utf-8")), "pad_token_id": 2}),
        encoding="utf-8",
    )
    test_rewards_equal_those_of_the_merged_reward_model(adapters)


def test_the_shared_head_is_exact(adapters: dict[str, str]) -> None:
    """In bfloat16, the 8 bits of a reward would make equals of answers that are not."""
    job = tiny_job(adapters, LORA, "ppo.dtype=bfloat16")
    rewards = PPO(job).score(random_rollouts(12))
    assert not torch.equal(rewards, rewards.bfloat16().float())


def test_actor_gradient_equals_that_of_a_model_of_its_own(
    adapters: dict[str, str], request: pytest.FixtureRequest
) -> None:
    models, alone = PPO(tiny_job(adapters, LORA)).models, separate(adapters, "sft")
    batch = batch_of(random_rollouts(4), 0)
    for model in (models.actor.module, alone):
        logprobs, _ = logprobs_and_entropy(model, batch, 1.0)
        logprobs[batch.mask].mean().backward()
    shared = lora_gradients(models.actor.module._shared[0]._peft, "actor")
    expected = lora_gradients(alone, "default")
    layers = round(2 * request.node.callspec.params["adapters"])
    assert shared.keys() == expected.keys() and len(shared) == layers * 2 * 7
    for name, gradient in expected.items():
        torch.testing.assert_close(shared[name], gradient)


def test_critic_gradient_equals_that_of_a_model_of_its_own(adapters: dict[str, str]) -> None:
    models, alone = PPO(tiny_job(adapters, LORA)).models, separate(adapters, "reward")
    batch = batch_of(random_rollouts(4), 0)
    values_of(models.critic.module, batch)[batch.mask].square().mean().backward()
    body = alone.get_base_model().model
    hidden = body(input_ids=batch.ids, attention_mask=batch.attention).last_hidden_state
    head = alone.get_base_model().score
    values = head(hidden)[:, :-1, 0]
    values[batch.mask].square().mean().backward()
    shared = models.critic.module._shared[0]._peft
    for name, gradient in lora_gradients(alone, "default").items():
        torch.testing.assert_close(lora_gradients(shared, "critic")[name], gradient)
    trained = head.modules_to_save["default"].weight.grad
    torch.testing.assert_close(models.critic.module.head.weight.grad, trained)


def test_a_step_moves_actor_and_critic_and_nothing_else(adapters: dict[str, str]) -> None:
    ppo, rollouts = PPO(tiny_job(adapters, LORA)), random_rollouts(4)
    shared = ppo.models.actor.module._shared[0]
    before = {n: p.detach().clone() for n, p in shared._peft.named_parameters()}
    figures, _ = ppo.step(rollouts, torch.linspace(-1, 1, 4))
    assert figures["first_ratio_max"] == 1.0 and figures["kl"] == 0.0
    changed = {n for n, p in shared._peft.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {n for n in before if ".actor." in n or ".critic." in n}
    # Only adapters have gradients and optimizer state.
    assert {n for n, p in shared._peft.named_parameters() if p.grad is not None} <= changed


def test_a_step_without_a_critic_moves_the_actor_and_nothing_else(
    adapters: dict[str, str],
) -> None:
    ppo = PPO(tiny_job(adapters, LORA, "ppo.answers_per_prompt=2"))
    shared = ppo.models.actor.module._shared[0]
    before = {n: p.detach().clone() for n, p in shared._peft.named_parameters()}
    ppo.step(random_rollouts(4), torch.linspace(-1, 1, 4))
    changed = {n for n, p in shared._peft.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {n for n in before if ".actor." in n}


def test_a_prompt_read_once_for_its_answers_gives_the_same_step(
    adapters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts, found = answers_to_each(2, 2), []
    job = tiny_job(adapters, LORA, "ppo.answers_per_prompt=2", "ppo.epochs=2")
    for least_saved in (prompts_once.LEAST_SAVED, 1.0):
        monkeypatch.setattr(prompts_once, "LEAST_SAVED", least_saved)
        ppo = PPO(job)
        figures, _ = ppo.step(rollouts, ppo.score(rollouts))
        found.append((figures, ppo.models.policy().weights))
    (once, weights), (rows, expected) = found
    assert once == pytest.approx(rows, rel=1e-4, abs=1e-5)
    for name in expected:
        difference = (weights[name] - expected[name]).abs()
        # Adam's first steps have the size of the learning rate, whatever the gradient's.
        assert difference.max() < 4.1e-3 and difference.mean() < 2e-6


def test_the_policy_is_exported_as_adapter_and_as_merged_model(
    adapters: dict[str, str], tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    ppo, batch = PPO(tiny_job(adapters, LORA)), batch_of(random_rollouts(4), 0)
    ppo.step(random_rollouts(4), torch.linspace(-1, 1, 4))
    with torch.no_grad():
        expected, _ = logprobs_and_entropy(ppo.models.actor, batch, 1.0)
        ppo.models.save(ppo.models.policy(), tmp_path / "out")
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out/model")
        base = AutoModelForCausalLM.from_pretrained(adapters["model"])
        adapted = PeftModel.from_pretrained(base, tmp_path / "out/adapter")
        for model in (merged, adapted):
            found, _ = logprobs_and_entropy(model, batch, 1.0)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_an_engine_that_merges_the_policy_has_the_model_that_is_saved(
    adapters: dict[str, str], tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    ppo = PPO(tiny_job(adapters, LORA))
    ppo.step(random_rollouts(4), torch.linspace(-1, 1, 4))
    policy = ppo.models.policy()
    policy.save(tmp_path / "sent")
    ppo.models.save(policy, tmp_path / "out")
    saved = load_file(tmp_path / "out/model/model.safetensors")
    base = load_file(Path(adapters["model"]) / "model.safetensors")
    found = dict(merged(base.items(), tmp_path / "sent", torch.float32))
    assert found.keys() == saved.keys()
    for name, weight in saved.items():
        torch.testing.assert_close(found[name], weight)
    name = "model.layers.1.mlp.up_proj.weight"
    assert not torch.equal(found[name], base[name])


def test_adapters_under_zero_3_are_refused() -> None:
    with pytest.raises(PlanError, match=r"zero_stage=3 with lora.rank=4.*zero_stage 0, 1, 2"):
        plan_with(LORA, "train.zero_stage=3")
