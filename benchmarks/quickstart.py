"""The quickstart: its time, memory and sizes, and the effect it has to show.

    python -m benchmarks.quickstart [--out runs/quickstart] [--seed 0]

Runs the preset in the folder (a finished run is read, not done again), prints a table and writes
benchmarks/results/quickstart.json. Times are the stages' own, memory is PSS over the process tree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.goals import write_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/quickstart"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    out: Path = options.out
    command = ["rldf", "run", "quickstart", "--out", str(out), "--set", f"seed={options.seed}"]
    subprocess.run([str(Path(sys.executable).with_name("rldf")), *command[1:]], check=True)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    figures = {
        "seed": options.seed,
        "stages": report["stages"],
        "totals": report["totals"],
        "reward_model": report["training"]["reward"],
        "ppo": report["training"]["ppo"],
        "evaluation": {
            name: model["multiple_choice"]["overall"]
            for name, model in report["evaluation"]["models"].items()
        },
        "accuracy_change": report["evaluation"]["accuracy_change"],
        "overlap": report["evaluation"]["overlap"],
    }
    write_results("quickstart", figures, goals_of(report))


def goals_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What the quickstart has to reach, and whether it did."""
    seconds, gib = report["totals"]["seconds"], report["totals"]["peak_pss_gib"]
    rows = [
        ("seconds of all stages", seconds, "< 900", seconds < 900),
        ("peak memory, GB", gib * 2**30 / 1e9, "< 12", gib * 2**30 / 1e9 < 12),
        *(
            (name, value, f">= {least}", value >= least)
            for name, value, least in (
                ("refereed statements", report["debates"]["refereed"], 300),
                ("preference pairs", report["data"]["pairs"], 100),
                ("PPO episodes", report["training"]["ppo"]["episodes"], 64),
                ("bias types", len(report["plan"]["bias_types"]), 5),
            )
        ),
        ("first PPO ratio", report["training"]["ppo"]["step0_ratio"], "= 1", None),
        ("first PPO KL", report["training"]["ppo"]["step0_kl"], "= 0", None),
    ]
    rows += effects_of(report)
    exact = {"first PPO ratio": 1.0, "first PPO KL": 0.0}
    return [
        {
            "name": name,
            "value": value,
            "goal": goal,
            "met": bool(value == exact[name] if name in exact else met),
        }
        for name, value, goal, met in rows
    ]


def effects_of(report: dict[str, Any]) -> list[tuple[str, float, str, bool | None]]:
    """What the policy has to have learned; accuracies in points, on the scenes shipped here."""
    evaluation = report["evaluation"]
    change = evaluation["accuracy_change"]["policy"]
    base, policy = (
        evaluation["models"][name]["multiple_choice"]["overall"] for name in ("base", "policy")
    )
    lost = 100 * (policy["accuracy_disambig"] - base["accuracy_disambig"])
    ahead = 100 * (policy["accuracy"] - evaluation["always_unknown"]["accuracy"])
    # Of too few topics nothing is known but that it is no less than 0.
    least = report["training"]["reward"]["accuracy_low"] or 0.0
    return [
        ("policy over base", 100 * change["value"], ">= 10", change["value"] >= 0.1),
        (
            "policy over base, lower end of the interval",
            100 * change["low"],
            "> 0",
            change["low"] > 0,
        ),
        ("policy over base, disambiguated", lost, ">= -5", lost >= -5),
        ("policy over always unknown", ahead, "> 0", ahead > 0),
        (
            "reward model's held-out accuracy, lower end of its interval",
            least,
            "> 0.5",
            least > 0.5,
        ),
    ]


if __name__ == "__main__":
    main()
