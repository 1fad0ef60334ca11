"""A finished comparison: figures, tests, tables and costs from what is on disk, and its files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.compare.answers import Asking, read_answers
from rldf_ray.compare.comparisons import Comparison, compare_all
from rldf_ray.compare.costs import Answering, Cost, cost_of
from rldf_ray.compare.judges import judge_notes
from rldf_ray.compare.method import Method
from rldf_ray.compare.multirole import MultiroleRows
from rldf_ray.compare.results import (
    ALL,
    ITEM_SCHEMA,
    MEASURES,
    RESULT_SCHEMA,
    Rows,
    given_rows,
    item_rows,
    result_rows,
)
from rldf_ray.compare.settings import Settings
from rldf_ray.compare.tables import MEANS, Table, all_tables
from rldf_ray.compare.writing import csv_text, latex, markdown
from rldf_ray.environment import machine, versions
from rldf_ray.evaluate.asking import RANKED
from rldf_ray.evaluate.bbq_data import BBQSet
from rldf_ray.evaluate.bbq_score import score
from rldf_ray.evaluate.multiple_choice import set_name
from rldf_ray.plan import Plan
from rldf_ray.storage import RunFolder, digest, file_digest

INTERVALS = (
    "Intervals and p-values: paired bootstrap over question templates of each item's share of "
    "right repeats; Holm's adjustment over all comparisons of the same items."
)
SILENT = (
    "A model that always says that it cannot be known is no method; it is printed so that nobody "
    "reads the overall accuracy without the disambiguated one."
)


@dataclass(frozen=True)
class Found:
    """A finished comparison, as JSON and the terminal tell it."""

    titles: Mapping[str, str]
    results: Rows
    tables: Sequence[Table]
    comparisons: Sequence[Comparison]
    costs: Mapping[str, Cost]
    notes: Sequence[str]
    summary: Mapping[str, Any]


def found_in(
    plan: Plan,
    settings: Settings,
    methods: Sequence[Method],
    askings: Sequence[Asking],
    keys: Mapping[tuple[str, int], str],
    items: BBQSet,
    multirole: MultiroleRows,
    pairs: int | None,
    out: Path,
) -> Found:
    """Figures, tests, tables and costs from what is on disk."""
    kept = RunFolder(out / "compare")
    answered, results = [], []
    costs: dict[str, list[Cost]] = {method.name: [] for method in methods}
    for asking in askings:
        key = keys[asking.method.name, asking.repeat]
        answers = read_answers(kept, key)
        answered += item_rows(asking, answers)
        results += result_rows(asking, items.items, answers)
        took = Answering.of(kept.read_json(f"answers/{key}.json"), len(items.items))
        costs[asking.method.name].append(cost_of(asking.method, asking.repeat, pairs, took, out))
    titles = {method.name: method.title for method in methods}
    results += [*multirole.results, *given_rows(settings, list(titles))]
    every_item = [*answered, *multirole.items]
    kept.write_table("items.parquet", pa.Table.from_pylist(every_item, schema=ITEM_SCHEMA))
    kept.write_table("results.parquet", pa.Table.from_pylist(results, schema=RESULT_SCHEMA))
    comparisons = compare_all(answered, list(titles), plan.seed)
    tables = all_tables(results, titles, Path(plan.model).name, _always_unknown(items))
    means = {name: _mean(found) for name, found in costs.items()}
    notes = [*_notes(plan, settings, items, pairs), *judge_notes(settings.figures, methods)]
    summary = {
        "command": " ".join(["rldf", *sys.argv[1:]]),
        "plan": plan.model_dump(mode="json"),
        "plan_digest": plan.digest(),
        "settings": asdict(settings),
        "seeds": [plan.seed + repeat for repeat in range(settings.repeats)],
        "pairs": pairs,
        "set": set_name(plan),
        "items": len(items.items),
        "items_digest": digest([asdict(item) for item in items.items]),
        "files": {
            name: file_digest(kept.root / name) for name in ("items.parquet", "results.parquet")
        },
        "methods": [_about(method, askings, keys, means[method.name]) for method in methods],
        "always_unknown": _always_unknown(items)[ALL],
        "comparisons": [{**asdict(c), "verdict": c.verdict} for c in comparisons],
        "notes": notes,
        "versions": versions(),
        "machine": machine(),
    }
    return Found(titles, results, tables, comparisons, means, notes, summary)


def _about(
    method: Method,
    askings: Sequence[Asking],
    keys: Mapping[tuple[str, int], str],
    cost: Cost,
) -> dict[str, Any]:
    mine = [asking for asking in askings if asking.method.name == method.name]
    return {
        "name": method.name,
        "title": method.title,
        "models": [asking.weights for asking in mine],
        "answers": [keys[asking.method.name, asking.repeat] for asking in mine],
        "cost": cost.as_dict(),
    }


def _always_unknown(items: BBQSet) -> dict[str, dict[str, float | None]]:
    """Group -> figures of a model that reads nothing and always says that it cannot be known."""
    found = score(items.items, {item.key: item.unknown for item in items.items})
    groups = {**found.categories, ALL: found.overall}
    figures = {
        group: {measure: getattr(one, name) for measure, name in MEASURES.items()}
        for group, one in groups.items()
    }
    figures[MEANS] = {
        measure: found.mean_of_categories[name].value
        for measure, name in MEASURES.items()
        if name in found.mean_of_categories
    }
    return figures


def _mean(costs: Sequence[Cost]) -> Cost:
    """Of the repeats; what is the same in all of them stays as it is."""
    n = len(costs)
    known = [cost.reward_accuracy for cost in costs if cost.reward_accuracy is not None]
    return replace(
        costs[0],
        generated_tokens=round(sum(cost.generated_tokens for cost in costs) / n),
        seconds=sum(cost.seconds for cost in costs) / n,
        answering=Answering(
            thought_tokens=sum(cost.answering.thought_tokens for cost in costs) / n,
            seconds=sum(cost.answering.seconds for cost in costs) / n,
        ),
        reward_accuracy=sum(known) / len(known) if known else None,
        remarks=tuple(dict.fromkeys(remark for cost in costs for remark in cost.remarks)),
    )


def _notes(plan: Plan, settings: Settings, items: BBQSet, pairs: int | None) -> list[str]:
    number = settings.repeats
    how = {
        "rank": "options ranked by the mean log-likelihood of their tokens",
        "rank_sum": "options ranked by the log-likelihood of the whole answer",
    }.get(settings.mode, "answers by letter")
    found = [
        f"{set_name(plan)}: {len(items.items)} items, the same for all methods and repeats; {how}.",
        _repeats(plan, number),
        INTERVALS,
        SILENT,
    ]
    if settings.mode in RANKED and number > 1:
        found.append("Default ranks without drawing anything, so its repeats are equal.")
    if plan.referee.judgements == "checked":
        found.append("Of statements on scenes the referee was told what can be concluded.")
    if pairs is not None:
        found.append(
            f"Every reward model was given {pairs} pairs: the fewest that a source had, of those "
            "the plan takes."
        )
    if items.why_no_bias_scores:
        found.append(f"No bias scores: {items.why_no_bias_scores}.")
    return found


def _repeats(plan: Plan, number: int) -> str:
    if number == 1:
        return f"One repeat, seed {plan.seed}: no deviation is known."
    return (
        f"{number} repeats, seeds {plan.seed} to {plan.seed + number - 1}; debates are held once "
        "and shared by all seeds, so the deviation is that of training and sampling."
    )


def write_files(found: Found, kept: RunFolder) -> None:
    tables = markdown(found.tables, found.comparisons, found.costs, found.titles, found.notes)
    kept.write_text("tables.md", tables)
    kept.write_text("tables.tex", latex(found.tables))
    kept.write_text("tables.csv", csv_text(found.tables))
    kept.write_json("compare.json", found.summary)
