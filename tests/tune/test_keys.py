"""Equal keys exactly where results are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.apps.tune.keys import debates_key, referee_key, reward_key, sft_key, topics_key
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with


def _debates(*overrides: str) -> str:
    return debates_key(plan_with(*overrides), 14)


@pytest.mark.parametrize(
    "override",
    [
        "seed=1", "debate.rounds=3", "debate.temperature=0.5", "teacher=scripted:0",
        "referee.threshold_kind=relative", "referee.model=openai:judge", "topics.similarity=0.5",
        "topics.per_bias_type=10", "engines.dtype=float32", "bias_types=[age]",
        "evaluate.items_per_category=4", "evaluate.multirole=/queries",
        "debate.seats=[scripted:0, scripted:0, scripted:0]",
    ],
)  # fmt: skip
def test_debates_depend_on_what_shapes_them(override: str) -> None:
    assert _debates() != _debates(override)


@pytest.mark.parametrize(
    "override",
    [
        "ppo.beta=0.2", "sft.epochs=2", "data.min_gap=1", "name=other", "debate.in_flight=2",
        "engines.count=2", "endpoint.retries=1", "evaluate.max_tokens=8",
    ],
)  # fmt: skip
def test_debates_do_not_depend_on_later_stages_or_on_how_they_are_held(override: str) -> None:
    assert _debates() == _debates(override)


@pytest.mark.parametrize(
    "override",
    [
        "train.dtype=float32", "train.warmup_share=0.5", "train.zero_stage=0", "model=other",
        "topics.judgement_share=0.0", "referee.fit.epochs=9",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "referee",
    ["referee={kind: trained}", "referee={kind: meta, pool: [trained, 'openai:judge']}"],
)
def test_debates_before_a_fitted_referee_depend_on_how_it_is_fitted(
    override: str, referee: str
) -> None:
    fitted = ("teacher=scripted:0", "topics.model=openai:a", "train.zero_stage=2", referee)
    assert _debates(*fitted) != _debates(*fitted, override)
    other = plan_with(*fitted, override)
    assert referee_key(plan_with(*fitted)) != referee_key(other)


def test_debates_before_an_asked_referee_do_not_depend_on_training() -> None:
    asked = ("teacher=scripted:0", "referee.kind=prompted")
    assert _debates(*asked) == _debates(*asked, "train.dtype=float32")


def test_topics_depend_on_the_list_they_begin() -> None:
    assert topics_key(plan_with(), 14) != topics_key(plan_with(), 20)


def test_training_depends_on_the_data_itself(tmp_path: Path) -> None:
    one, other = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "other")
    for folder, content in ((one, "a"), (other, "b")):
        folder.write_text("data/sft.parquet", content)
        folder.write_text("data/pairs.parquet", "same")
    plan = plan_with()
    assert sft_key(plan, one) != sft_key(plan, other)
    assert reward_key(plan, one) != reward_key(plan, other)
    from_model = plan_with("reward.start=model")
    assert reward_key(from_model, one) == reward_key(from_model, other)
    assert sft_key(plan, one) == sft_key(plan_with("ppo.beta=1", "debate.rounds=9"), one)
    assert sft_key(plan, one) != sft_key(plan_with("sft.epochs=2"), one)
    assert sft_key(plan, one) != sft_key(plan_with("train.dtype=float32"), one)
    assert sft_key(plan, one) == sft_key(plan_with("train.checkpoint_every=7"), one)
    longer = plan_with("reward.start=model", "sft.epochs=2")
    assert reward_key(from_model, one) == reward_key(longer, one)


def test_own_prompts_are_part_of_the_keys_of_what_is_said_with_them(tmp_path: Path) -> None:
    def keys(*own: str) -> list[str]:
        plan = plan_with(*(f"prompts={{{name}}}" for name in own))
        return [topics_key(plan, 14), debates_key(plan, 14), referee_key(plan)]

    def changed(own: str) -> list[bool]:
        return [now != before for now, before in zip(keys(own), keys(), strict=True)]

    assert changed("topics/prompts/system.txt: 'On {{ about }}.'") == [True, True, False]
    assert changed("referee/prompts/system.txt: Score.") == [False, True, True]
    own = "protocols/multirole/prompts/system_judgement.txt: 'Say {{ unknown }}.'"
    assert changed(own) == [False, True, False]
    folder = RunFolder(tmp_path)
    folder.write_text("data/sft.parquet", "a")
    assert sft_key(plan_with(f"prompts={{{own}}}"), folder) == sft_key(plan_with(), folder)
