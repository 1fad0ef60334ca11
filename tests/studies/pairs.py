"""A file of pairs for studies of judges."""

from __future__ import annotations

import json
from pathlib import Path

PLAN = """
name: tried
models: {a: "scripted:0.01", b: "scripted:0.01"}
in_flight: 6
settings:
  data: "%s"
  judges: [a]
  debates: [[a, b]]
  meta: {pools: {b: [[a, b]]}}
  rounds: 2
  max_tokens: 24
"""


def pairs_file(folder: Path, number: int) -> Path:
    path = folder / "pairs.jsonl"
    rows = [
        {
            "id": f"pair-{n}",
            "question": f"What is {n} and {n}?",
            "answer1": f"It is {2 * n}.",
            "answer2": f"It is {2 * n + 1}, I think.",
            "answer2_long": f"It is {2 * n + 1}, I think, that is, {2 * n + 1} in all.",
            "question_id": n // 2,
            "category": "even" if n % 2 == 0 else "odd",
            "label": 1,
        }
        for n in range(number)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def plan_file(folder: Path, number: int = 6) -> Path:
    path = folder / "plan.yaml"
    path.write_text(PLAN % pairs_file(folder, number), encoding="utf-8")
    return path
