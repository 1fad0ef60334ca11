"""`rldf eval compare`: errors before work, and tables that fit a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rldf_ray import cli
from rldf_ray.commands.compare import show
from rldf_ray.comparison.comparisons import Comparison
from rldf_ray.comparison.costs import Answering, Cost
from rldf_ray.comparison.result import ComparisonResult


def found() -> ComparisonResult:
    titles = {
        "default": "Default",
        "sft": "SFT",
        "rldf_teacher-a": "RLDF teacher Qwen1.5-72B-Chat",
    }
    results = [
        {"method": m, "repeat": r, "seed": r, "set": "bbq", "group": "all", "measure": name,
         "value": 0.4 + r / 100, "n": 240}
        for m in titles
        for r in (0, 1, 2)
        for name in ("accuracy", "accuracy_amb", "accuracy_dis")
    ]  # fmt: skip
    took = Answering(38, 0.42)
    trained = Cost(
        topics=2000,
        statements=75000,
        pairs=5000,
        generated_tokens=31_000_000,
        seconds=90_000.0,
        paid_tokens=5,
        usd=None,
        answering={"rank": took},
        auc_opinions=0.97,
        auc_scenes=0.93,
    )
    costs = dict.fromkeys(titles, trained)
    costs["default"] = Cost()
    costs["sft"] = Cost(remarks=("its judge is the model itself",))
    comparisons = [
        Comparison(
            method="rldf_teacher-a",
            against="default",
            condition="all",
            value=0.191,
            low=0.1,
            high=0.2,
            p=0.001,
            n=240,
            templates=40,
            p_holm=0.01,
        ),
        Comparison(
            method="rldf_teacher-a",
            against="sft",
            condition="all",
            value=-0.191,
            low=-0.2,
            high=0.1,
            p=0.2,
            n=240,
            templates=40,
            p_holm=0.4,
        ),
        Comparison(
            method="sft",
            against="default",
            condition="all",
            value=0.05,
            low=0.01,
            high=0.1,
            p=0.04,
            n=240,
            templates=40,
            p_holm=0.08,
        ),
    ]
    silent = {"accuracy": 0.5, "accuracy_amb": 1.0, "accuracy_dis": 0.0}
    return ComparisonResult(
        titles=titles,
        answered={},
        results=results,
        tables=[],
        comparisons=comparisons,
        costs=costs,
        positions={},
        readings={},
        notes=["A note."],
        summary={"always_unknown": silent},
    )


def test_tables_are_readable_at_80_columns() -> None:
    text = io.StringIO()
    show(found(), Console(file=text, width=80, highlight=False))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text.getvalue()
    assert any("+19.1 better" in line and "-19.1 n.s." in line for line in lines)
    assert any("SFT" in line and "+5.0 (better)" in line for line in lines)
    assert any("always unknown" in line and "0.500" in line for line in lines)
    assert "- SFT: its judge is the model itself." in lines
    assert any("0.42" in line and line.rstrip().endswith("0.93") for line in lines)
    assert any("0.410 ±0.010" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--method", "grpo"], "--method grpo: allowed are default"),
        (["--method", "rldf_teacher"], "give --teacher"),
        (["--set", "ppo.nonsense=1"], "ppo.nonsense: no such field"),
        (["--bbq", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_request_is_one_message(
    arguments: list[str],
    part: str,
    tmp_path: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["eval", "compare", "smoke", "--out", f"{tmp_path}/c", *arguments]
    with pytest.raises(SystemExit) as end:
        cli.main(lambda: cli.app(words, prog_name="rldf"))
    err = capsys.readouterr().err
    assert end.value.code == 1 and err.startswith("error: ") and part in err
