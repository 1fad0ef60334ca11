"""The log of inspect_ai, a JSON file that its viewer and `read_eval_log` open.

Written by the documented format, version 2, rather than by the package: it is MIT-licensed, but
brings some eighty others, and excludes versions that this project is installed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rldf_ray.eval_logs.records import LETTERS, EvalLog, Figure, Sample
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file

VERSION = 2
CORRECT, INCORRECT = "C", "I"


def write(logs: Sequence[EvalLog], folder: Path) -> list[Path]:
    """One file a log, named as inspect_ai names its own: TIME_TASK_ID.json."""
    written = []
    for log in logs:
        # Its lists of logs take files that begin with a time and have no colons in it.
        time = log.created.replace(":", "-")
        path = folder / f"{time}_{log.task.replace('_', '-')}_{_id(log)}.json"
        with whole_file(path) as scratch:
            scratch.write_text(json_text(content(log), indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return written


def content(log: EvalLog) -> dict[str, Any]:
    """The whole log; fields that it leaves out have the reader's own defaults."""
    return {
        "version": VERSION,
        "status": "success",
        "eval": _spec(log),
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": _results(log),
        "stats": {"started_at": "", "completed_at": log.created},
        "samples": [_sample(log, sample) for sample in log.samples],
    }


def _spec(log: EvalLog) -> dict[str, Any]:
    return {
        "eval_id": _id(log),
        "run_id": _id(log),
        "created": log.created,
        "task": log.task,
        "task_id": _id(log),
        "task_args": dict(log.arguments),
        "dataset": {
            "name": log.dataset,
            "location": log.location,
            "samples": log.available,
            "sample_ids": [sample.id for sample in log.samples],
            "shuffled": False,
        },
        "model": log.model,
        "config": {"epochs": 1},
        "packages": dict(log.packages),
        "metadata": dict(log.about),
        "scorers": [{"name": name} for name in _score_names(log)],
    }


def _results(log: EvalLog) -> dict[str, Any]:
    return {
        "total_samples": len(log.samples),
        "completed_samples": len(log.samples),
        "scores": [_score(log, name) for name in _score_names(log)],
    }


def _score(log: EvalLog, name: str) -> dict[str, Any]:
    scored = sum(name in sample.scores for sample in log.samples)
    return {
        "name": name,
        "scorer": name,
        "scored_samples": scored,
        "unscored_samples": len(log.samples) - scored,
        "metrics": {
            f"{figure.group}/{figure.name}" if figure.group else figure.name: _metric(figure)
            for figure in log.figures
            if figure.score == name
        },
    }


def _metric(figure: Figure) -> dict[str, Any]:
    about = {"definition": figure.means, "low": figure.low, "high": figure.high, "n": figure.n}
    return {
        "name": figure.name,
        "group": figure.group,
        "value": figure.value,
        "metadata": {name: value for name, value in about.items() if value is not None},
    }


def _sample(log: EvalLog, sample: Sample) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in sample.messages]
    said = [] if sample.output is None else [{"role": "assistant", "content": sample.output}]
    only = len(messages) == 1 and messages[0]["role"] == "user"
    return {
        "id": sample.id,
        "epoch": 1,
        "input": messages[0]["content"] if only else messages,
        "choices": list(sample.choices),
        "target": sample.target,
        "messages": [*messages, *said],
        "output": {
            "model": log.model,
            "choices": [{"message": one, "stop_reason": "unknown"} for one in said],
            "completion": sample.output or "",
        },
        "scores": {name: _scored(sample, value) for name, value in sample.scores.items()},
        "metadata": dict(sample.metadata),
    }


def _scored(sample: Sample, value: bool | float) -> dict[str, Any]:
    score: dict[str, Any] = {"value": value, "answer": sample.answer}
    if isinstance(value, bool):
        score["value"] = CORRECT if value else INCORRECT
    if sample.likelihoods is not None:
        score["metadata"] = {
            "log_likelihoods": dict(zip(LETTERS, sample.likelihoods, strict=False))
        }
    return score


def _score_names(log: EvalLog) -> list[str]:
    """Of samples and of figures, in the order in which they are met."""
    names = [name for sample in log.samples for name in sample.scores]
    return list(dict.fromkeys([*names, *(figure.score for figure in log.figures)]))


def _id(log: EvalLog) -> str:
    """The same for the same results, so that a second export replaces the first."""
    return digest(log.task, log.model, log.created, log.arguments)
