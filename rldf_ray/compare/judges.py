"""What the tables say of a judge whose figures they take in: its audit, whose model it is, and its
score of every answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from rldf_ray.compare.method import Method
from rldf_ray.compare.results import Rows
from rldf_ray.evaluate.judge_audit import JUDGE_SUMMARY
from rldf_ray.judging import JUDGED, LONG_SCORES
from rldf_ray.plan import model_of


def judge_notes(figures: Sequence[str], methods: Sequence[Method], policy: str) -> list[str]:
    """Sentences about the judges of these files; none about a file that no judge left.

    Args:
        policy: the model to be debiased, as a speaker.
    """
    found = []
    for summary in _beside(figures, JUDGE_SUMMARY):
        told = json.loads(summary.read_text())
        judge, audit = told["judge"], told["audit"] or {}
        verdicts = [one["verdict"] for one in audit.values()] or ["It was not audited."]
        found.append(f"The judge of tables 3 to 5 is {judge}. {' '.join(verdicts)}")
        rows = [method.title for method in methods if model_of(judge) in _speakers(method)]
        if rows:
            part = "debates or referees, or a referee is fitted from it,"
            found.append(f"The judge also {part} in the rows {', '.join(rows)}.")
        if model_of(judge) == model_of(policy):
            found.append("The judge is the model that every row begins with: it judges its own.")
    return found


def score_rows(figures: Sequence[str], methods: Sequence[str]) -> Rows:
    """The judge's score of every answer, as a share of 100, in rows that can be compared.

    A prompt to which an answer of any method or repeat has no score is left out for all of them.
    """
    found = []
    for path in _beside(figures, Path(JUDGED).name):
        rows = [row for row in pq.read_table(path).to_pylist() if row["method"] in methods]
        everyone = {(row["method"], row["repeat"]) for row in rows}
        scored: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            if row["score"] is not None:
                scored[row["measure"], row["prompt_id"]].add((row["method"], row["repeat"]))
        found += [
            {
                "method": row["method"],
                "repeat": row["repeat"],
                "group": row["bias_type"],
                "template": row["prompt_id"],
                "item_id": row["prompt_id"],
                "condition": row["measure"],
                "score": row["score"] / 100,
            }
            for row in rows
            if scored[row["measure"], row["prompt_id"]] == everyone
        ]
    return found


def _beside(figures: Sequence[str], name: str) -> list[Path]:
    """The files of that name beside figures that a judge left."""
    given = dict.fromkeys(Path(path) for path in figures)
    left = [path.with_name(name) for path in given if path.name == Path(LONG_SCORES).name]
    return [path for path in left if path.is_file()]


def _speakers(method: Method) -> set[str]:
    if method.training is None:
        return set()
    source = method.training.source
    return {model_of(source.speaker_of(part)) for part in ("debate", "referee")}
