"""A finished comparison: figures, tests, tables and costs from what is on disk, and its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.provenance import provenance
from rldf_ray.comparison.answers import read_answers
from rldf_ray.comparison.comparisons import Comparison, compare_all
from rldf_ray.comparison.costs import Answering, Cost, cost_of, mean_cost
from rldf_ray.comparison.earlier import every_topic, topics_digest, topics_note
from rldf_ray.comparison.general_ability import perplexity_rows
from rldf_ray.comparison.judges import compare_scores, judge_notes
from rldf_ray.comparison.latex import latex
from rldf_ray.comparison.method import Method
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.multirole import MultiroleRows
from rldf_ray.comparison.notes import (
    always_unknown_note,
    cut_off_notes,
    notes_of,
    overlap_notes,
    rewriting_notes,
    unequal_notes,
)
from rldf_ray.comparison.option_order import Positions, order_notes, order_table, positions_of
from rldf_ray.comparison.plans import policy_as_speaker
from rldf_ray.comparison.reading import Reading, reading_table, readings
from rldf_ray.comparison.results import (
    ALL,
    ITEM_SCHEMA,
    ITEMS,
    MEASURES,
    MULTIROLE,
    RESULT_SCHEMA,
    RESULTS,
    Rows,
    given_rows,
    item_rows,
    result_rows,
    set_of,
)
from rldf_ray.comparison.runs import debate_run_name, training_run_name
from rldf_ray.comparison.selection import Selection, short_note
from rldf_ray.comparison.settings import Settings
from rldf_ray.comparison.tables import MEANS, Table, all_tables
from rldf_ray.comparison.writing import costs_csv, csv_text, differences_csv, markdown
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.run_models import set_name
from rldf_ray.evaluate.bbq.summary import items_digest
from rldf_ray.evaluate.contamination import PAIR_ROWS, SFT_ROWS, completions_of
from rldf_ray.plan import Plan
from rldf_ray.records import Topic
from rldf_ray.report.abstention import Methods, answered_of
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.sets.bbq.score import score
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class ComparisonResult:
    """A finished comparison, as the files, JSON and the terminal show it."""

    titles: Mapping[str, str]
    answered: Methods
    results: Rows
    tables: Sequence[Table]
    comparisons: Sequence[Comparison]
    costs: Mapping[str, Cost]
    readings: Mapping[Mode, Sequence[Reading]]
    positions: Mapping[str, Sequence[Positions]]
    notes: Sequence[str]
    summary: Mapping[str, Any]


def build_result(
    plan: Plan,
    settings: Settings,
    methods: Sequence[Method],
    method_runs: Sequence[MethodRun],
    keys: Mapping[Mode, Mapping[tuple[str, int], str]],
    items: BBQSet,
    multirole: MultiroleRows,
    pairs: int | None,
    topics: Mapping[str, Sequence[Topic]],
    selection: Selection,
    out: Path,
) -> ComparisonResult:
    """Figures, tests, tables and costs from what is on disk.

    Args:
        keys: way of asking -> (method, repeat) -> key of its answers.
        topics: trained on, or held out for free answers, by the run that debates them.
        selection: what settings were chosen on.
    """
    kept = RunFolder(out / "compare")
    answered: dict[Mode, Rows] = {mode: [] for mode in settings.modes}
    results: Rows = []
    places: dict[str, list[Positions]] = {}
    counts: dict[tuple[str, Mode], Counter[str]] = {}
    costs: dict[str, list[Cost]] = {method.name: [] for method in methods}
    for method_run in method_runs:
        took: dict[Mode, Answering] = {}
        for mode in settings.modes:
            key, set_ = keys[mode][method_run.place], set_of(mode, settings)
            answers = read_answers(kept, key)
            answered[mode] += item_rows(method_run, answers, set_)
            results += result_rows(method_run, items.items, answers, set_)
            if mode == "letter":
                name = method_run.method.name
                places.setdefault(name, []).append(positions_of(items.items, answers))
            facts = kept.read_json(f"answers/{key}.json")
            took[mode] = Answering.of(facts, len(items.items))
            counts.setdefault((method_run.method.name, mode), Counter()).update(
                facts.get("thoughts") or {}
            )
        results += perplexity_rows(plan, method_run, kept)
        costs[method_run.method.name].append(
            cost_of(method_run.method, method_run.repeat, pairs, took, out)
        )
    titles = {method.name: method.title for method in methods}
    results += [*multirole.results, *given_rows(plan, settings, list(titles))]
    every_item = [*chain.from_iterable(answered.values()), *multirole.items]
    kept.write_table(ITEMS, pa.Table.from_pylist(every_item, schema=ITEM_SCHEMA))
    kept.write_table(RESULTS, pa.Table.from_pylist(results, schema=RESULT_SCHEMA))
    comparisons = [
        *(
            comparison
            for mode, rows in answered.items()
            for comparison in compare_all(rows, list(titles), plan.seed, mode=mode)
        ),
        *compare_all(multirole.items, list(titles), plan.seed, (MULTIROLE,), mode=settings.mode),
        *compare_scores(settings.figures, list(titles), plan.seed),
    ]
    read = {mode: readings(rows, list(titles), plan.seed, mode) for mode, rows in answered.items()}
    silent = _always_unknown(items)
    accuracy = silent[ALL]["accuracy"]
    assert accuracy is not None, "a set without items is refused when it is read"
    model, set_of_items = Path(plan.model).name, set_name(plan)
    tables = all_tables(results, titles, model, set_of_items, silent, settings)
    means = {name: mean_cost(repeats) for name, repeats in costs.items()}
    trained_on = {
        method.title: debate_run_name(method.training) for method in methods if method.training
    }
    item_sets = {set_of_items: items.items, **multirole.sets}
    queries = [*chain.from_iterable(multirole.sets.values())]
    notes = [
        *notes_of(plan, settings, items, pairs),
        *short_note(plan, items.items),
        selection.note(items.items),
        always_unknown_note(results, titles, accuracy),
        *topics_note(trained_on, topics),
        *unequal_notes(means, titles),
        *cut_off_notes(means, titles),
        *rewriting_notes(counts, titles),
        *overlap_notes(every_topic(topics), _completions(methods, pairs, out), item_sets),
        *order_notes(places, titles),
        *judge_notes(settings.figures, methods, policy_as_speaker(plan)),
    ]
    summary = {
        "plan": plan.model_dump(mode="json"),
        "plan_digest": plan.digest(),
        "settings": asdict(settings),
        "seeds": [plan.seed + repeat for repeat in range(settings.repeats)],
        "pairs": pairs,
        "set": set_of_items,
        "items": len(items.items),
        "selection": selection.as_dict(items.items),
        "items_digest": items_digest(items.items),
        "queries_digest": items_digest(queries) if queries else None,
        "topics": {name: topics_digest(of_run) for name, of_run in topics.items()},
        "files": {name: file_digest(kept.root / name) for name in (ITEMS, RESULTS)},
        "methods": [
            _about(method, method_runs, keys[settings.mode], means[method.name])
            for method in methods
        ],
        "always_unknown": silent[ALL],
        "reading": [asdict(one) for one in chain.from_iterable(read.values())],
        "option_order": places,
        "comparisons": [{**asdict(c), "verdict": c.verdict} for c in comparisons],
        "notes": notes,
        **provenance(),
    }
    return ComparisonResult(
        titles=titles,
        answered=answered_of(answered[settings.mode]),
        results=results,
        tables=tables,
        comparisons=comparisons,
        costs=means,
        readings=read,
        positions=places,
        notes=notes,
        summary=summary,
    )


def _about(
    method: Method,
    method_runs: Sequence[MethodRun],
    keys: Mapping[tuple[str, int], str],
    cost: Cost,
) -> dict[str, Any]:
    own = [method_run for method_run in method_runs if method_run.method.name == method.name]
    return {
        "name": method.name,
        "title": method.title,
        "models": [method_run.weights for method_run in own],
        "answers": [keys[method_run.place] for method_run in own],
        "cost": cost.as_dict(),
    }


def _always_unknown(items: BBQSet) -> dict[str, dict[str, float | None]]:
    """Group -> figures of a model that reads nothing and always says that it cannot be known."""
    scores = score(items.items, {item.key: item.unknown for item in items.items})
    groups = {**scores.categories, ALL: scores.overall}
    figures = {
        group: {measure: getattr(one, name) for measure, name in MEASURES.items()}
        for group, one in groups.items()
    }
    figures[MEANS] = {
        measure: scores.mean_of_categories[name].value
        for measure, name in MEASURES.items()
        if name in scores.mean_of_categories
    }
    return figures


def _completions(
    methods: Sequence[Method], pairs: int | None, out: Path
) -> dict[str, Counter[str]]:
    """What each trained method was trained to say, or to say rather than something else.

    By its title; all repeats have the same data.
    """
    found = {}
    for method in methods:
        if (training := method.training) is not None:
            name = training_run_name(training, training.last, 0, pairs)
            tables = [SFT_ROWS] if training.last == "sft" else [SFT_ROWS, PAIR_ROWS]
            found[method.title] = completions_of(RunFolder(out / "runs" / name), tables)
    return found


def write_files(result: ComparisonResult, kept: RunFolder) -> None:
    """Write the tables as Markdown, LaTeX and CSV, and compare.json."""
    others = [
        reading_table(of_mode, result.titles, 9 if second else 7)
        for second, of_mode in enumerate(result.readings.values())
        if of_mode
    ]
    others += [order_table(result.positions, result.titles)] if result.positions else []
    tables = markdown(
        result.tables, result.comparisons, result.costs, result.titles, others, result.notes
    )
    kept.write_text("tables.md", tables)
    tex = latex(result.tables, result.comparisons, result.costs, result.titles)
    kept.write_text("tables.tex", tex)
    kept.write_text("tables.csv", csv_text(result.tables))
    kept.write_text("differences.csv", differences_csv(result.comparisons))
    kept.write_text("costs.csv", costs_csv(result.costs))
    kept.write_json("compare.json", result.summary)
