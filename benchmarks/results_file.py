"""What every benchmark leaves behind: a table on the terminal and a JSON file of one shape."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rldf_ray.environment import machine, versions

RESULTS = Path(__file__).parent / "results"
Goal = dict[str, Any]


def goal(name: str, value: float, sign: str, bound: float) -> Goal:
    """`value` has to be `sign` (">=" or "<=") `bound`."""
    met = value >= bound if sign == ">=" else value <= bound
    return {"name": name, "value": round(value, 3), "goal": f"{sign} {bound:g}", "met": met}


def write_results(name: str, figures: dict[str, Any], goals: list[Goal]) -> None:
    """Print the goals, and write `results/NAME.json`."""
    RESULTS.mkdir(exist_ok=True)
    found = {
        "command": " ".join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]]),
        "machine": machine(),
        "versions": versions(),
        "figures": figures,
        "goals": goals,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
    table = Table("goal", "value", "wanted", "met")
    for g in goals:
        table.add_row(g["name"], f"{g['value']:g}", g["goal"], "yes" if g["met"] else "no")
    Console().print(table)
