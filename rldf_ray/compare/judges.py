"""What the tables say of a judge whose figures they take in: its audit, and whose model it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rldf_ray.compare.method import Method
from rldf_ray.evaluate.judge_audit import JUDGE_SUMMARY
from rldf_ray.judging import LONG_SCORES
from rldf_ray.plan import model_of


def judge_notes(figures: Sequence[str], methods: Sequence[Method], policy: str) -> list[str]:
    """Sentences about the judges of these files; none about a file that no judge left.

    Args:
        policy: the model to be debiased, as a speaker.
    """
    found = []
    given = dict.fromkeys(Path(path) for path in figures)
    for path in given:
        summary = path.with_name(JUDGE_SUMMARY)
        if path.name != Path(LONG_SCORES).name or not summary.is_file():
            continue
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


def _speakers(method: Method) -> set[str]:
    if method.training is None:
        return set()
    source = method.training.source
    return {model_of(source.speaker_of(part)) for part in ("debate", "referee")}
