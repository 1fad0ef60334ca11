"""Results as lm-evaluation-harness 0.4.13 writes them: figures, and the samples of each task.

    folder/MODEL/results_2026-01-31T12-00-00.json
    folder/MODEL/samples_rldf_bbq_rank_2026-01-31T12-00-00.jsonl

Tasks have names of their own, as their items, prompts and options are not those of the harness's
tasks; what differs is listed in `configs`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rldf_ray.eval_logs.records import EvalLog, Sample
from rldf_ray.storage.digest import text_digest
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file

VERSION = 1.0
NOT_AVAILABLE = "N/A"
UNPARSED = "[invalid]"
"""What the harness's filters give for an answer that they do not find."""
HASHES = ("doc_hash", "prompt_hash", "target_hash")
LOWER_IS_BETTER = re.compile(r"bias_score|s_amb|s_dis|shift|excess|^(anti_)?biased$")


def write(logs: Sequence[EvalLog], folder: Path) -> list[Path]:
    """A folder for each model, with its figures and the samples of each of its tasks."""
    by_model: dict[str, list[EvalLog]] = defaultdict(list)
    for log in logs:
        by_model[log.model].append(log)
    written = []
    for name, of_model in zip(_folder_names(by_model), by_model.values(), strict=True):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        time = _time(max(log.created for log in of_model))
        tasks = _tasks(of_model)
        samples = {
            task: [sample_row(log, sample) for sample in log.samples] for task, log in tasks.items()
        }
        files = {f"results_{time}.json": json_text(results(tasks, samples, name), indent=2)}
        files |= {
            f"samples_{task}_{time}.jsonl": "".join(
                f"{json_text(row, ensure_ascii=False)}\n" for row in rows
            )
            for task, rows in samples.items()
        }
        for file, text in files.items():
            with whole_file(place / file) as scratch:
                scratch.write_text(text, encoding="utf-8")
            written.append(place / file)
    return written


def _tasks(logs: Sequence[EvalLog]) -> dict[str, EvalLog]:
    """Logs by their tasks; those of one name are numbered, so that none replaces another."""
    tasks: dict[str, EvalLog] = {}
    for log in logs:
        name, number = log.task, 1
        while name in tasks:
            number += 1
            name = f"{log.task}_{number}"
        tasks[name] = log
    return tasks


def results(
    tasks: Mapping[str, EvalLog], samples: Mapping[str, Sequence[Mapping[str, Any]]], folder: str
) -> dict[str, Any]:
    """What results_*.json says of one model.

    Args:
        samples: rows of `sample_row`, by task.
        folder: the name of the folder that it is written to.
    """
    first = next(iter(tasks.values()))
    figures = {task: _figures(log) for task, log in tasks.items()}
    return {
        "results": {
            task: {"name": task, "alias": task, "sample_len": len(samples[task]), **of_task}
            for task, of_task in figures.items()
        },
        "group_subtasks": {},
        "configs": {task: _config(task, log) for task, log in tasks.items()},
        "versions": dict.fromkeys(tasks, VERSION),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {
            task: {
                name: LOWER_IS_BETTER.search(name) is None
                for name in (key.partition(",")[0] for key in of_task)
                if not name.endswith("_stderr")
            }
            for task, of_task in figures.items()
        },
        "n-samples": {
            task: {"original": log.available, "effective": len(log.samples)}
            for task, log in tasks.items()
        },
        "config": {"model": "rldf-ray", "model_args": {"model": first.model}, "limit": None},
        "git_hash": first.about.get("commit"),
        "date": datetime.fromisoformat(first.created).timestamp(),
        "packages": dict(first.packages),
        "task_hashes": {
            task: text_digest("".join(row[name] for row in rows for name in HASHES))
            for task, rows in samples.items()
        },
        "model_source": "rldf-ray",
        "model_name": first.model,
        "model_name_sanitized": folder,
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": None,
    }


def sample_row(log: EvalLog, sample: Sample) -> dict[str, Any]:
    """A line of samples_*.jsonl; responses are texts there, as the harness makes them."""
    prompt = "\n\n".join(text for _, text in sample.messages)
    if _ranked(log):
        target = str(sample.right)
        asked: list[tuple[str, Any]] = [(prompt, option) for option in sample.choices]
        # The harness also logs whether an option is the greedy one, which is not known here.
        filtered: list[Any] = [[str(one), "None"] for one in sample.likelihoods or ()]
        responses: list[Any] = [[one] for one in filtered]
    else:
        target = sample.target
        asked = [(prompt, {})]
        responses = [[sample.output or ""]]
        filtered = [UNPARSED if sample.answer is None else sample.answer]
    doc = dict(sample.doc)
    return {
        "doc_id": sample.place,
        "doc": doc,
        "target": target,
        "arguments": {
            f"gen_args_{place}": {"arg_0": shown, "arg_1": option}
            for place, (shown, option) in enumerate(asked)
        },
        "resps": responses,
        "filtered_resps": filtered,
        "filter": _filter(log),
        "metrics": list(sample.values),
        "doc_hash": text_digest(json_text(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": text_digest(prompt),
        "target_hash": text_digest(target),
        **sample.values,
    }


def _figures(log: EvalLog) -> dict[str, Any]:
    """Means of the samples' numbers, then what is no mean; keys are "metric,filter"."""
    numbers: dict[str, list[float]] = defaultdict(list)
    for sample in log.samples:
        for name, value in sample.values.items():
            if isinstance(value, float):
                numbers[name].append(value)
    filter_ = _filter(log)
    figures: dict[str, Any] = {}
    for name, values in numbers.items():
        figures[f"{name},{filter_}"] = sum(values) / len(values)
        figures[f"{name}_stderr,{filter_}"] = _standard_error(values)
    for figure in log.harness_figures:
        figures[f"{figure.name},{filter_}"] = figure.value
        figures[f"{figure.name}_stderr,{filter_}"] = NOT_AVAILABLE
    return figures


def _standard_error(values: Sequence[float]) -> float | str:
    """Of a mean, from the sample's deviation, as `mean_stderr` of the harness."""
    n = len(values)
    if n < 2:
        return NOT_AVAILABLE
    mean = sum(values) / n
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)


def _config(task: str, log: EvalLog) -> dict[str, Any]:
    named = {figure.name: figure.means for figure in log.harness_figures}
    return {
        "task": task,
        "dataset_path": log.location,
        "output_type": "multiple_choice" if _ranked(log) else "generate_until",
        "num_fewshot": 0,
        "metadata": {
            "version": VERSION,
            **log.arguments,
            "differs": list(log.harness_notes),
            "definitions": named,
        },
    }


def _ranked(log: EvalLog) -> bool:
    """Whether the options of all samples have likelihoods."""
    return all(sample.likelihoods is not None for sample in log.samples)


def _filter(log: EvalLog) -> str:
    return "none" if _ranked(log) else "parsed"


def _folder_names(models: Iterable[str]) -> list[str]:
    """A name for each model's folder; those of one name are numbered, whatever their case."""
    names: list[str] = []
    taken: set[str] = set()
    for model in models:
        first = name = _sanitized(model)
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{first}_{number}"
        taken.add(name.lower())
        names.append(name)
    return names


def _sanitized(model: str) -> str:
    """A model's name as the harness names folders; never that of another folder."""
    name = re.sub(r'["<>:/|\\?*\[\]]+', "__", model)
    return name if name.strip(".") else "__"


def _time(created: str) -> str:
    """As in the harness's files: without a zone or colons."""
    return datetime.fromisoformat(created).replace(tzinfo=None).isoformat().replace(":", "-")
