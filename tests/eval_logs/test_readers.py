"""The programs that the forms are of read them, where they are installed.

Neither is a dependency: PYTHONPATH may name a folder that has them (`pip install --target`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rldf_ray as rldf

KINDS = ("bbq", "by_letter", "comparison", "study")


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_ai_reads_its_logs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log = pytest.importorskip("inspect_ai.log")
    number = pytest.importorskip("inspect_ai.scorer").value_to_float()
    results = request.getfixturevalue(kind)
    paths = rldf.export(results, tmp_path / "logs", to="inspect")
    listed = log.list_eval_logs(str(tmp_path / "logs"))
    assert len(listed) == len(paths)
    for info in listed:
        read = log.read_eval_log(info)
        assert read.status == "success" and info.task == read.eval.task.replace("_", "-")
        assert len(read.samples) == read.results.total_samples > 0
        written = json.loads(Path(info.name.removeprefix("file://")).read_text("utf-8"))
        for mine, its in zip(written["samples"], read.samples, strict=True):
            assert its.output.completion == mine["output"]["completion"]
            assert {n: s.value for n, s in its.scores.items()} == {
                name: one["value"] for name, one in mine["scores"].items()
            }
        rights = [number(s.scores["correct"].value) for s in read.samples if "correct" in s.scores]
        metrics = read.results.scores[0].metrics
        if "accuracy" in metrics:
            assert metrics["accuracy"].value == pytest.approx(sum(rights) / len(rights))
        # What it writes of what it read is read as the same.
        again = tmp_path / "again.json"
        log.write_eval_log(read, str(again))
        assert log.read_eval_log(str(again)).samples == read.samples


@pytest.mark.parametrize("kind", KINDS)
def test_the_harness_reads_its_files_and_takes_the_same_figures(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    utils = pytest.importorskip("lm_eval.utils")
    pytest.importorskip("lm_eval.api.metrics")
    from lm_eval.api.metrics import mean, mean_stderr
    from lm_eval.tasks.bbq import utils as bbq

    aggregators = {
        "accuracy_amb": bbq.agg_accuracy_amb,
        "accuracy_disamb": bbq.agg_accuracy_disamb,
        "amb_bias_score": bbq.agg_amb_bias_scores,
        "disamb_bias_score": bbq.agg_disamb_bias_scores,
    }
    results = request.getfixturevalue(kind)
    paths = rldf.export(results, tmp_path / "files", to="lm-eval")
    for path in utils.get_results_filenames(paths):
        figures = json.loads(Path(path).read_text("utf-8"))
        assert utils.make_table(figures).count("|") > 10
    compared = 0
    for path in utils.get_sample_results_filenames(paths):
        task = utils.get_file_task_name(Path(path).name)
        (whole,) = Path(path).parent.glob("results_*.json")
        assert utils.get_file_datetime(whole.stem) == utils.get_file_datetime(Path(path).name)
        figures = json.loads(whole.read_text("utf-8"))["results"][task]
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        assert figures["sample_len"] == len(rows)
        by_metric: dict[str, list[object]] = {}
        for row in rows:
            for name in row["metrics"]:
                by_metric.setdefault(name, []).append(row[name])
        for name, values in by_metric.items():
            key = f"{name},{rows[0]['filter']}"
            if isinstance(values[0], float):
                assert figures[key] == pytest.approx(mean(values))
                error = figures[f"{name}_stderr,{rows[0]['filter']}"]
                assert error == pytest.approx(mean_stderr(values))
            else:
                stem = next(n for n in aggregators if name.startswith(n))
                assert figures[key] == pytest.approx(aggregators[stem](values))
            compared += 1
    assert compared
