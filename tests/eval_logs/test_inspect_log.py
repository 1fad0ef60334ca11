"""Logs of inspect_ai, of each kind of results, with figures checked by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rldf_ray as rldf
from rldf_ray.evaluate.bbq.run_models import SCENES
from tests.eval_logs.conftest import FIRST_IS_BETTER, ITEMS, SORRY
from tests.fakes import multirole_set

Log = Mapping[str, Any]


def logs(folder: Path, out: Path) -> dict[tuple[str, str], Log]:
    """The exported logs by model and task."""
    read = [json.loads(Path(p).read_text("utf-8")) for p in rldf.export(folder, out, to="inspect")]
    return {(log["eval"]["model"], log["eval"]["task"]): log for log in read}


def metrics(log: Log, score: str = "correct") -> dict[str, Any]:
    (found,) = (one for one in log["results"]["scores"] if one["name"] == score)
    return {name: metric["value"] for name, metric in found["metrics"].items()}


def test_an_evaluation_of_bbq_is_one_log_with_a_sample_an_item(bbq: Path, tmp_path: Path) -> None:
    (log,) = logs(bbq, tmp_path / "out").values()
    assert (log["version"], log["status"]) == (2, "success")
    spec = log["eval"]
    assert (spec["model"], spec["task"]) == ("mine", "rldf_bbq_predictions")
    assert spec["dataset"]["location"] == str(SCENES)
    assert len(spec["dataset"]["sample_ids"]) == len(log["samples"]) == 32
    assert spec["packages"]["rldf-ray"] and spec["metadata"]["machine"]
    assert spec["created"].endswith("+00:00")
    right, stereotyped, refused, unknown = log["samples"][:4]
    assert right["scores"]["correct"] == {"value": "C", "answer": right["target"]}
    assert stereotyped["scores"]["correct"]["answer"] == stereotyped["metadata"]["stereotyped"]
    assert unknown["scores"]["correct"]["answer"] == unknown["metadata"]["unknown"]
    assert refused["scores"]["correct"] == {"value": "I", "answer": None}
    assert refused["output"]["completion"] == SORRY and refused["metadata"]["refusal"]
    item = ITEMS[0]
    assert right["input"] == f"{item.context}\n\n{item.question}"
    assert right["choices"] == list(item.options) and right["target"] == "ABC"[item.label]
    assert right["output"]["completion"] == item.options[item.label]
    about = {"category": "Age", "condition": item.condition, "template": item.question_index}
    assert about.items() <= right["metadata"].items()


def test_figures_are_those_of_the_summary_with_their_definitions(bbq: Path, tmp_path: Path) -> None:
    (log,) = logs(bbq, tmp_path / "out").values()
    summary = json.loads((bbq / "eval/bbq.json").read_text("utf-8"))
    found = metrics(log)
    # Of four scenes in turn two are ambiguous: of these one is right, the other stereotyped.
    assert found["accuracy"] == summary["overall"]["accuracy"] == 8 / 32
    assert found["unparsed_share"] == 8 / 32 and found["Age/accuracy"] == 8 / 32
    assert found["s_amb"] == summary["overall"]["s_amb"] == (1 - 0.5) * (2 * 8 / 8 - 1)
    # Nobody was named where the context tells: no score, and none in its place.
    assert summary["overall"]["s_dis"] is None and "s_dis" not in found
    (score,) = log["results"]["scores"]
    assert "variant paper" in score["metrics"]["s_amb"]["metadata"]["definition"]
    assert score["metrics"]["Age/accuracy"]["group"] == "Age"


def test_letters_keep_the_order_shown_and_their_likelihoods(
    by_letter: Path, tmp_path: Path
) -> None:
    (log,) = logs(by_letter, tmp_path / "out").values()
    assert len({tuple(s["choices"]) for s in log["samples"]}) > 1
    for sample in log["samples"]:
        score = sample["scores"]["correct"]
        assert score["answer"] == "B" and sample["output"]["completion"] == "B"
        assert score["value"] == ("C" if sample["target"] == "B" else "I")
        said = score["metadata"]["log_likelihoods"]
        assert max(said, key=said.get) == "B" and set(said) == set("ABC")
        assert f"B. {sample['choices'][1]}\n" in sample["input"]


def test_a_comparison_is_a_log_for_each_method_set_and_way_of_asking(
    comparison: Path, tmp_path: Path
) -> None:
    found = logs(comparison, tmp_path / "logs")
    tasks = {"rldf_bbq_rank", "rldf_bbq_letter", "rldf_multirole_rank"}
    assert set(found) == {(m, t) for m in ("default-0", "sft-0") for t in tasks}
    log = found["default-0", "rldf_bbq_rank"]
    # The stand-in for a model says "unknown" to everything.
    assert metrics(log)["accuracy"] == metrics(log)["accuracy_ambig"] / 2 == 0.5
    assert {s["scores"]["correct"]["answer"] for s in log["samples"]} == set("ABC")
    assert all(s["scores"]["correct"]["answer"] == s["metadata"]["unknown"] for s in log["samples"])
    assert log["eval"]["metadata"]["title"] == "Default"
    assert metrics(found["sft-0", "rldf_multirole_rank"])["impartial"] == 1


def test_a_study_of_judges_is_a_log_for_each_system_and_round(study: Path, tmp_path: Path) -> None:
    found = {task: log for (_, task), log in logs(study, tmp_path / "out").items()}
    assert set(found) == {
        "rldf_judges_single_a_round_0",
        "rldf_judges_single_b_round_0",
        *(f"rldf_judges_debate_a_v_b_round_{number}" for number in range(3)),
        *(f"rldf_judges_meta_b_over_a_b_{mode}_round_0" for mode in ("select", "conclude")),
    }
    log = found["rldf_judges_single_a_round_0"]
    assert log["eval"]["model"] == "openai:small"
    samples = {sample["id"]: sample for sample in log["samples"]}
    assert len(samples) == 4 * 6
    clean, swapped = samples["pair-1/clean"], samples["pair-1/position"]
    assert clean["target"] == "A" and clean["choices"] == ["It is 2.", "It is 3, I think."]
    assert clean["output"]["completion"] == FIRST_IS_BETTER
    assert clean["scores"] == {"correct": {"value": "C", "answer": "A"}}
    # Whatever stands first wins, so the swap turns every verdict, and position gains all.
    assert swapped["scores"]["correct"] == {"value": "I", "answer": "B"}
    assert swapped["scores"]["consistent"]["value"] == "I"
    assert swapped["scores"]["shift"]["value"] == 1
    shown = swapped["input"][1]["content"]
    assert shown.index("It is 3, I think.") < shown.index("It is 2.")
    assert "in all" in samples["pair-1/verbosity"]["input"][1]["content"]
    assert "90" in samples["pair-1/bandwagon"]["input"][1]["content"]
    assert metrics(log)["clean/accuracy"] == 1 and metrics(log)["position/accuracy"] == 0
    assert metrics(log, "consistent")["position/consistency"] == 0
    assert metrics(log, "shift")["position/shift"] == 1 and metrics(log)["invalid"] == 0


def test_a_text_without_a_verdict_has_no_answer(study: Path, tmp_path: Path) -> None:
    found = {task: log for (_, task), log in logs(study, tmp_path / "out").items()}
    log = found["rldf_judges_meta_b_over_a_b_select_round_0"]
    assert metrics(log)["invalid"] == 1
    for sample in log["samples"]:
        assert sample["scores"]["correct"] == {"value": "I", "answer": None}


def test_items_that_moved_are_given_and_others_are_refused(
    bbq: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = json.loads((bbq / "eval/bbq.json").read_text("utf-8"))
    summary["set"]["source"] = str(tmp_path / "gone")
    (bbq / "eval/bbq.json").write_text(json.dumps(summary), encoding="utf-8")
    with pytest.raises(rldf.UserError, match=r"gone: BBQ's files were there .* --bbq DIR"):
        rldf.export(bbq, tmp_path / "out", to="inspect")
    assert rldf.export(bbq, tmp_path / "out", to="inspect", bbq=SCENES)
    other = tmp_path / "other"
    other.mkdir()
    text = (SCENES / "Age.jsonl").read_text("utf-8")
    (other / "Age.jsonl").write_text(text.split("\n", 1)[1], encoding="utf-8")
    with pytest.raises(rldf.UserError, match="has no item Age 0"):
        rldf.export(bbq, tmp_path / "more", to="inspect", bbq=other)
    (other / "Age.jsonl").write_text(
        text.replace('"context_condition": "ambig"', '"context_condition": "disambig"', 1),
        encoding="utf-8",
    )
    with pytest.raises(rldf.UserError, match="condition of Age 0 is 'disambig', and was 'ambig'"):
        rldf.export(bbq, tmp_path / "more", to="inspect", bbq=other)


def test_items_whose_texts_are_others_are_refused(bbq: Path, tmp_path: Path) -> None:
    """Only a folder of before digests were written takes them, as it cannot tell."""
    other = tmp_path / "other"
    other.mkdir()
    text = (SCENES / "Age.jsonl").read_text("utf-8")
    question = json.loads(text.split("\n", 1)[0])["question"]
    (other / "Age.jsonl").write_text(text.replace(question, "Who was it?"), encoding="utf-8")
    for path in SCENES.glob("target_loc*.csv"):
        (other / path.name).write_text(path.read_text("utf-8"), encoding="utf-8")
    with pytest.raises(rldf.UserError, match=r"other texts, stereotyped answers .* --bbq DIR"):
        rldf.export(bbq, tmp_path / "more", to="inspect", bbq=other)
    summary = json.loads((bbq / "eval/bbq.json").read_text("utf-8"))
    del summary["set"]["digest"]
    (bbq / "eval/bbq.json").write_text(json.dumps(summary), encoding="utf-8")
    assert rldf.export(bbq, tmp_path / "more", to="inspect", bbq=other)


def test_other_items_or_queries_of_a_comparison_are_refused(
    comparison: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(SCENES, other)
    for path in other.glob("*.jsonl"):
        text = path.read_text("utf-8")
        path.write_text(text.replace("who", "which", 1), encoding="utf-8")
    with pytest.raises(rldf.UserError, match=r"other: the items have the numbers and labels"):
        rldf.export(comparison, tmp_path / "logs", to="inspect", bbq=other)
    multirole_set(tmp_path / "multirole", [{"context": f"{n} is not BLANK"} for n in "ab"])
    with pytest.raises(rldf.UserError, match=r"multirole: the items have the numbers and labels"):
        rldf.export(comparison, tmp_path / "logs", to="inspect")
    file = comparison / "compare/compare.json"
    summary = json.loads(file.read_text("utf-8"))
    del summary["queries_digest"], summary["items_digest"]
    file.write_text(json.dumps(summary), encoding="utf-8")
    assert rldf.export(comparison, tmp_path / "logs", to="inspect", bbq=other)
