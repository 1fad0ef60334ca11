"""What the tables say of a judge whose figures they take in: its audit, whose model it is, and
whether its scores separate methods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rldf_ray.comparison.comparisons import Comparison, compare_all
from rldf_ray.comparison.method import Method
from rldf_ray.dataset.preference_data import topic_of_prompt
from rldf_ray.evaluate.judge.audit import JUDGE_SUMMARY, audit_remarks
from rldf_ray.evaluate.judge.rubrics import MEASURES
from rldf_ray.evaluate.judge.run import JUDGED, LONG_SCORES
from rldf_ray.evaluate.long_format import ALL
from rldf_ray.plan import Speaker
from rldf_ray.storage.parquet import given_table


def judge_notes(figures: Sequence[str], methods: Sequence[Method], policy: str) -> list[str]:
    """Sentences about the judges of these files; none about a file that no judge left.

    Args:
        policy: the model to be debiased, as a speaker.
    """
    notes = []
    for path in _beside(figures, JUDGE_SUMMARY):
        summary = json.loads(path.read_text(encoding="utf-8"))
        judge = summary["judge"]
        notes.append(f"The judge of tables 3 to 5 is {judge}. {' '.join(audit_remarks(summary))}")
        unscored = [part for method in methods for part in _without_score(summary, method)]
        if unscored:
            notes.append(f"Answers that it gave no score are in no mean: {'; '.join(unscored)}.")
        rows = [
            method.title for method in methods if Speaker.parse(judge).weights in _speakers(method)
        ]
        if rows:
            part = "debates or referees, or a referee is fitted from it,"
            notes.append(f"The judge also {part} in the rows {', '.join(rows)}.")
        if Speaker.parse(judge).weights == Speaker.parse(policy).weights:
            notes.append("The judge is the model that every row begins with: it judges its own.")
    return notes


def _without_score(summary: Mapping[str, Any], method: Method) -> Iterator[str]:
    """'SFT 3 of 40 (BS), 1 of 40 (CE)', where a method has answers without a score."""
    measures = summary.get("methods", {}).get(method.name, {}).get(ALL, {})
    counts = [
        f"{one['without_score']} of {one['n'] + one['without_score']} ({measure})"
        for measure, one in measures.items()
        if measure in MEASURES and one["without_score"]
    ]
    if counts:
        yield f"{method.title} {', '.join(counts)}"


def compare_scores(figures: Sequence[str], methods: Sequence[str], seed: int) -> list[Comparison]:
    """Paired tests of each judge's scores of single answers, as shares of 100, on the same prompts.

    Judges are not held against each other. An answer without a score is left out, and a prompt that
    leaves one of two methods without any.
    """
    comparisons: list[Comparison] = []
    for path in _beside(figures, Path(JUDGED).name):
        rows = [_scored(row) for row in given_table(path).to_pylist() if row["score"] is not None]
        comparisons += compare_all(rows, methods, seed, MEASURES, figure="score", incomplete=True)
    return comparisons


def _scored(row: Mapping[str, Any]) -> dict[str, Any]:
    """A judge's row as comparisons read it: a topic is what a question template is to items."""
    return {
        "method": row["method"],
        "repeat": row["repeat"],
        "group": row["bias_type"],
        "template": topic_of_prompt(row["prompt_id"]),
        "item_id": row["prompt_id"],
        "condition": row["measure"],
        "score": row["score"] / 100,
    }


def _beside(figures: Sequence[str], name: str) -> list[Path]:
    """The files of that name beside figures that a judge left."""
    given = dict.fromkeys(Path(path) for path in figures)
    left = [path.with_name(name) for path in given if path.name == Path(LONG_SCORES).name]
    return [path for path in left if path.is_file()]


def _speakers(method: Method) -> set[str]:
    if method.training is None:
        return set()
    source = method.training.source
    return {speaker.weights for speaker in (*source.debaters(), source.speaker_of("referee"))}
