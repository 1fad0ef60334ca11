"""What a plan says of the stages after SFT, and what stays as it was where it says nothing."""

from __future__ import annotations

import pytest

from rldf_ray.plan import Plan, PlanError, load_plan


def test_ppo_is_what_comes_after_sft_and_the_last_is_the_policy() -> None:
    assert load_plan("smoke").train.last == "ppo"
    assert load_plan("smoke", ["train.after=[dpo, ppo]"]).train.last == "ppo"
    assert load_plan("smoke", ["train.after=[ppo, kto]"]).train.last == "kto"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["train.after=[]"], "train.after"),
        (["train.after=[dpo, dpo]"], "each is there once at most"),
        (["train.after=[grpo]"], "train.after"),
        (["kto.micro_batch=1"], "kto.micro_batch"),
        (["dpo.beta=0"], "dpo.beta"),
        (["train.after=[dpo]", "dpo.batch_size=6"], "dpo.batch_size=6 must be a multiple of"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(overrides: list[str], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        load_plan("smoke", overrides)


def test_batches_of_a_stage_that_a_plan_does_not_have_are_nobodys() -> None:
    load_plan("smoke", ["dpo.batch_size=6"])


def test_a_plan_without_dpo_and_kto_has_the_digest_it_had() -> None:
    plan = load_plan("smoke")
    values = plan.model_dump(mode="json")
    del values["dpo"], values["kto"], values["train"]["after"]
    filled = Plan.with_added_fields(values)
    assert Plan.model_validate(filled).digest() == plan.digest()
    assert plan.digest() != load_plan("smoke", ["train.after=[dpo]"]).digest()
    assert plan.digest() != load_plan("smoke", ["dpo.beta=0.2"]).digest()
