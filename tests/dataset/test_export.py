"""What leaves a run: files that load again, and those that go to a hub."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.export import TABLES, export_files, hub_files
from rldf_ray.dataset.preference_data import preference_data, write_data
from rldf_ray.records import STATEMENT_SCHEMA, TOPIC_SCHEMA, table_of
from rldf_ray.storage.hub_card import CardError
from rldf_ray.storage.results import as_manifest
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import opinion, plan_with, statement


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    plan = plan_with()
    folder = RunFolder(tmp_path / "run")
    topics = [opinion(0), opinion(1, split="ppo"), opinion(2, split="eval")]
    said = [
        statement("They are all “lazy”.", 8.0, "high", topic=topics[0]),
        statement("It depends on the person.", 1.0, "low", topic=topics[0]),
    ]
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    folder.write_table("data/transcripts.parquet", table_of(said, STATEMENT_SCHEMA))
    made = preference_data(said, {t.topic_id: t for t in topics}, plan.data)
    folder.finish("data", plan.digest(), as_manifest(write_data(folder, plan, made)))
    return folder


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_has_every_row_and_a_card_that_names_its_files(
    run: RunFolder, form: Any, tmp_path: Path
) -> None:
    target = tmp_path / "there" / "it"
    written = export_files(run, target, form)
    assert sorted(path.name for path in written) == sorted(
        [f"{name}.{form}" for name in TABLES] + ["README.md"]
    )
    for name in TABLES:
        rows = run.read_table(f"data/{name}.parquet").to_pylist()
        path = target / f"{name}.{form}"
        lines = path.read_text(encoding="utf-8").splitlines() if form == "jsonl" else []
        assert rows == ([json.loads(x) for x in lines] or pq.read_table(path).to_pylist())
    card = (target / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---\n")[1])
    assert {c["data_files"] for c in head["configs"]} == {f"{name}.{form}" for name in TABLES}
    assert "Content warning" in card
    builder = {"jsonl": "json", "parquet": "parquet"}[form]
    assert f'load_dataset("{builder}", data_files="pairs.{form}")' in card


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_null(run: RunFolder, tmp_path: Path, score: float) -> None:
    """As earlier versions and other programs may have written it."""
    row = statement("They are all lazy.", score, "high", topic=opinion(0))
    run.write_table("data/transcripts.parquet", table_of([row], STATEMENT_SCHEMA))
    export_files(run, tmp_path / "out", "jsonl")
    for path in (tmp_path / "out").glob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        assert "NaN" not in text and "Infinity" not in text
    (line,) = (tmp_path / "out/transcripts.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["score"] is None


def test_an_export_overwrites_nothing(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DatasetError, match="no empty folder"):
        export_files(run, tmp_path / "there", "jsonl")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["notes.txt"]


def test_unfinished_data_are_not_exported(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no finished data: run `rldf data"):
        export_files(RunFolder(tmp_path), tmp_path / "there", "jsonl")
    assert not (tmp_path / "there").exists()


def test_the_hub_gets_the_card_and_every_table(run: RunFolder) -> None:
    run.write_text("data/notes.txt", "not for others")
    files = hub_files(run)
    assert files == {
        "README.md": run.root / "data/README.md",
        **{f"{name}.parquet": run.root / f"data/{name}.parquet" for name in TABLES},
    }
    assert all(isinstance(path, Path) and path.exists() for path in files.values())


def test_a_card_that_the_hub_does_not_take_is_refused(run: RunFolder) -> None:
    run.write_text("data/README.md", "---\nlanguage: English\n---\n")
    with pytest.raises(CardError, match=r"data/README\.md: language: 'English'"):
        hub_files(run)
