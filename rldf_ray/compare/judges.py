"""What the tables say of a judge whose figures they take in: its audit, and whose model it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rldf_ray.compare.method import Method
from rldf_ray.evaluate.judge_audit import JUDGE_SUMMARY


def judge_notes(figures: Sequence[str], methods: Sequence[Method], policy: str) -> list[str]:
    """Sentences about the judges of these files; none about a file that no judge left.

    Args:
        policy: the model to be debiased, as a speaker.
    """
    found = []
    for path in figures:
        summary = Path(path).with_name(JUDGE_SUMMARY)
        if not summary.is_file():
            continue
        told = json.loads(summary.read_text())
        judge, audit = told["judge"], told["audit"] or {}
        verdicts = [one["verdict"] for one in audit.values()] or ["It was not audited."]
        found.append(f"The judge of tables 3 to 5 is {judge}. {' '.join(verdicts)}")
        rows = [method.title for method in methods if _same(judge) in _speakers(method)]
        if rows:
            found.append(f"The judge also debates or referees in the rows {', '.join(rows)}.")
        if _same(judge) == _same(policy):
            found.append("The judge is the model that every row begins with: it judges its own.")
    return found


def _speakers(method: Method) -> set[str]:
    if method.training is None:
        return set()
    source = method.training.source
    return {_same(source.speaker_of(part)) for part in ("debate", "referee")}


def _same(speaker: str) -> str:
    """A speaker by one name: a folder of this machine can be written in several ways."""
    backend, _, model = speaker.partition(":")
    folder = Path(model).expanduser()
    return f"{backend}:{folder.resolve()}" if model and folder.is_dir() else speaker
