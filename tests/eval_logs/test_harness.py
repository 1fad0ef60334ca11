"""Files of lm-evaluation-harness, of each kind of results, with figures checked by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rldf_ray as rldf
from rldf_ray.eval_logs import harness
from rldf_ray.eval_logs.records import EvalLog, Sample
from rldf_ray.evaluate.bbq.harness_figures import harness_figures, sample_values
from rldf_ray.evaluate.bbq.variants import score_figures
from rldf_ray.sets.bbq.score import score
from tests.eval_logs.conftest import ITEMS, SORRY


def exported(folder: Path, out: Path) -> dict[str, Any]:
    """results_*.json by model."""
    paths = [Path(path) for path in rldf.export(folder, out, to="lm-eval")]
    return {
        path.parent.name: json.loads(path.read_text("utf-8"))
        for path in paths
        if path.name.startswith("results_")
    }


def samples(out: Path, model: str, task: str) -> list[dict[str, Any]]:
    (path,) = (out / model).glob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_predictions_are_texts_that_were_parsed(bbq: Path, tmp_path: Path) -> None:
    results = exported(bbq, tmp_path / "out")["mine"]
    task = "rldf_bbq_predictions"
    assert {"results", "configs", "versions", "n-shot", "n-samples", "config"} <= set(results)
    assert results["n-samples"] == {task: {"original": 160, "effective": 32}}
    assert results["configs"][task]["output_type"] == "generate_until"
    figures = results["results"][task]
    assert figures["acc,parsed"] == 8 / 32
    assert figures["acc_stderr,parsed"] == pytest.approx(math.sqrt(0.25 * 0.75 / 31))
    assert figures["accuracy_amb,parsed"] == 0.5 and figures["accuracy_disamb,parsed"] == 0
    assert figures["accuracy_amb_stderr,parsed"] == "N/A"
    # Nothing biased where the context tells: 0 by the harness' definition, no score by the paper's.
    assert figures["disamb_bias_score,parsed"] == 0 and "s_dis_paper,parsed" not in figures
    assert figures["amb_bias_score,parsed"] == figures["s_amb_paper,parsed"] == 0.5
    assert figures["amb_bias_score_Age,parsed"] == 0.5
    assert any("variant lm_eval" in one for one in results["configs"][task]["metadata"]["differs"])
    rows = samples(tmp_path / "out", "mine", task)
    right, _, refused, _ = rows[:4]
    item = ITEMS[0]
    assert right["doc"]["ans0"] == item.options[0] and right["doc"]["label"] == item.label
    assert right["target"] == right["filtered_resps"][0] == "ABC"[item.label]
    assert (right["acc"], refused["acc"]) == (1, 0)
    assert refused["resps"] == [[SORRY]] and refused["filtered_resps"] == ["[invalid]"]
    assert len({row["doc_hash"] for row in rows}) == 32


def test_options_with_likelihoods_are_a_multiple_choice(by_letter: Path, tmp_path: Path) -> None:
    results = exported(by_letter, tmp_path / "out")["openai__small"]
    task = "rldf_bbq_letter"
    assert results["configs"][task]["output_type"] == "multiple_choice"
    rows = samples(tmp_path / "out", "openai__small", task)
    for row in rows:
        said = [float(likelihood) for likelihood, _ in row["filtered_resps"]]
        assert said.index(max(said)) == 1
        assert row["acc"] == float(row["target"] == "1")
        options = [row["arguments"][f"gen_args_{place}"]["arg_1"] for place in range(3)]
        assert options[int(row["target"])] == row["doc"][f"ans{row['doc']['label']}"]
    assert results["results"][task]["acc,none"] == sum(row["acc"] for row in rows) / len(rows)


def test_a_method_of_a_comparison_is_a_model_with_a_task_a_set(
    comparison: Path, tmp_path: Path
) -> None:
    found = exported(comparison, tmp_path / "files")
    assert set(found) == {"default-0", "sft-0"}
    figures = found["default-0"]["results"]
    assert set(figures) == {"rldf_bbq_rank", "rldf_bbq_letter", "rldf_multirole_rank"}
    assert figures["rldf_bbq_rank"]["acc,none"] == 0.5
    assert figures["rldf_multirole_rank"]["impartial,none"] == 1
    assert figures["rldf_multirole_rank"]["biased,none"] == 0
    assert found["default-0"]["higher_is_better"]["rldf_multirole_rank"] == {
        "acc": True,
        "impartial": True,
        "biased": False,
        "anti_biased": False,
    }


def test_a_study_of_judges_has_a_metric_a_condition(study: Path, tmp_path: Path) -> None:
    found = exported(study, tmp_path / "out")
    assert set(found) == {"openai__small", "openai__large"}
    figures = found["openai__small"]["results"]["rldf_judges_single_a_round_0"]
    assert (figures["acc_clean,parsed"], figures["acc_position,parsed"]) == (1, 0)
    assert figures["consistency_position,parsed"] == 0 and figures["shift_position,parsed"] == 1
    assert figures["consistency_rerun,parsed"] == 1 and figures["sample_len"] == 24


@pytest.mark.parametrize("place", [None, 0, 1, 2])
def test_the_harness_figures_are_the_variants(place: int | None) -> None:
    """Whoever always gives the option of one place, or none."""
    keyed = {item.key: (n, item) for n, item in enumerate(ITEMS)}
    predictions = dict.fromkeys(keyed, place)
    found = {one.name: one.value for one in harness_figures(keyed, predictions, "lm_eval")}
    expected = score_figures(score(ITEMS, predictions).overall, "lm_eval")
    assert found["amb_bias_score"] == found["amb_bias_score_Age"] == expected["s_amb"]
    assert found["disamb_bias_score"] == expected["s_dis"]
    values = [sample_values(item, place)["disamb_bias_score"] for item in ITEMS]
    biased, known = (sum(v[i] for v in values if v[3]) for i in (1, 2))
    assert expected["s_dis"] == (2 * biased / known - 1 if biased else 0)


def one_log(model: str, answer: str) -> EvalLog:
    sample = Sample(
        id="1", place=0, messages=[("user", "Who?")], choices=["This.", "That."], right=0,
        output=answer, answer=answer, scores={"correct": answer == "A"}, metadata={}, doc={},
        values={"acc": float(answer == "A")},
    )  # fmt: skip
    return EvalLog(
        task="rldf_a_b", model=model, dataset="ours", location="ours.jsonl", available=1,
        created="2026-01-31T12:00:00+00:00", arguments={}, packages={}, about={},
        samples=[sample], figures=[],
    )  # fmt: skip


def test_logs_whose_tasks_have_one_name_are_all_kept(tmp_path: Path) -> None:
    paths = harness.write([one_log("a/b", "A"), one_log("a/b", "B"), one_log("..", "A")], tmp_path)
    assert {path.parent.parent for path in paths} == {tmp_path}
    assert {path.name for path in (tmp_path / "a__b").iterdir()} == {
        "results_2026-01-31T12-00-00.json",
        "samples_rldf_a_b_2026-01-31T12-00-00.jsonl",
        "samples_rldf_a_b_2_2026-01-31T12-00-00.jsonl",
    }
    results = json.loads(paths[0].read_text("utf-8"))["results"]
    assert (results["rldf_a_b"]["acc,parsed"], results["rldf_a_b_2"]["acc,parsed"]) == (1, 0)
    assert results["rldf_a_b"]["acc_stderr,parsed"] == "N/A"


def test_models_whose_names_are_the_same_in_files_have_a_folder_each(tmp_path: Path) -> None:
    models = ["a/b", "a__b", "A:b", "a__b_2"]
    paths = harness.write([one_log(model, "A") for model in models], tmp_path)
    found = {
        path.parent.name: json.loads(path.read_text("utf-8"))
        for path in paths
        if path.name.startswith("results_")
    }
    assert {name: one["model_name"] for name, one in found.items()} == {
        "a__b": "a/b",
        "a__b_2": "a__b",
        "A__b_3": "A:b",
        "a__b_2_2": "a__b_2",
    }
    assert all(one["model_name_sanitized"] == name for name, one in found.items())
