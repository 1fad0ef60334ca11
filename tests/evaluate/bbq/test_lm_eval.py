"""lm-evaluation-harness reads an exported policy as it is: a task of our own, from the shell."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.eval import environment
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.models.embedded import embedded_model_folder
from rldf_ray.plan import load_plan
from rldf_ray.report.model_card import export_model
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.storage.run_folder import RunFolder

TASK = "who_was_it"


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    """The interpreter of an environment with lm-evaluation-harness."""
    try:
        return environment(tmp_path / "venv")
    except SystemExit as error:
        pytest.skip(f"lm-evaluation-harness could not be installed: {error}")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """What a run leaves for its users, here of a policy that is the embedded model."""
    run = RunFolder(tmp_path / "run")
    shutil.copytree(embedded_model_folder(), run.root / "ppo/model")
    export_model(run, load_plan("smoke"))
    return run.root / "model"


def write_task(folder: Path) -> None:
    items = load_bbq(SCENES, ["Age"], 8).items
    rows = [
        {"text": f"{item.context} {item.question}", "options": item.options, "label": item.label}
        for item in items
    ]
    (folder / "items.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    task = {
        "task": TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "items.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{text}}",
        "doc_to_choice": "options",
        "doc_to_target": "label",
    }
    (folder / f"{TASK}.yaml").write_text(json.dumps(task), encoding="utf-8")


@pytest.mark.slow
def test_the_harness_runs_on_an_exported_policy(
    harness: Path, policy: Path, tmp_path: Path
) -> None:
    write_task(tmp_path)
    command = [str(harness), "-m", "lm_eval", "run", "--model", "hf", "--device", "cpu"]
    command += ["--model_args", f"pretrained={policy},dtype=bfloat16", "--apply_chat_template"]
    command += ["--tasks", TASK, "--include_path", str(tmp_path)]
    command += ["--output_path", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2000)
    assert done.returncode == 0, done.stderr[-2000:]
    (written,) = (tmp_path / "out").rglob("results*.json")
    found = json.loads(written.read_text(encoding="utf-8"))
    assert 0 <= found["results"][TASK]["acc,none"] <= 1
    assert found["n-samples"][TASK]["effective"] == 8
