"""A run's data for others: JSON lines, Parquet, or a dataset on the Hugging Face hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal, Protocol

from rldf_ray.dataset import DatasetError
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

TABLES = ("topics", "transcripts", "sft", "pairs", "prompts")


class Hub(Protocol):
    """The part of `huggingface_hub.HfApi` that is used."""

    def create_repo(
        self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool
    ) -> Any: ...

    def dataset_info(self, repo_id: str) -> Any: ...

    def upload_folder(
        self, *, repo_id: str, repo_type: str, folder_path: str, allow_patterns: list[str],
        commit_message: str,
    ) -> Any: ...  # fmt: skip


def tables_of(folder: RunFolder) -> list[str]:
    """Names of a run's tables; an imported run need not have all of them.

    Raises:
        DatasetError: the data stage has not finished.
    """
    if folder.manifest("data") is None:
        raise DatasetError(f"{folder.root} has no finished data: run `rldf data {folder.root}`")
    return [name for name in TABLES if (folder.root / f"data/{name}.parquet").exists()]


def export_files(folder: RunFolder, target: Path, form: Literal["jsonl", "parquet"]) -> list[Path]:
    """Write tables and card to `target`, a new or empty folder; returns the files.

    Raises:
        DatasetError: the data stage has not finished, or `target` holds something.
    """
    tables = tables_of(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DatasetError(f"{target} exists and is no empty folder: give another destination")
    target.mkdir(parents=True, exist_ok=True)
    files = [_export_table(folder, name, target, form) for name in tables]
    card = (folder.root / "data/README.md").read_text(encoding="utf-8")
    if form == "jsonl":
        card = card.replace('"parquet"', '"json"').replace(".parquet", ".jsonl")
    (target / "README.md").write_text(card, encoding="utf-8")
    return [*files, target / "README.md"]


def export_to_hub(folder: RunFolder, name: str, hub: Hub, public: bool) -> None:
    """Upload tables and card as the dataset `name`, private unless `public`.

    Raises:
        DatasetError: the data stage has not finished, or the dataset is there and public.
    """
    files = [f"{table}.parquet" for table in tables_of(folder)]
    hub.create_repo(name, repo_type="dataset", private=not public, exist_ok=True)
    if not public and not hub.dataset_info(name).private:
        raise DatasetError(
            f"the dataset {name} is there already and public: give another name, or --public"
        )
    hub.upload_folder(
        repo_id=name,
        repo_type="dataset",
        folder_path=str(folder.root / "data"),
        allow_patterns=[*files, "README.md"],
        commit_message="Data of an rldf_ray run",
    )


def _export_table(
    folder: RunFolder, name: str, target: Path, form: Literal["jsonl", "parquet"]
) -> Path:
    path = target / f"{name}.{form}"
    if form == "parquet":
        shutil.copyfile(folder.root / f"data/{name}.parquet", path)
        return path
    with path.open("w", encoding="utf-8") as file:
        for batch in folder.read_batches(f"data/{name}.parquet"):
            file.writelines(json_text(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
    return path
