"""Plans: presets, overrides, and errors that say what is wrong and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rldf_ray.plan import (
    RUNTIME_FIELDS,
    Plan,
    PlanError,
    endpoint_at,
    load_plan,
    plan_fields,
    presets,
)
from rldf_ray.topics.bias_type import bias_type
from tests.fakes import plan_with

FIELDS = list(plan_fields())
NUMBERS = [f.path for f in FIELDS if {"int", "float"} & set(f.type.split(" | "))]
NEARLY_DEFAULT = Plan.model_validate({"ppo": {"episodes": 5120}})


def value_at(plan: Plan, path: str) -> Any:
    value: Any = plan
    for part in path.split("."):
        value = getattr(value, part)
    return value


def error_of(*overrides: str, plan: str = "opinions") -> str:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, overrides)
    return str(caught.value)


# ---- presets and defaults


def test_the_documented_presets_ship_with_the_package() -> None:
    assert {"quickstart", "smoke", "paper-7b"} <= set(presets())


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_names_bias_types_that_exist(name: str) -> None:
    plan = load_plan(name)
    assert plan.name == name
    for bias in plan.bias_types:
        assert plan.debate.debaters <= len(bias_type(bias).identities)


@pytest.mark.parametrize("name", presets())
def test_a_written_plan_reads_back_as_the_same_plan(name: str, tmp_path: Path) -> None:
    plan = load_plan(name, ["seed=7", "data.max_sft=3"])
    saved = tmp_path / "plan.yaml"
    saved.write_text(plan.to_yaml(), encoding="utf-8")
    again = load_plan(str(saved))
    assert again == plan
    assert again.digest() == plan.digest()


@pytest.mark.parametrize(
    "plan", [NEARLY_DEFAULT, load_plan("paper-7b")], ids=["defaults", "paper-7b"]
)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("bias_types", ("age", "nationality", "institution", "beauty", "profession")),
        ("topics.per_bias_type", 2000),
        ("debate.debates", 5000),
        ("debate.debaters", 3),
        ("debate.rounds", 5),
        ("debate.order", "simultaneous"),
        ("referee.label_source", "said"),
        ("referee.threshold_kind", "absolute"),
        ("referee.threshold", 3.0),
        ("data.pairing", "same_topic"),
        ("data.min_gap", 0.0),
        ("sft.epochs", 1.0),
        ("reward.batch_size", 32),
        ("reward.max_length", 2048),
        ("reward.learning_rate", 3e-5),
        ("reward.epochs", 1.0),
        ("ppo.batch_size", 4),
        ("ppo.learning_rate", 5e-6),
        ("ppo.epochs", 1),
        ("ppo.beta", 0.05),
        ("ppo.kl_target", None),
        ("teacher", None),
    ],
)
def test_the_papers_values_are_kept(plan: Plan, path: str, value: object) -> None:
    assert value_at(plan, path) == value


@pytest.mark.parametrize("name", ["opinions", "smoke"])
def test_presets_of_the_embedded_model_label_by_expectation_relative_to_the_round(
    name: str,
) -> None:
    plan = load_plan(name)
    assert plan.model == "embedded"
    assert plan.referee.label_source == "expected"
    assert plan.referee.threshold_kind == "relative"


def test_a_plan_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValidationError):
        load_plan("smoke").debate.rounds = 9


# ---- overrides


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("debate.rounds=10", "debate.rounds", 10),
        (" debate.rounds =10", "debate.rounds", 10),
        ("reward.learning_rate=1e-6", "reward.learning_rate", 1e-6),
        ("teacher=openai:gpt-9", "teacher", "openai:gpt-9"),
        ("teacher=null", "teacher", None),
        ("bias_types=[beauty, age]", "bias_types", ("beauty", "age")),
        ("train.offload=true", "train.offload", True),
        ("endpoint.base_url=http://h:1/v1?a=b", "endpoint.base_url", "http://h:1/v1?a=b"),
        ("debate={rounds: 4}", "debate.rounds", 4),
        # A section in braces is the whole section, with defaults for what is not in it.
        ("debate={rounds: 4}", "debate.debates", 5000),
        ("name=2024", "name", "2024"),
        ("name=2024.10", "name", "2024.10"),
        ("name=2024-05-01", "name", "2024-05-01"),
        ("name=yes", "name", "yes"),
        ("endpoint.base_url=null", "endpoint.base_url", None),
        ("train.offload=yes", "train.offload", True),
    ],
)
def test_an_override_sets_the_field_of_its_path(override: str, path: str, value: object) -> None:
    assert value_at(load_plan("opinions", [override]), path) == value


def test_the_last_override_of_a_field_counts_and_others_stay() -> None:
    plan = load_plan("opinions", ["debate.rounds=4", "seed=3", "debate.rounds=6"])
    assert plan == load_plan("opinions", ["seed=3", "debate.rounds=6"])
    assert plan.debate.debaters == load_plan("opinions").debate.debaters


@given(rounds=st.integers(1, 10**6), top_p=st.floats(0.001, 1))
@settings(deadline=None, max_examples=20)
def test_any_allowed_value_survives_an_override(rounds: int, top_p: float) -> None:
    plan = load_plan("smoke", [f"debate.rounds={rounds}", f"debate.top_p={top_p!r}"])
    assert (plan.debate.rounds, plan.debate.top_p) == (rounds, top_p)


def test_overriding_a_preset_leaves_the_preset_alone() -> None:
    before = load_plan("smoke")
    load_plan("smoke", ["debate.rounds=9"])
    assert load_plan("smoke") == before


# ---- who plays which part


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], ["vllm:embedded"] * 3),
        (["teacher=openai:big"], ["openai:big"] * 3),
        (
            ["teacher=openai:big", "debate.model=vllm:small"],
            ["openai:big", "vllm:small", "openai:big"],
        ),
        (
            ["topics.model=openai:a", "debate.model=vllm:b", "referee.model=openai:c"],
            ["openai:a", "vllm:b", "openai:c"],
        ),
    ],
)
def test_a_part_without_a_model_of_its_own_is_played_by_the_teacher(
    overrides: list[str], expected: list[str]
) -> None:
    plan = load_plan("smoke", ["referee.kind=prompted", *overrides])
    assert [str(plan.speaker_of(part)) for part in ("topics", "debate", "referee")] == expected
    assert tuple(map(str, plan.speakers())) == tuple(dict.fromkeys(expected))


def test_a_trained_referee_is_fitted_from_the_model_and_no_teacher_plays_it() -> None:
    plan = load_plan("smoke", ["teacher=openai:big", "referee.kind=trained"])
    assert plan.referee.kind == "trained" and str(plan.speaker_of("referee")) == "trained:embedded"
    other = load_plan("smoke", ["referee={kind: trained, fit: {model: some/model}}"])
    assert str(other.speaker_of("referee")) == "trained:some/model"


# ---- errors


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("debate.rounds=0", ["debate.rounds", "found 0", "greater than or equal to 1"]),
        ("debate.rounds=5.5", ["debate.rounds", "5.5", "integer"]),
        ("debate.rounds=many", ["debate.rounds", "'many'", "integer"]),
        ("debate.debaters=6", ["debate.debaters", "found 6", "less than or equal to 5"]),
        ("debate.debaters=1", ["debate.debaters", "found 1", "greater than or equal to 2"]),
        ("debate.order=random", ["debate.order", "'random'", "'simultaneous' or 'sequential'"]),
        ("referee.label_source=felt", ["referee.label_source", "'felt'", "'said' or 'expected'"]),
        ("referee.threshold=11", ["referee.threshold", "found 11", "less than or equal to 10"]),
        (
            "bias_types=[age, /mine/age.yaml]",
            ["bias_types", "age: the name of two", "another name"],
        ),
        ("data.pairing=any", ["data.pairing", "'any'", "'same_topic' or 'same_role'"]),
        ("train.zero_stage=4", ["train.zero_stage", "found 4", "0, 1, 2 or 3"]),
        ("debate.temperature=.nan", ["debate.temperature", "nan"]),
        ("teacher=gpt", ["teacher", "'gpt'", "'vllm:MODEL'", "'openai:MODEL'", "null"]),
        (
            "referee={kind: trained, judgements: checked}",
            ["referee", "judgements=checked", "kind=prompted", "judgements=scored"],
        ),
        (
            "referee={judgements: matched}",
            ["judgements=matched", "debate.answers=written", "debate.answers=chosen", "checked"],
        ),
        (
            "referee={kind: trained, model: vllm:m}",
            ["referee", "kind=trained", "referee.fit.model", "kind=prompted"],
        ),
        (
            "referee={kind: trained, fit: {batch_size: 6, micro_batch: 4}}",
            ["referee.fit.batch_size=6", "referee.fit.micro_batch=4"],
        ),
        ("referee.fit.held_out_share=0", ["referee.fit.held_out_share"]),
        ("referee.model=gpt", ["referee.model", "'gpt'", "'openai:MODEL'"]),
        ("teacher=scripted:²", ["teacher", "'scripted:²'", "the seconds"]),
        (f"teacher=scripted:{'9' * 400}", ["teacher", "the seconds"]),
        (
            "endpoint.base_url=localhost:8000/v1",
            ["endpoint.base_url: ", "found localhost:8000/v1", "http://localhost:8000/v1"],
        ),
        ("endpoint.base_url=http:/models", ["endpoint.base_url", "http:/models"]),
        ("endpoint.base_url='http://[::1/v1'", ["endpoint.base_url", "no URL"]),
        ("topics.model='vllm:'", ["topics.model", "'vllm:'", "comes a model"]),
        ("debate.layout=mine", ["debate.layout", "'mine'", "'shared' or 'paper'"]),
        ("engines={count: 2, max_count: 1}", ["engines", "max_count=1", "count=2", "2 and more"]),
        ("endpoint.budget_usd=5", ["endpoint", "budget_usd needs prompt_price"]),
        (
            "debate.max_tokens=1024",
            ["debate.max_tokens=1024", "engines.max_model_len=1024", "no prompt is left room"],
        ),
        (
            "referee={kind: debate, evaluation_tokens: 2000}",
            ["referee.evaluation_tokens=2000", "engines.max_model_len=1024"],
        ),
        ("bias_types=[age, age]", ["bias_types", "twice", "['age', 'age']"]),
        ("bias_types=[]", ["bias_types", "at least 1", "[]"]),
        ("bias_types=age", ["bias_types", "'age'", "in brackets, as [age]"]),
        ("bias_types=age,profession", ["bias_types", "in brackets, as [age,profession]"]),
        ("debate.rounds=yes", ["debate.rounds", "found True", "number"]),
        ("debate.top_p=true", ["debate.top_p", "found True", "number"]),
        ("train.zero_stage=on", ["train.zero_stage", "found True", "number"]),
        ("referee.rounds=no", ["referee.rounds", "found False", "number"]),
        ("train.offload=maybe", ["train.offload", "'maybe'", "boolean"]),
        ("debate=5", ["debate", "found 5", "DebateSection"]),
        ("debate.round=5", ["debate.round:", "no such field", "rounds, order"]),
        ("debates=5", ["debates:", "no such field", "debate, referee", "bias_types"]),
        ("debate.rounds.most=5", ["debate.rounds.most=5", "rounds is a value, not a section"]),
        ("debate.rounds", ["'debate.rounds'", "FIELD=VALUE"]),
        ("=5", ["'=5'", "FIELD=VALUE"]),
        ("debate.rounds=[1", ["debate.rounds=[1", "not valid YAML"]),
        (
            "topics={debate_share: 0.9, ppo_share: 0.45}",
            ["topics", "debate_share + ppo_share", "1.35", "below 1"],
        ),
        (
            "sft={batch_size: 33, micro_batch: 8}",
            ["sft.batch_size=33", "multiple of", "sft.micro_batch=8", "train.workers=1"],
        ),
        (
            "reward={batch_size: 9, micro_batch: 2}",
            ["reward.batch_size=9", "multiple of", "reward.micro_batch=2", "train.workers=1"],
        ),
        (
            "ppo={rollout_batch: 6, batch_size: 4, episodes: 12}",
            ["ppo.rollout_batch=6", "multiple of", "ppo.batch_size=4"],
        ),
        (
            "ppo={rollout_batch: 8, batch_size: 4, episodes: 16, answers_per_prompt: 3}",
            ["ppo.rollout_batch=8", "multiple of", "ppo.answers_per_prompt=3", "train.workers=1"],
        ),
        (
            "ppo={rollout_batch: 16, batch_size: 4, episodes: 65}",
            ["ppo.episodes=65", "multiple of", "ppo.rollout_batch=16"],
        ),
        (
            "train={workers: 3}",
            ["train.workers=3", "multiple of", "batch_size="],
        ),
    ],
)
def test_an_error_names_the_field_the_value_and_what_is_allowed(
    override: str, parts: list[str]
) -> None:
    message = error_of(override)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("path", [f.path for f in FIELDS])
def test_every_field_refuses_a_value_of_another_type_by_name(path: str) -> None:
    message = error_of(f"{path}=[[oddity]]")
    assert path in message and "oddity" in message and "should be" in message


@pytest.mark.parametrize("path", NUMBERS)
def test_no_number_of_a_plan_may_be_negative(path: str) -> None:
    message = error_of(f"{path}=-1")
    assert f"{path}: " in message and "-1" in message and "greater than" in message


def test_engines_that_answer_meanwhile_cannot_sleep() -> None:
    message = error_of("engines.sleep=true", "ppo.overlap=true")
    assert "engines.sleep=true" in message and "ppo.overlap=true" in message


def test_all_wrong_fields_are_named_at_once() -> None:
    message = error_of("debate.rounds=0", "ppo.beta=-1", "nonsense=1")
    assert all(part in message for part in ("debate.rounds", "ppo.beta", "nonsense"))


def test_an_unknown_plan_is_told_the_presets() -> None:
    message = error_of(plan="quickstrat")
    assert "'quickstrat'" in message
    assert all(name in message for name in presets())


@pytest.mark.parametrize(
    ("content", "part"),
    [("a: [1", "not valid YAML"), ("- a\n", "expected fields, found list"), ("7", "found int")],
)
def test_a_file_that_is_no_plan_is_refused_by_name(content: str, part: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    message = error_of(plan=str(path))
    assert str(path) in message and part in message


def test_a_text_that_yaml_takes_for_a_number_is_answered_with_quotes(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: 2024\n", encoding="utf-8")
    assert "name: " in error_of(plan=str(path)) and "as '2024'" in error_of(plan=str(path))


def test_a_plan_file_that_is_not_text_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert str(path) in error_of(plan=str(path))


def test_a_file_that_names_nothing_is_the_plan_of_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("", encoding="utf-8")
    assert load_plan(str(path)) == Plan()


def test_a_file_has_the_default_of_every_field_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("ppo: {episodes: 5120}\n", encoding="utf-8")
    assert load_plan(str(path)) == NEARLY_DEFAULT


def test_answers_that_no_engine_gives_may_be_as_long_as_an_endpoint_has_them() -> None:
    long = ["debate.max_tokens=4000", "teacher=openai:m"]
    assert load_plan("opinions", long).debate.max_tokens == 4000
    chosen = ["debate.max_tokens=4000", "debate.answers=chosen", "topics.judgement_share=1"]
    load_plan("opinions", ["referee.kind=prompted", *chosen])
    load_plan("opinions", ["debate.max_tokens=4000", "debate.protocol=mabrf"])
    judged = "referee={kind: debate, evaluation_tokens: 2000, model: 'openai:m'}"
    load_plan("opinions", [judged])


# ---- digests and the list of fields


@pytest.mark.parametrize(
    "override",
    ["seed=5", "debate.rounds=4", "data.max_sft=9", "teacher=openai:m", "engines.dtype=float32"],
)
def test_what_shapes_the_results_changes_the_digest(override: str) -> None:
    assert load_plan("smoke", [override]).digest() != load_plan("smoke").digest()


def _another(value: Any) -> Any:
    """A different value that the same field takes."""
    if isinstance(value, tuple):
        return list(value[1:])
    if isinstance(value, str):
        return {"stop": "warn", "warn": "stop"}.get(value, "ANOTHER")
    if isinstance(value, bool):
        return not value
    if value is None or isinstance(value, int):
        return (value or 0) + 1
    return value / 2 if value < 1 else value + 1


@pytest.mark.parametrize("path", RUNTIME_FIELDS)
def test_how_a_run_is_carried_out_does_not_change_the_digest(path: str) -> None:
    prices = "endpoint={prompt_price: 1, generated_price: 1}"
    plan = load_plan("smoke", [prices])
    value = value_at(plan, path)
    changed = load_plan("smoke", [prices, f"{path}={_another(value)}"])
    assert value_at(changed, path) != value
    assert changed.digest() == plan.digest()


WRITTEN_WHERE_SET = {
    "chat_template_kwargs",
    "prompts",
    "endpoint.reasoning_effort",
    "endpoint.chat_template_kwargs",
    "endpoint.extra_body",
    "debate.seats",
    "referee.fit.bias_types",
    "referee.critic",
    "referee.rounds",
    "referee.pool",
    "referee.mode",
    "referee.evaluation_tokens",
    "evaluate.corpus",
    "debate.settings",
}


def test_the_list_of_fields_is_complete_and_described() -> None:
    def leaves(values: dict[str, Any], prefix: str = "") -> set[str]:
        return {
            path
            for name, value in values.items()
            for path in (
                leaves(value, f"{prefix}{name}.")
                if isinstance(value, dict)
                else {f"{prefix}{name}"}
            )
        }

    written = leaves(yaml.safe_load(NEARLY_DEFAULT.to_yaml()))
    assert {f.path for f in FIELDS} == written | WRITTEN_WHERE_SET
    assert [f.path for f in FIELDS if not f.description] == []
    shown = {f.path: f.default for f in FIELDS} | {"ppo.episodes": 5120}
    assert shown == {path: value_at(NEARLY_DEFAULT, path) for path in shown}


@pytest.mark.parametrize(
    "path",
    ["debate.rounds", "debate.debaters", "referee.threshold", "reward.batch_size", "ppo.beta"],
)
def test_a_field_from_the_paper_names_its_source(path: str) -> None:
    (field,) = [f for f in FIELDS if f.path == path]
    assert "paper" in field.source or "METHOD" in field.source


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:hunter2@models.example/v1",
        "https://models.example/v1?api_key=hunter2",
        "https://models.example/v1?sig=hunter2",
    ],
)
def test_an_address_that_holds_a_secret_is_refused_without_repeating_it(url: str) -> None:
    for refused in (
        lambda: load_plan("smoke", [f"endpoint.base_url={url}"]),
        lambda: endpoint_at(url, "KEY"),
    ):
        with pytest.raises(PlanError, match="environment variable") as caught:
            refused()
        assert "hunter2" not in str(caught.value)


def test_an_address_may_have_other_parameters() -> None:
    url = "https://models.example/v1?api-version=3"
    assert endpoint_at(url, "KEY").base_url == url


def test_a_plans_endpoint_keeps_its_fields_under_a_commands_options(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("endpoint: {base_url: http://127.0.0.1:1/v1, reasoning_effort: low}")
    kept, other = (
        endpoint_at(None, None, str(plan)),
        endpoint_at("http://127.0.0.1:2/v1", "KEY", str(plan)),
    )
    assert (kept.base_url, kept.api_key_env) == ("http://127.0.0.1:1/v1", "OPENAI_API_KEY")
    assert (other.base_url, other.api_key_env) == ("http://127.0.0.1:2/v1", "KEY")
    for endpoint in (kept, other):
        assert endpoint.request_fields() == {"reasoning_effort": "low"}


def test_a_seed_that_no_library_takes_is_refused_at_once() -> None:
    assert load_plan("smoke", [f"seed={2**31 - 1}"]).seed == 2**31 - 1
    assert "less than or equal to" in error_of(f"seed={2**32}")


def test_a_plan_that_an_earlier_version_saved_is_read_as_it_was_meant(tmp_path: Path) -> None:
    """It has the digest that the run's stages have, so the run is still that plan's."""
    before = plan_with("debate.unknown=bbq")
    values = before.model_dump(mode="json")
    for field in ("protocol", "unknown"):
        del values["debate"][field]
    del values["sft"]["held_out_share"]
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load_plan(str(path), saved=True).digest() == before.digest()
    assert load_plan(str(path), ["debate.unknown=own"], saved=True).debate.unknown == "own"
    assert load_plan(str(path)).debate.unknown == "own"
