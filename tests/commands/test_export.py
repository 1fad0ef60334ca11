"""`rldf eval export`: what it writes, and what it refuses before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.plans import study_presets
from tests.commands.conftest import Rldf

ROW = {"category": "Age", "example_id": 0, "prediction": 0}


@pytest.fixture
def scored(rldf: Rldf, tmp_path: Path) -> str:
    (tmp_path / "mine.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    given = ("--predictions", "mine.jsonl", "--bbq", str(SCENES), "--out", "scored")
    assert rldf("eval", "bbq", *given)[0] == 0
    return "scored"


@pytest.mark.parametrize("form", ["inspect", "lm-eval"])
def test_the_files_are_named(form: str, rldf: Rldf, scored: str, tmp_path: Path) -> None:
    status, out, _ = rldf("eval", "export", scored, "--to", form, "--out", "there")
    assert status == 0
    written = out.splitlines()
    assert written and all((tmp_path / path).is_file() for path in written)


def test_a_folder_that_holds_something_is_left_alone(
    rldf: Rldf, scored: str, tmp_path: Path
) -> None:
    words = ("eval", "export", scored, "--to", "inspect", "--out", "there")
    assert rldf(*words)[0] == 0
    status, _, err = rldf(*words)
    assert status == 1 and "there: exists and is no empty folder" in err


def test_a_folder_without_results_and_an_unknown_form_are_refused(
    rldf: Rldf, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = rldf("eval", "export", "empty", "--to", "inspect", "--out", "there")
    assert status == 1 and "eval/bbq.json" in err and "rldf study judges" in err
    assert not (tmp_path / "there").exists()
    status, _, err = rldf("eval", "export", "empty", "--to", "csv", "--out", "there")
    assert status == 2 and "lm-eval" in err


def test_a_study_without_right_answers_is_refused(rldf: Rldf, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "study")
    folder.write_json("study.json", {"study": "evince", "key": "k"})
    preset = study_presets("evince")["smoke"].read_text(encoding="utf-8")
    folder.write_text("plan.yaml", f"study: evince\n{preset}")
    folder.finish("hold", "k", {})
    status, _, err = rldf("eval", "export", "study", "--to", "inspect", "--out", "there")
    assert status == 1 and "studies of evince" in err and "judges do" in err
