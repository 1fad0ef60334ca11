"""Settings: what is wrong is named, and nobody is reachable from elsewhere without keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rldf_ray.apps.serve.engine_apps import engine_environment, engine_threads
from rldf_ray.apps.serve.settings import SettingsError, check_address, read_settings, settings_for
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
