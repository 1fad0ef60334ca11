"""Odd files that people have given, as they lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.dataset.begin_run import Given, import_run
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.overlap import NOTHING_EVALUATED
from tests.fakes import plan_with

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="shared/cases is not beside the repository"
)
PLAN = plan_with()


def test_sides_that_are_whole_conversations_are_answers_to_their_prompt(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    import_run(PLAN, run, Given(pairs=CASES / "pairs_conversations.jsonl"), NOTHING_EVALUATED)
    rows = run.read_table("data/pairs.parquet").to_pylist()
    assert len(rows) == 8
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["user"]
        assert len(row["chosen"]) == len(row["rejected"]) == 1
        assert row["chosen"] != row["rejected"]
