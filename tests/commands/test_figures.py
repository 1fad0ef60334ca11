"""`rldf eval figures`: what is there is drawn, what is not is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray import cli
from rldf_ray.storage.run_folder import RunFolder


def rldf(*arguments: str) -> int:
    try:
        cli.main(lambda: cli.app(list(arguments), prog_name="rldf"))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def results(folder: RunFolder) -> None:
    rows: list[dict[str, Any]] = [
        {"method": m, "repeat": r, "set": "answers", "group": g, "measure": "ce", "value": 50.0 + r}
        for m in ("default", "rldf_self")
        for r in range(2)
        for g in ("age", "beauty", "profession")
    ]
    folder.write_table("compare/results.parquet", pa.Table.from_pylist(rows))
    titles = {"default": "Default", "rldf_self": "RLDF, self-reflection"}
    methods = [{"name": name, "title": title} for name, title in titles.items()]
    folder.write_json("compare/compare.json", {"methods": methods})


def items(folder: RunFolder) -> None:
    rows: list[dict[str, Any]] = [
        {
            "set": "bbq",
            "method": "rldf_self",
            "condition": condition,
            "label": label,
            "unknown": 0,
            "correct": True,
            "scores": [float(option == label) for option in range(3)],
            "thought": None,
        }
        for condition, label in (("ambig", 0), ("disambig", 1))
    ]
    folder.write_table("compare/eval/items.parquet", pa.Table.from_pylist(rows))


def answers(folder: RunFolder) -> None:
    rows = [
        {
            "model": m,
            "prompt_id": "p",
            "bias_type": "age",
            "prompt": "Q?",
            "answer": m,
            "reward": 0.1,
        }
        for m in ("base", "policy")
    ]
    folder.write_table("eval/answers.parquet", pa.Table.from_pylist(rows))


def test_bbqs_two_accuracies_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items(RunFolder(tmp_path))
    assert rldf("eval", "figures", str(tmp_path)) == 0
    assert "abstention.png" in capsys.readouterr().out.replace("\n", "")
    assert "accuracy on ambiguous items" in (tmp_path / "figures/abstention.svg").read_text(
        encoding="utf-8"
    )


def test_a_comparison_is_drawn_with_the_names_it_gave_its_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results(RunFolder(tmp_path))
    assert rldf("eval", "figures", str(tmp_path)) == 0
    told = capsys.readouterr().out.replace("\n", " ")
    assert "figure-5-ce.png" in told and "no judge scored LS" in told
    svg = (tmp_path / "figures/figure-5-ce.svg").read_text(encoding="utf-8")
    # The legend may break a long name over lines, which are elements of their own.
    assert "RLDF, self-" in svg and "reflection" in svg and "rldf_self" not in svg


def test_a_judges_figures_that_a_comparison_has_as_well_count_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    results(folder)
    svg = tmp_path / "figures/figure-5-ce.svg"
    assert rldf("eval", "figures", str(tmp_path)) == 0
    once = svg.read_bytes()
    folder.write_table("eval/judge_long.parquet", folder.read_table("compare/results.parquet"))
    assert rldf("eval", "figures", str(tmp_path)) == 0
    assert svg.read_bytes() == once


def test_a_runs_answers_are_shown_side_by_side(tmp_path: Path) -> None:
    answers(RunFolder(tmp_path))
    assert rldf("eval", "figures", str(tmp_path), "--out", str(tmp_path / "there")) == 0
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["figure-7-cases.html"]


def test_a_folder_with_nothing_to_draw_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rldf("eval", "figures", str(tmp_path)) == 1
    error = capsys.readouterr().err
    assert str(tmp_path) in error and "compare/results.parquet" in error
