"""A run's data for others: JSON lines, Parquet, or a dataset on the Hugging Face hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from rldf_ray.dataset import DatasetError
from rldf_ray.storage.hub import Files
from rldf_ray.storage.hub_card import check_card
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

TABLES = ("topics", "transcripts", "sft", "pairs", "prompts")


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


def hub_files(folder: RunFolder) -> Files:
    """What goes to the hub: the card and the tables.

    Raises:
        DatasetError: the data stage has not finished.
        CardError: the hub would not take the card.
    """
    from huggingface_hub import DatasetCard

    card = folder.root / "data/README.md"
    tables = tables_of(folder)
    check_card(DatasetCard(card.read_text(encoding="utf-8")), str(card))
    return {
        "README.md": card,
        **{f"{table}.parquet": folder.root / f"data/{table}.parquet" for table in tables},
    }


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
