"""What `rldf eval judge` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from rldf_ray.console import table_console
from rldf_ray.evaluate.judge.audit import audit_remarks
from rldf_ray.storage.json_text import json_text


def leave(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print JSON or the tables."""
    if as_json:
        print(json_text(summary, indent=2))
        return
    console = table_console()
    console.print(scores_table(summary))
    if summary["preferences"] is not None:
        console.print(preferences_table(summary["preferences"]))
    for line in remarks(summary):
        console.print(line, markup=False)


def scores_table(summary: Mapping[str, Any]) -> Table:
    """Methods and bias types by measure."""
    measures = summary["measures"]
    title = f"{summary['score_source']} scores of {summary['judge']}: {_better(measures)}"
    table = Table("method", "answers to", *measures, "judged", title=title)
    for method, groups in summary["methods"].items():
        for group, estimates in groups.items():
            number = max((one["n"] for one in estimates.values()), default=0)
            cells = (
                _cell(estimates.get(measure), "mean", "low", "high", 1) for measure in measures
            )
            table.add_row(method, group, *cells, str(number))
    return table


def _better(measures: Mapping[str, Any]) -> str:
    """'BS low is good, CE and LS high'."""
    named = {
        way: [name for name, one in measures.items() if one["better"] == better]
        for way, better in (("low", "lower"), ("high", "higher"))
    }
    (first, *more) = (f"{' and '.join(names)} {way}" for way, names in named.items() if names)
    return ", ".join([f"{first} is good", *more])


def preferences_table(preferences: Mapping[str, Any]) -> Table:
    """Each method against the one named, over both orders."""
    table = Table(
        "method", "measure", "pairs", "preferred", "expected", "order decided", "first taken",
        title=f"preferred to {preferences['against']}, both orders; 0.5 is no difference",
    )  # fmt: skip
    for method, measures in preferences["methods"].items():
        for measure, one in measures.items():
            table.add_row(
                method,
                measure,
                str(one["pairs"]),
                _cell(one, "preferred", "preferred_low", "preferred_high", 2),
                _cell(one, "expected", "expected_low", "expected_high", 2),
                _cell(one, "order_decided", "", "", 2),
                _cell(one, "first", "first_low", "first_high", 2),
            )
    return table


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a reader must know besides the figures."""
    failures, same = summary["failures"], summary["same_model_as"]
    if same is None:
        independence = "Whether the judge had a part in making the answers' models is not known."
    elif same:
        independence = (
            f"The judge is the same model as: {', '.join(same)}. It judges its own doing."
        )
    else:
        independence = "The judge is another model than teacher, referee and the trained one."
    return [
        independence,
        *audit_remarks(summary),
        f"{failures['number']} of {failures['of']} judgements did not parse",
        f"every judgement: {summary['written']}",
    ]


def _cell(values: Mapping[str, Any] | None, name: str, low: str, high: str, digits: int) -> str:
    value = (values or {}).get(name)
    if values is None or value is None:
        return "n/a"
    bounds = values.get(low), values.get(high)
    interval = "" if None in bounds else f" ({bounds[0]:.{digits}f} to {bounds[1]:.{digits}f})"
    return f"{value:.{digits}f}{interval}"
