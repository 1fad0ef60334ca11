"""What needs no model of ours runs without the packages that compute: they are hidden from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.extras import EXTRAS
from rldf_ray.sets.bbq.data import load_bbq
from tests.endpoint import Server, made_up, serving

WITHOUT = """
import runpy, sys
from importlib.machinery import PathFinder

class Refused(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        refused = name.partition(".")[0] in {refused!r}
        return None if refused else super().find_spec(name, path, target)

sys.meta_path[:] = [Refused if finder is PathFinder else finder for finder in sys.meta_path]
sys.argv = ["rldf", *sys.argv[1:]]
runpy.run_module("rldf_ray", run_name="__main__")
"""


def rldf(*words: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(refused=set(EXTRAS))
    return subprocess.run(
        [sys.executable, "-c", program, *words], check=False, capture_output=True, text=True
    )


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=made_up())) as server:
        yield f"endpoint.base_url={server.url}"


def test_debates_at_an_endpoint_and_their_data(endpoint: str, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    plan = ["--plan", "smoke", "--set", "teacher=openai:small", "--set", endpoint]
    referee = "referee={kind: prompted, label_source: said, audit_pairs: 2}"
    for words in (["debate", run, *plan, "--set", referee], ["data", run], ["report", run]):
        done = rldf(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert pq.read_table(f"{run}/data/transcripts.parquet").num_rows > 0
    assert pq.read_table(f"{run}/data/sft.parquet").num_rows > 0


def test_a_study_at_an_endpoint(endpoint: str, tmp_path: Path) -> None:
    data = tmp_path / "pairs.jsonl"
    row = {"question": "Which?", "answer1": "This.", "answer2": "That.", "label": 1}
    data.write_text(json.dumps(row) + "\n", encoding="utf-8")
    models = "models={a: openai:small, b: openai:large}"
    done = rldf(
        "study", "judges", "smoke", "--out", str(tmp_path / "study"),
        "--set", models, "--set", endpoint, "--set", f"settings.data={data}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "study/report.html").exists()


def test_predictions_are_scored(tmp_path: Path) -> None:
    given = tmp_path / "mine.jsonl"
    item = load_bbq(SCENES).items[0]
    row = {"category": item.category, "example_id": item.example_id, "prediction": item.options[0]}
    given.write_text(json.dumps(row) + "\n", encoding="utf-8")
    done = rldf(
        "eval", "bbq", "--predictions", str(given), "--bbq", str(SCENES),
        "--out", str(tmp_path / "scored"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    scored = json.loads(done.stdout)
    assert list(scored["categories"]) == [item.category] and scored["unparsed"]["number"] > 0
    assert scored["overall"]["accuracy"] <= 1 / len(load_bbq(SCENES).items)
    logs = str(tmp_path / "logs")
    done = rldf("eval", "export", str(tmp_path / "scored"), "--to", "inspect", "--out", logs)
    assert done.returncode == 0 and done.stdout.startswith(logs), done.stderr


def test_what_computes_says_what_to_install(tmp_path: Path) -> None:
    done = rldf("run", "smoke", "--out", str(tmp_path / "run"))
    assert done.returncode == 1
    assert "pip install 'rldf-ray[" in done.stderr and "Traceback" not in done.stderr
