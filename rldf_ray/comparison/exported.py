"""A comparison's answers as logs that other programs read: one a method, repeat and set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.comparison.results import (
    ALL,
    BBQ,
    ITEM_SCHEMA,
    ITEMS,
    MEASURES,
    MULTIROLE,
    RESULT_SCHEMA,
    RESULTS,
    Rows,
)
from rldf_ray.eval_logs.records import EvalLog, Figure
from rldf_ray.evaluate.bbq.exported import (
    Answered,
    about,
    bbq_items,
    check_same,
    meaning,
    placed,
    samples_of,
    task_name,
    written_at,
)
from rldf_ray.evaluate.bbq.harness_figures import (
    harness_figures,
    harness_notes,
    sample_values,
)
from rldf_ray.evaluate.bbq.prompt import order_of
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.multirole.data import KIND_AT, load_multirole
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.storage.run_folder import RunFolder

COMPARE = "compare"
SUMMARY = "compare.json"


@dataclass(frozen=True, slots=True)
class _ItemSet:
    """The texts of a set's items, and where they were read from."""

    source: Path
    items: Mapping[Key, tuple[int, BBQItem]]


def comparison_logs(folder: RunFolder, bbq: Path | None) -> list[EvalLog]:
    """The logs of a comparison by `rldf eval compare`.

    Args:
        folder: of the comparison.
        bbq: BBQ's files; None is where they were when the methods were asked.

    Raises:
        ExportError: the items are not there, or are others.
    """
    kept = RunFolder(folder.root / COMPARE)
    summary = kept.read_object(SUMMARY, ("plan", "settings", "methods"))
    by_log: dict[tuple[str, int, str], Rows] = defaultdict(list)
    for row in kept.read_table(ITEMS, ITEM_SCHEMA).to_pylist():
        by_log[row["method"], row["repeat"], row["set"]].append(row)
    results: dict[tuple[str, int, str], Rows] = defaultdict(list)
    for row in kept.read_table(RESULTS, RESULT_SCHEMA).to_pylist():
        results[row["method"], row["repeat"], row["set"]].append(row)
    section = summary["plan"]["evaluate"]
    sets: dict[bool, _ItemSet] = {}
    created = written_at(kept.root / SUMMARY)
    logs = []
    for key, rows in by_log.items():
        multirole = key[2] == MULTIROLE
        if multirole not in sets:
            sets[multirole] = _item_set(section, multirole, bbq)
        logs.append(_log(summary, rows, results[key], sets[multirole], created))
    return logs


def _item_set(section: Mapping[str, Any], multirole: bool, bbq: Path | None) -> _ItemSet:
    if multirole:
        source = Path(section["multirole"])
        return _ItemSet(source, placed(load_multirole(source, None).items))
    source = bbq or Path(section["bbq"] or SCENES)
    return _ItemSet(source, bbq_items(source))


def _log(
    summary: Mapping[str, Any], rows: Rows, results: Rows, item_set: _ItemSet, created: str
) -> EvalLog:
    method, repeat, seed, set_ = (rows[0][name] for name in ("method", "repeat", "seed", "set"))
    items, mode = item_set.items, _mode(set_, summary["settings"])
    keyed = [
        {**row, "category": row["group"], "example_id": int(row["item_id"].rpartition("/")[2])}
        for row in rows
    ]
    digests = "queries_digest" if set_ == MULTIROLE else "items_digest"
    check_same(items, keyed, item_set.source, summary.get(digests))
    answers = [_answered(row, items, mode, seed) for row in keyed]
    of_bbq = set_ != MULTIROLE
    values = sample_values if of_bbq else _kinds
    predictions = {answer.key: answer.prediction for answer in answers}
    titles = {one["name"]: one["title"] for one in summary["methods"]}
    return EvalLog(
        task=task_name("rldf", BBQ if of_bbq else MULTIROLE, mode),
        model=f"{method}-{repeat}",
        dataset=str(summary.get("set", "BBQ")) if of_bbq else "the multi-role debate set",
        location=str(item_set.source),
        available=len(items),
        created=created,
        arguments={"method": method, "repeat": repeat, "seed": seed, "mode": mode},
        packages=summary.get("versions", {}),
        about={
            **about(summary),
            "title": titles.get(method, method),
            "notes": list(summary.get("notes", ())),
            "input": "the item as it was shown; a method's own instruction, and its reasoning "
            "(`reasoning` of a sample), stood beside it",
        },
        samples=list(samples_of(items, answers, mode, values)),
        figures=list(_figures(results)),
        harness_figures=harness_figures(items, predictions, "paper") if of_bbq else (),
        harness_notes=harness_notes(mode, "paper") if of_bbq else MULTIROLE_NOTES,
    )


MULTIROLE_NOTES = (
    "the harness has no task of this set; acc is the share of impartial answers",
    "biased, impartial and anti_biased are shares of all queries",
)


def _mode(set_: str, settings: Mapping[str, Any]) -> str:
    """How a set was asked: the first of the ways, or the one that its name ends with."""
    return str(settings["modes"][0]) if set_ in (BBQ, MULTIROLE) else set_.removeprefix(f"{BBQ}_")


def _answered(
    row: Mapping[str, Any], items: Mapping[Key, tuple[int, BBQItem]], mode: str, seed: int
) -> Answered:
    key = row["category"], row["example_id"]
    return Answered(
        key=key,
        prediction=row["prediction"],
        # As `answers.py` shows them: only letters have an order that the seed draws.
        order=order_of(items[key][1], mode == "letter", seed),
        scores=row["scores"],
        text=None,
        more={"reasoning": row["thought"]} if row["thought"] else {},
    )


def _kinds(item: BBQItem, prediction: int | None) -> dict[str, float]:
    """A query's metrics: which kind of option was chosen."""
    values = {"acc": float(prediction == item.label)}
    values.update((kind, float(place == prediction)) for place, kind in enumerate(KIND_AT))
    return values


def _figures(results: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Figures of all items before those of groups; whatever results.parquet has of the set."""
    for row in sorted(results, key=lambda row: row["group"] != ALL):
        name = MEASURES.get(row["measure"], row["measure"])
        yield Figure(
            name=name,
            value=row["value"],
            means=meaning(name, "paper"),
            group=None if row["group"] == ALL else row["group"],
            n=row["n"],
        )
