"""A finished study's folder: its plan, and the training rows that its protocol makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rldf_ray.errors import UserError
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import study_named, study_names
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.whole_files import whole_file
from rldf_ray.storage.yaml_text import read_yaml
from rldf_ray.studies.holding import HELD
from rldf_ray.studies.plans import LoadedStudy, load_study


class UnfinishedError(UserError):
    """A folder holds no study, or none that has ended; the message says what to do."""


def finished_study(
    folder: RunFolder, names: Sequence[str] = (), overrides: Sequence[str] = ()
) -> tuple[str, LoadedStudy]:
    """Whose study a folder holds, and its plan.

    Args:
        names: studies that it may be of; by default any.
        overrides: of the plan, for reckoning anew.

    Raises:
        UnfinishedError: it holds none, another one, or one that has not ended.
    """
    path = folder.fetched("plan.yaml")
    saved = read_yaml(path.read_text(encoding="utf-8")) if path.exists() else None
    name = saved.get("study") if isinstance(saved, Mapping) else None
    allowed = names or study_names()
    if not isinstance(name, str) or name not in allowed:
        what = "no study" if name is None else f"a study of {name}"
        raise UnfinishedError(
            f"{folder.where} holds {what}; needed: a finished study of {' or '.join(allowed)}"
        )
    folder.fetched(f"stages/{HELD}.json")
    if folder.manifest(HELD) is None:
        raise UnfinishedError(
            f"{folder.where}: the study has not ended; `rldf study {name} {path} --out "
            f"{folder.where}` goes on with it"
        )
    return name, load_study(name, str(path), overrides)


def write_training_rows(folder: RunFolder, out: Path) -> dict[Path, int]:
    """Write NAME.jsonl for each kind of rows of a finished study; returns how many each holds.

    Raises:
        UnfinishedError: the folder holds no such study, or its protocol makes no training rows.
    """
    name, loaded = finished_study(folder)
    training_rows = getattr(study_named(name), "training_rows", None)
    if training_rows is None:
        having = [one for one in study_names() if hasattr(study_named(one), "training_rows")]
        raise UnfinishedError(
            f"{folder.where}: studies of {name} make no training rows; those of "
            f"{' and '.join(having)} do"
        )
    with own_prompts(loaded.plan.prompts):
        return _written(training_rows(folder, loaded.settings, loaded.plan.seed), out)


def _written(kinds: Mapping[str, Iterable[Mapping[str, object]]], out: Path) -> dict[Path, int]:
    out.mkdir(parents=True, exist_ok=True)
    written = {}
    for kind, rows in kinds.items():
        path = out / f"{kind}.jsonl"
        lines = [f"{json_text(row)}\n" for row in rows]
        with whole_file(path) as scratch:
            scratch.write_text("".join(lines), encoding="utf-8")
        written[path] = len(lines)
    return written
