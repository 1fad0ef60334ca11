"""What of a run, or of a model's folder, goes to the hub: its files, with a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rldf_ray.models.base_model import base_model
from rldf_ray.plan.saved import PLAN, saved_plan
from rldf_ray.report.model_card import CARD, model_card
from rldf_ray.storage.folders import foreign_file, visible
from rldf_ray.storage.hub import Files, HubError
from rldf_ray.storage.hub_card import CardError, check_card, is_hub_id
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.object_store import is_address
from rldf_ray.storage.run_folder import RunFolder

ADAPTER_CONFIG = "adapter_config.json"
BASE = "base_model_name_or_path"
# Of the trainer, with paths of this machine in it, and a pickle, which nobody should load.
LEFT_OUT = {"training_args.bin"}


def hub_files(where: str, *, adapter: bool = False, dataset: str | None = None) -> Files:
    """The files of a run's model, of its adapter, or of a model's own folder; the card first.

    Args:
        adapter: of a run: its policy's, as `ppo/adapter`, in place of `model/`.
        dataset: the id on the hub of what it was trained on, for the card.

    Raises:
        HubError: there is no such model, a file is of another place, or an adapter's base is a
            folder, which nobody else has.
        CardError: the card cannot be read, or the hub would not take it.
    """
    is_run = is_address(where) or (Path(where) / PLAN).exists()
    if not is_run and adapter:
        raise HubError(f"{where} is no run: --adapter is of a run; give the adapter's own folder")
    if is_run:
        source, given = _of_run(RunFolder.at(where), adapter)
    else:
        source, given = Path(where), {}
    files = {**_files(source), **given}
    _check_base(files.get(ADAPTER_CONFIG), source)
    card = _card(files.pop(CARD, None), source, dataset)
    return {CARD: card, **files}


def _of_run(folder: RunFolder, adapter: bool) -> tuple[Path, dict[str, Path | bytes]]:
    """The folder in a run, and what of it is not as it lies there."""
    plan = saved_plan(folder)
    if not adapter:
        source = folder.fetched("model")
        if not (source / "config.json").exists():
            raise HubError(
                f"{folder.where} has no model yet: `rldf train {plan.train.last} {folder.where}`"
            )
        return source, {}
    source = folder.fetched(f"{plan.train.last}/adapter")
    if not (source / ADAPTER_CONFIG).exists():
        raise HubError(
            f"{folder.where} has no adapter: train.lora.rank is {plan.train.lora.rank}; without "
            "--adapter the whole model is published"
        )
    if why := left_over(folder.root, f"{plan.train.last}/adapter"):
        raise HubError(f"{why}: `rldf train {plan.train.last} {folder.where}`")
    base = base_model(plan.model).hub_id
    if base is None:
        raise _not_on_hub(source, plan.model)
    config = json.loads((source / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    # PEFT names the folder that the base was loaded from, here and in its own card.
    named = json_text({**config, BASE: base}, indent=2).encode()
    return source, {ADAPTER_CONFIG: named, CARD: str(model_card(folder, plan, "adapter")).encode()}


def _check_base(config: Path | bytes | None, source: Path) -> None:
    """Nothing where others can load an adapter's base."""
    if config is None:
        return
    base = json.loads(config if isinstance(config, bytes) else config.read_bytes()).get(BASE)
    if not is_hub_id(base) or Path(base).exists():
        raise _not_on_hub(source, base)


def _not_on_hub(adapter: Path, base: str | None) -> HubError:
    return HubError(
        f"{adapter}: the adapter's base, {base}, is not on the hub, so nobody else can load it: "
        "publish the whole model"
    )


def _files(source: Path) -> dict[str, Path | bytes]:
    if not any((source / name).exists() for name in ("config.json", ADAPTER_CONFIG)):
        raise HubError(f"{source} is no model folder: no config.json, no {ADAPTER_CONFIG}")
    if why := foreign_file(source):
        raise HubError(why)
    paths = {str(path.relative_to(source)): path for path in visible(source, "**/*")}
    return {
        name: path
        for name, path in paths.items()
        if path.is_file()
        and path.name not in LEFT_OUT
        and not any(part.startswith(".") for part in Path(name).parent.parts)
    }


def _card(content: Path | bytes | None, source: Path, dataset: str | None) -> bytes:
    from huggingface_hub import ModelCard

    path = source / CARD
    if content is None:
        raise HubError(
            f"{path} is missing: a model on the hub has a card; of a run's policy, name the run"
        )
    text = content.decode() if isinstance(content, bytes) else path.read_text(encoding="utf-8")
    try:
        card: Any = ModelCard(text)
    except ValueError as error:
        raise CardError(f"{path}: the head cannot be read ({error})") from error
    if dataset is not None:
        card.data.datasets = [dataset]
    check_card(card, str(path))
    return str(card).encode()
