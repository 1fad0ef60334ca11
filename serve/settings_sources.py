"""Settings of what is to be served: a run, a model, or a Serve config file, with overrides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rldf_ray.apps.serve.settings import Settings, SettingsError, read_settings
from rldf_ray.models.embedded import located
from rldf_ray.plan.saved import saved_plan
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.yaml_text import read_yaml


def set_field(values: dict[str, Any], dotted: str, value: object) -> None:
    """Set one field by its dotted name in what is to go over the settings.

    Raises:
        SettingsError: it goes into a value.
    """
    *sections, field = dotted.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise SettingsError(f"{dotted}: {section} is set to a value, and has no fields")
    values[field] = value


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with those of `over` in their places, sections field by field."""
    both = dict(values)
    for name, value in over.items():
        before = both.get(name)
        deeper = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[name] = merged(before, value) if deeper else value  # type: ignore[arg-type]
    return both


def settings_for(model: str, names: tuple[str, ...], overrides: dict[str, Any]) -> Settings:
    """Settings to serve `model`: a run folder, a model folder, or a hub id.

    A run folder serves those of policy, sft and base that `names` has, with the run's reward
    model, and shows the run on the page.

    Raises:
        SettingsError: the folder has not what is asked for.
    """
    folder = Path(model)
    if not (folder / "plan.yaml").exists():
        if folder.is_dir() and not (folder / "config.json").exists():
            raise SettingsError(
                f"{model}: neither a run folder (plan.yaml) nor a model (config.json)"
            )
        policy = _policy(located(model), overrides)
        return read_settings(merged({"models": {"policy": policy}}, overrides))
    plan = saved_plan(RunFolder.at(folder))
    parts = {"policy": folder / "model", "sft": folder / "sft/model"}
    models: dict[str, Any] = {}
    for name in names:
        if name != "base" and not (parts.get(name, folder) / "config.json").exists():
            raise SettingsError(
                f"{folder} has no model {name!r} yet: finish the run, or leave it out"
            )
        source = located(plan.model if name == "base" else str(parts[name]))
        models[name] = _policy(source, overrides) if name == "policy" else {"folder": source}
    reward = folder / "reward/model"
    found: dict[str, Any] = {"models": models, "runs": [str(folder.resolve())]}
    if plan.chat_template_kwargs:
        found["chat_template_kwargs"] = plan.chat_template_kwargs
    if plan.prompts:
        found["prompts"] = plan.prompts
    if (reward / "config.json").exists():
        found["reward"] = str(reward.resolve())
    if (folder / "referee/calibration.json").exists():
        found["trained_referee"] = str((folder / "referee").resolve())
        found["referee_max_length"] = plan.referee.fit.max_length
    return read_settings(merged(found, overrides))


def settings_of_file(path: Path, overrides: dict[str, Any]) -> Settings:
    """The settings in a Serve config file: its first application's `args`, and where it listens.

    Overrides go over them field by field.

    Raises:
        SettingsError: it is no such file.
    """
    try:
        config = read_yaml(path.read_text(encoding="utf-8"))
        args = config["applications"][0]["args"]
        http = {k: v for k, v in config.get("http_options", {}).items() if k in ("host", "port")}
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise SettingsError(f"{path} is no Serve config file of this project: {error}") from error
    return read_settings(merged({**args, **http}, overrides))


def _policy(folder: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """With a store, the policy is whatever is published there."""
    return {"store": True} if overrides.get("store") else {"folder": folder}
