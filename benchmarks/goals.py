"""What every benchmark writes: command, commit, date, machine, versions, figures and goals."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rldf_ray.cluster.environment import machine, versions
from rldf_ray.cluster.provenance import source_commit

RESULTS = Path(__file__).parent / "results"


def goal(name: str, value: float, *, least: float | None = None, most: float | None = None) -> dict:  # type: ignore[type-arg]
    """One goal: `value` has to be at least or at most something."""
    if least is not None:
        return {"name": name, "value": value, "goal": f">= {least:g}", "met": value >= least}
    assert most is not None
    return {"name": name, "value": value, "goal": f"<= {most:g}", "met": value <= most}


def command_line(name: str, arguments: Sequence[str]) -> str:
    """The command, without the folders of the machine it was given on: `.../bbq` for the last."""
    command = " ".join(["python", "-m", f"benchmarks.{name}", *arguments])
    return re.sub(r"(?<![^\s=:])/(?!/)\S*/", ".../", command)


def write_results(
    name: str,
    figures: Mapping[str, Any],
    goals: list[dict[str, Any]],
    *,
    variant: str = "",
    others: Mapping[str, str] | None = None,
    folder: Path | None = RESULTS,
    commit: str | None = None,
) -> None:
    """Write benchmarks/results/NAME.json (NAME_VARIANT.json) and print the goals.

    Args:
        others: package -> version of what the benchmark ran besides the project's own packages.
        folder: written to instead; None writes nothing.
        commit: of the code, where it is a copy that does not know its own.
    """
    results = {
        "command": command_line(name, sys.argv[1:]),
        "commit": commit or source_commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "versions": versions() | dict(others or {}),
        "figures": figures,
        "goals": goals,
    }
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{name}_{variant}.json" if variant else f"{name}.json"
        (folder / file).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    table = Table("goal", "value", "goal", "met")
    for row in goals:
        table.add_row(row["name"], f"{row['value']:.3g}", row["goal"], str(row["met"]))
    Console().print(table)
