"""Folders that people filled, with what their systems put there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rldf_ray.storage.folders import visible
from tests.rights import without_rights

SOURCES = Path(__file__).resolve().parents[2]
# Folders of our own making, which have to be seen whole; `folders.py` itself.
OWN = {
    "rldf_ray/storage/folders.py",
    "rldf_ray/storage/copied_files.py",
    "rldf_ray/storage/copy_folder.py",
    "rldf_ray/storage/nested_runs.py",
    "rldf_ray/cluster/shared_memory.py",
    "rldf_ray/dataset/export.py",
    "rldf_ray/engines/sent.py",
    "rldf_ray/eval_logs/forms.py",
    "rldf_ray/models/limits.py",
    "rldf_ray/plan/saved.py",
    "rldf_ray/prompts/own.py",
    "rldf_ray/stages/order.py",
    "rldf_ray/storage/run_folder.py",
    "rldf_ray/train/checkpoint.py",
    "rldf_ray/train/shards.py",
    "rldf_ray/train/unpickling.py",
    "rldf_ray/train/worker.py",
    "serve/store.py",
    "tune/keys.py",
    "tune/store.py",
}


def test_names_that_begin_with_a_dot_are_left_out(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "._a.jsonl", ".DS_Store", "c.csv"):
        (tmp_path / name).touch()
    assert [path.name for path in visible(tmp_path, "*.jsonl")] == ["a.jsonl", "b.jsonl"]
    assert [path.name for path in visible(tmp_path)] == ["a.jsonl", "b.jsonl", "c.csv"]


def test_a_folder_without_rights_is_not_an_empty_one(tmp_path: Path) -> None:
    assert visible(tmp_path / "none") == []
    with without_rights("closed") as folder, pytest.raises(PermissionError, match="closed"):
        visible(folder)


def test_every_reader_of_a_folder_leaves_them_out() -> None:
    listing = {
        path.relative_to(SOURCES).as_posix()
        for package in ("rldf_ray", "serve", "tune")
        for path in (SOURCES / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("glob", "rglob", "iterdir", "walk")
    }
    assert listing == OWN
