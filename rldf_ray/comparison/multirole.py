"""The multi-role debate set for every method: shares of biased, impartial, anti-biased answers."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rldf_ray.comparison.answers import answer_all, read_answers
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.results import MULTIROLE, Rows, item_rows
from rldf_ray.comparison.settings import Settings
from rldf_ray.console import Progress
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.multirole.data import MultiroleSet, load_multirole
from rldf_ray.evaluate.multirole.summary import MultiroleEvaluation
from rldf_ray.plan import Plan
from rldf_ray.sets.bbq.items import BBQItem, BBQSet, Key
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True)
class MultiroleRows:
    """What the set adds to eval/items.parquet and results.parquet; nothing where the plan lacks it.

    Attributes:
        sets: the items answered, by the name of their set.
    """

    items: Rows
    results: Rows
    sets: Mapping[str, Sequence[BBQItem]]


def queries_of(plan: Plan, settings: Settings, without: Container[Key] = ()) -> MultiroleSet | None:
    """The set's sample, None where the plan has none.

    Args:
        without: queries that are left out before the sample is drawn.

    Raises:
        MultiroleError: the file is not there, or not as published.
    """
    if plan.evaluate.multirole is None:
        return None
    source = plan.evaluate.multirole
    return load_multirole(source, settings.queries, plan.seed, without=without)


def multirole_rows(
    plan: Plan,
    settings: Settings,
    queries: MultiroleSet | None,
    method_runs: Sequence[MethodRun],
    out: RunFolder,
    progress: Progress,
) -> MultiroleRows:
    """Have every method answer the queries, as it does BBQ's items."""
    if queries is None:
        return MultiroleRows([], [], {})
    items = BBQSet(
        items=queries.items,
        source=queries.source,
        target_sources=(),
        contradictory=frozenset(),
        why_no_bias_scores="the set has no such scores",
    )
    keys = answer_all(plan, method_runs, items, settings.mode, out, progress)
    rows = MultiroleRows([], [], {"the multi-role debate set": items.items})
    for method_run in method_runs:
        answers = read_answers(out, keys[method_run.place])
        rows.items.extend(item_rows(method_run, answers, MULTIROLE))
        rows.results.extend(_shares(method_run, queries, answers, settings))
    return rows


def _shares(
    method_run: MethodRun, queries: MultiroleSet, answers: pa.Table, settings: Settings
) -> Rows:
    given = {
        (row["category"], row["example_id"]): Answer(row["prediction"])
        for row in answers.to_pylist()
    }
    name = method_run.method.name
    evaluation = MultiroleEvaluation(
        model=name, mode=settings.mode, queries=queries, answers=given, seed=method_run.seed
    )
    head = {"method": name, "repeat": method_run.repeat, "seed": method_run.seed, "set": MULTIROLE}
    return [
        head | {"group": v.group, "measure": v.measure, "value": v.value, "n": v.n}
        for v in evaluation.values()
        if v.value is not None
    ]
