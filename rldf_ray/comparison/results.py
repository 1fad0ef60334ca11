"""Every answer, and every figure of every method and repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.settings import Settings
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.unknown import abstention_auroc, accuracy_curve_area
from rldf_ray.plan import Plan, PlanError
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.sets.bbq.score import Score, score
from rldf_ray.storage.parquet import given_table

BBQ, MULTIROLE = "bbq", "multirole"
ALL = "all"
ITEMS, RESULTS = "eval/items.parquet", "results.parquet"

ITEM_SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("set", pa.string()),
        ("group", pa.string()),
        ("item_id", pa.string()),
        ("template", pa.string()),
        ("condition", pa.string()),
        ("polarity", pa.string()),
        ("prediction", pa.int64()),
        ("label", pa.int64()),
        ("unknown", pa.int64()),
        ("target_loc", pa.int64()),
        ("correct", pa.bool_()),
        ("scores", pa.list_(pa.float64())),
        ("thought", pa.string()),
    ]
)
RESULT_SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("set", pa.string()),
        ("group", pa.string()),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
    ]
)
MEASURES = {
    "accuracy": "accuracy",
    "accuracy_amb": "accuracy_ambig",
    "accuracy_dis": "accuracy_disambig",
    "s_amb": "s_amb",
    "s_dis": "s_dis",
    "unknown_share": "unknown_share",
    "unknown_dis": "unknown_disambig",
    "accuracy_named": "accuracy_named",
}

Rows = list[dict[str, Any]]


def set_of(mode: Mode, settings: Settings) -> str:
    """What files call the items as they were answered: "bbq", and a second way by its name."""
    return BBQ if mode == settings.mode else f"{BBQ}_{mode}"


def item_rows(method_run: MethodRun, answers: pa.Table, set_: str = BBQ) -> Rows:
    """The answers of one method in one repeat to a set, as rows of ITEM_SCHEMA."""
    return [
        {
            "method": method_run.method.name,
            "repeat": method_run.repeat,
            "seed": method_run.seed,
            "set": set_,
            "group": row["category"],
            "item_id": f"{row['category']}/{row['example_id']}",
            "template": row["question_index"],
            "condition": row["condition"],
            "polarity": row["polarity"],
            "prediction": row["prediction"],
            "label": row["label"],
            "unknown": row["unknown"],
            "target_loc": row["target_loc"],
            "correct": row["prediction"] == row["label"],
            "scores": row["scores"],
            "thought": row["text"],
        }
        for row in answers.to_pylist()
    ]


def result_rows(
    method_run: MethodRun, items: Sequence[BBQItem], answers: pa.Table, set_: str = BBQ
) -> Rows:
    """The figures of one method in one repeat as rows of RESULT_SCHEMA.

    A figure that there is nothing to take from has no row.
    """
    answered = {(row["category"], row["example_id"]): row for row in answers.to_pylist()}
    scores = score(items, {key: row["prediction"] for key, row in answered.items()})
    option_scores = {key: row["scores"] for key, row in answered.items()}
    head = {
        "method": method_run.method.name,
        "repeat": method_run.repeat,
        "seed": method_run.seed,
        "set": set_,
    }
    groups: Mapping[str, Score] = {**scores.categories, ALL: scores.overall}
    rows = [
        {**head, "group": group, "measure": measure, "value": value, "n": n}
        for group, one in groups.items()
        for measure, value, n in _figures(one)
    ]
    means = scores.mean_of_categories
    rows += [
        {**head, "group": "mean of categories", "measure": m, "value": mean.value, "n": len(items)}
        for m, name in MEASURES.items()
        if (mean := means.get(name)) is not None and mean.value is not None
    ]
    rows += [
        {**head, "group": ALL, "measure": measure, "value": value, "n": len(items)}
        for measure, of in (("unknown_auc", abstention_auroc), ("both_right", accuracy_curve_area))
        if (value := of(items, option_scores)) is not None
    ]
    return rows


def given_rows(plan: Plan, settings: Settings, methods: Sequence[str]) -> Rows:
    """Figures of these methods that another evaluation left, such as a judge's or people's.

    Raises:
        ParquetError: a file has other columns, or is none.
        PlanError: a file is not there, has no row about any of the methods, or rows that the
            comparison measures itself or that were given already.
    """
    given: Rows = []
    measured = {set_of(mode, settings) for mode in settings.modes}
    measured |= set() if plan.evaluate.multirole is None else {MULTIROLE}
    seen: set[tuple[object, ...]] = set()
    for path in settings.figures:
        if not Path(path).is_file():
            raise PlanError(f"--figures {path}: no such file")
        names = RESULT_SCHEMA.names
        rows = given_table(Path(path), names).select(names).to_pylist()
        about = [row for row in rows if row["method"] in methods]
        if not about:
            raise PlanError(
                f"--figures {path}: it is about {sorted({row['method'] for row in rows})}; needed: "
                f"some of {list(methods)}"
            )
        mine = [row for row in about if row["value"] is not None]
        if not mine:
            raise PlanError(f"--figures {path}: no row about the methods compared has a value")
        if own := sorted({row["set"] for row in mine} & measured):
            raise PlanError(
                f"--figures {path}: it has rows of the set {', '.join(own)}, which the comparison "
                "measures itself; allowed are other sets, such as a judge's (answers) or people's"
            )
        for place in map(_about, mine):
            if place in seen:
                raise PlanError(
                    f"--figures {path}: a second figure for {place}; give the figures of one judge "
                    "and of one group of people at a time"
                )
            seen.add(place)
        given += mine
    return given


def _about(row: Mapping[str, Any]) -> tuple[object, ...]:
    """What a figure is a figure of."""
    return tuple(row[name] for name in ("method", "repeat", "set", "group", "measure"))


def _figures(one: Score) -> Iterator[tuple[str, float, int]]:
    counts = {"accuracy_amb": one.ambig.n, "accuracy_dis": one.disambig.n}
    counts |= {"unknown_dis": one.disambig.n, "accuracy_named": one.disambig.named}
    counts |= {"s_amb": one.ambig.not_unknown, "s_dis": one.disambig.not_unknown}
    for measure, name in MEASURES.items():
        value = getattr(one, name)
        if value is not None:
            yield measure, float(value), counts.get(measure, one.n)
