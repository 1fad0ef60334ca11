"""benchmarks/README.md is what `python -m benchmarks.table` makes of the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.goals import RESULTS
from benchmarks.table import NOTES, PAGE, page, section

RESULT: dict[str, Any] = {
    "command": "python -m benchmarks.any --short",
    "machine": {"cpus": 2, "processor": "A", "memory_gib": 23.5, "gpus": []},
    "goals": [
        {"name": "seconds", "value": 861.14, "goal": "<= 900", "met": True},
        {"name": "share", "value": 0.56307, "goal": ">= 0.95", "met": False},
    ],
}


def test_the_committed_page_is_made_of_the_committed_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(RESULTS), (
        "run: python -m benchmarks.table --write"
    )


def test_every_goal_is_a_row_with_its_value_and_whether_it_was_met() -> None:
    rows = [line for line in section("any", RESULT).splitlines() if line.startswith("| s")]
    assert rows == ["| seconds | 861.1 | ≤ 900 | yes |", "| share | 0.5631 | ≥ 0.95 | no |"]


def test_command_machine_commit_and_date_stand_above_the_table() -> None:
    text = section("any", RESULT | {"commit": "abc1234", "date": "2026-11-25"})
    assert "    python -m benchmarks.any --short\n" in text
    assert "commit abc1234, date 2026-11-25, 2 cores (A), 23.5 GiB, no GPU." in text


def test_a_result_without_a_commit_says_so() -> None:
    assert "commit not recorded, date not recorded" in section("any", RESULT)


def test_results_come_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps(RESULT), encoding="utf-8")
    text = page(tmp_path)
    assert text.index("## a\n") < text.index("## b\n")


def test_notes_are_of_results_that_exist() -> None:
    assert set(NOTES) <= {file.stem for file in RESULTS.glob("*.json")}
