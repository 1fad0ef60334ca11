"""Settings: what is wrong is named, and nobody is reachable from elsewhere without keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rldf_ray.apps.serve.engine_apps import engine_environment, engine_threads
from rldf_ray.apps.serve.settings import SettingsError, check_address, read_settings
from rldf_ray.apps.serve.settings_sources import set_field, settings_for, settings_of_file
from rldf_ray.cluster.environment import OURS, SPINS, SPINS_ALONE


@pytest.mark.parametrize(
    ("host", "keys", "refused"),
    [
        ("127.0.0.1", None, False),
        ("::1", None, False),
        ("localhost", None, False),
        ("127.9.9.9", None, False),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("", None, True),
        ("example", None, True),
        ("192.168.1.2", None, True),
        ("0.0.0.0", "keys.json", False),
    ],
)
def test_other_addresses_need_keys(host: str, keys: str | None, refused: bool) -> None:
    if not refused:
        check_address(host, keys)
        return
    with pytest.raises(SettingsError, match="API keys"):
        check_address(host, keys)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "models"),
        ({"models": {}}, "models"),
        ({"models": {"policy": {}}}, "store: true"),
        ({"models": {"policy": {"folder": "x", "store": True}}}, "store: true"),
        ({"models": {"policy": {"store": True}}}, "names no folder"),
        ({"models": {"policy": {"folder": "x", "on": "base"}}}, "'base'"),
        ({"models": {"a/b": {"folder": "x"}}}, "letters"),
        ({"models": {"policy": {"folder": "x"}}, "default": "base"}, "policy"),
        ({"models": {"policy": {"folder": "x"}}, "hots": "y"}, "hots"),
        ({"models": {"policy": {"folder": "x"}}, "api_replicas": 0}, "api_replicas"),
        (
            {"models": {"policy": {"folder": "x"}}, "engine": {"min_replicas": 2}},
            "min_replicas=2 is more than max_replicas=1",
        ),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        read_settings(values)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for part in ("model", "sft/model", "reward/model"):
        (folder / part).mkdir(parents=True)
        (folder / part / "config.json").write_text("{}", encoding="utf-8")
    (folder / "plan.yaml").write_text(yaml.safe_dump({"model": "embedded"}), encoding="utf-8")
    return folder


def test_a_run_serves_its_models_and_its_reward_model(run: Path) -> None:
    settings = settings_for(str(run), ("policy", "sft", "base"), {"port": 1234})
    assert {name: s.folder for name, s in settings.models.items()} == {
        "policy": str(run / "model"),
        "sft": str(run / "sft/model"),
        "base": "embedded",
    }
    assert settings.reward == str(run / "reward/model")
    assert settings.runs == (str(run),)
    assert (settings.default_model, settings.referee_model, settings.port) == (
        "policy",
        "base",
        1234,
    )


def test_a_run_with_a_trained_referee_serves_it(run: Path) -> None:
    assert settings_for(str(run), ("policy",), {}).trained_referee is None
    (run / "referee").mkdir()
    (run / "referee/calibration.json").write_text("{}", encoding="utf-8")
    plan = {"model": "embedded", "referee": {"fit": {"max_length": 300}}}
    (run / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    settings = settings_for(str(run), ("policy",), {})
    assert settings.trained_referee == str(run / "referee")
    assert settings.referee_max_length == 300


def test_a_run_is_served_with_its_own_prompts(run: Path) -> None:
    own = {"referee/prompts/system.txt": "Be fair."}
    plan = {"model": "embedded", "prompts": own}
    (run / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    assert settings_for(str(run), ("policy",), {}).prompts == own
    with pytest.raises(SettingsError, match=r"prompts: .*system\.txt has the fields n"):
        settings_for(str(run), ("policy",), {"prompts": {"referee/prompts/system.txt": "{{ n }}"}})


def test_a_part_the_run_has_not_is_named(run: Path) -> None:
    (run / "sft/model/config.json").unlink()
    assert set(settings_for(str(run), ("policy", "base"), {}).models) == {"policy", "base"}
    with pytest.raises(SettingsError, match="sft"):
        settings_for(str(run), ("sft",), {})


def test_a_model_folder_is_the_policy(run: Path, tmp_path: Path) -> None:
    settings = settings_for(str(run / "model"), ("policy", "base"), {})
    assert {n: s.folder for n, s in settings.models.items()} == {"policy": str(run / "model")}
    assert settings.reward is None
    with pytest.raises(SettingsError, match="neither"):
        settings_for(str(tmp_path), ("policy",), {})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    args = {
        "models": {"policy": {"folder": "p"}, "base": {"folder": "b"}},
        "engine": {"gpus": 1, "tool_call_parser": "hermes", "max_num_seqs": 64},
        "limits": {"n": 2},
        "runs": ["a", "b"],
    }
    path = tmp_path / "application.yaml"
    deployed = {"applications": [{"args": args}], "http_options": {"port": 9}}
    path.write_text(yaml.safe_dump(deployed), encoding="utf-8")
    return path


def test_an_override_leaves_the_other_fields_of_its_section(config: Path, run: Path) -> None:
    over: dict[str, Any] = {"port": 7}
    for field, value in (
        ("engine.max_num_seqs", 16),
        ("limits.in_flight", 3),
        ("models.policy.folder", "q"),
        ("runs", []),
    ):
        set_field(over, field, value)
    settings = settings_of_file(config, over)
    engine = settings.engine
    assert (engine.gpus, engine.tool_call_parser, engine.max_num_seqs) == (1, "hermes", 16)
    assert (settings.limits.n, settings.limits.in_flight) == (2, 3)
    assert {n: s.folder for n, s in settings.models.items()} == {"policy": "q", "base": "b"}
    assert (settings.runs, settings.port) == ((), 7)
    of_run = settings_for(str(run), ("policy", "base"), {"models": {"base": {"folder": "other"}}})
    assert {n: s.folder for n, s in of_run.models.items()} == {
        "policy": str(run / "model"),
        "base": "other",
    }


def test_an_override_within_a_value_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"port\.x: port is set to a value"):
        set_field({"port": 1}, "port.x", 2)


def test_paths_are_those_of_the_working_folder_that_they_are_read_in(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "latest").symlink_to("run")
    given = {
        "models": {
            "policy": {"folder": "run/model"},
            "sft": {"folder": "~/run/sft/model"},
            "base": {"folder": "HuggingFaceTB/SmolLM2"},
            "own": {"folder": "embedded"},
            "far": {"folder": "s3://bucket/model"},
        },
        "keys": "keys.json",
        "store": "~/store",
        "reward": "run/reward/model",
        "trained_referee": "run/referee",
        "runs": ["latest"],
    }
    settings = read_settings(given)
    monkeypatch.chdir("/")
    assert [source.folder for source in settings.models.values()] == [
        str(run / "model"),
        str(run / "sft/model"),
        "HuggingFaceTB/SmolLM2",
        "embedded",
        "s3://bucket/model",
    ]
    assert (settings.keys, settings.store) == (str(tmp_path / "keys.json"), str(tmp_path / "store"))
    assert settings.reward == str(run / "reward/model")
    assert settings.trained_referee == str(run / "referee")
    assert settings.runs == (str(tmp_path / "latest"),)
    assert read_settings(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("models", "chosen", "threads"),
    [
        ({"policy": {"folder": "p"}}, None, 8),
        ({"policy": {"folder": "p"}, "base": {"folder": "b"}}, None, 4),
        ({"policy": {"folder": "p", "on": "base"}, "base": {"folder": "b"}}, None, 8),
        ({"policy": {"folder": "p"}, "base": {"folder": "b"}}, 2, 2),
    ],
)
def test_engines_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, object], chosen: int | None, threads: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    settings = read_settings({"models": models, "engine": {"threads": chosen}})
    assert engine_threads(settings) == threads


@pytest.mark.parametrize(
    ("models", "replicas", "spins"),
    [
        ({"policy": {"folder": "p"}}, 1, SPINS_ALONE),
        ({"policy": {"folder": "p", "on": "base"}, "base": {"folder": "b"}}, 1, SPINS_ALONE),
        ({"policy": {"folder": "p"}, "base": {"folder": "b"}}, 1, SPINS),
        ({"policy": {"folder": "p"}}, 2, SPINS),
    ],
)
def test_an_engine_that_shares_its_cores_waits_briefly(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, object], replicas: int, spins: int
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("GOMP_SPINCOUNT", str(SPINS))
    monkeypatch.setenv(OURS, str(SPINS))
    settings = read_settings({"models": models, "engine": {"max_replicas": replicas}})
    assert engine_environment(settings)["GOMP_SPINCOUNT"] == str(spins)
