"""What a plan says of the stages after SFT, and what stays as it was where it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.engines.checks import PreflightError
from rldf_ray.plan import Plan, PlanError, load_plan
from rldf_ray.plan.counted import with_added_fields
from rldf_ray.preflight.checks import check_ppo_fields


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


BAD_PPO = (
    ["ppo.rollout_batch=7"],
    ["ppo.batch_size=7"],
    ["ppo.episodes=1000003"],
    ["engines.sleep=true", "ppo.overlap=true"],
    ["ppo.value_warmup=1000000"],
    ["ppo.max_tokens=100000"],
    ["ppo.rollout_batch=64", "ppo.episodes=64", "ppo.kl_target=6.0", "ppo.kl_horizon=1"],
    ["ppo.rewards=[{python: 'mine.py:std'}]"],
)


@pytest.mark.parametrize("overrides", BAD_PPO)
def test_fields_of_ppo_are_looked_at_where_the_plan_has_it(overrides: list[str]) -> None:
    with pytest.raises(PlanError, match=r"ppo\."):
        load_plan("smoke", overrides)
    load_plan("smoke", [*overrides, "train.after=[dpo]"])


SMALL_PPO = "ppo={episodes: 128, rollout_batch: 64, batch_size: 4, micro_batch: 2}"


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("ppo.value_warmup=1", "ppo.value_warmup=2", "of 2 rollout steps .*never be trained"),
        ("ppo.kl_horizon=13", "ppo.kl_horizon=12", "kl_horizon=12 .* more than 12.8"),
        (
            "engines.max_model_len=257",
            "engines.max_model_len=256",
            "ppo.max_tokens=256 .*no prompt",
        ),
        (
            "ppo.rewards=[{http: 'http://x', max_calls: 2}]",
            "ppo.rewards=[{http: 'http://x', max_calls: 1}]",
            "max_calls=1 of x with train.workers=2",
        ),
    ],
)
def test_what_would_end_ppo_half_way_is_refused_before_it_begins(
    good: str, bad: str, said: str
) -> None:
    given = [SMALL_PPO, "ppo.kl_target=6.0", "evaluate.max_tokens=64", "train.workers=2"]
    given += [
        "referee.kind=prompted",
        "sft={batch_size: 8, micro_batch: 1}",
        "reward={batch_size: 8, micro_batch: 1}",
    ]
    given += ["engines.max_model_len=1024"]
    load_plan("smoke", [*given, good])
    with pytest.raises(PlanError, match=said):
        load_plan("smoke", [*given, bad])


def test_an_answer_of_the_evaluation_leaves_room_for_its_prompt() -> None:
    short = ["engines.max_model_len=256", "ppo.max_tokens=64"]
    load_plan("smoke", [*short, "evaluate.max_tokens=255"])
    for after in ("ppo", "dpo"):
        with pytest.raises(
            PlanError, match=r"evaluate\.max_tokens=256 with engines\.max_model_len"
        ):
            load_plan("smoke", [*short, "evaluate.max_tokens=256", f"train.after=[{after}]"])


def test_a_run_of_such_a_plan_is_read_all_the_same(tmp_path: Path) -> None:
    plan = load_plan("smoke", ["train.after=[dpo]", "ppo.value_warmup=1000000"])
    text = plan.to_yaml().replace("- dpo", "- ppo")
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    assert load_plan(str(tmp_path / "plan.yaml"), saved=True).train.after == ("ppo",)
    with pytest.raises(PlanError, match=r"ppo\.value_warmup"):
        load_plan(str(tmp_path / "plan.yaml"))


def test_a_plan_that_is_made_of_another_one_is_looked_at_before_it_is_run() -> None:
    plan = load_plan("smoke", ["train.after=[dpo]", "ppo.value_warmup=1000000"])
    train = plan.train.model_copy(update={"after": ("ppo",)})
    with pytest.raises(PreflightError, match=r"ppo\.value_warmup"):
        check_ppo_fields(plan.model_copy(update={"train": train}))


def test_a_plan_without_dpo_and_kto_has_the_digest_it_had() -> None:
    plan = load_plan("smoke")
    values = plan.model_dump(mode="json")
    del values["dpo"], values["kto"], values["train"]["after"]
    filled = with_added_fields(values)
    assert Plan.model_validate(filled).digest() == plan.digest()
    assert plan.digest() != load_plan("smoke", ["train.after=[dpo]"]).digest()
    assert plan.digest() != load_plan("smoke", ["dpo.beta=0.2"]).digest()
