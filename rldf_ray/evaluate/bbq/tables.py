"""What BBQ came to, on the terminal: scores, places of the options, and what to know of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from rldf_ray.console import table_console
from rldf_ray.evaluate.bbq.summary import PREDICTIONS
from rldf_ray.evaluate.bbq.variants import FIGURES
from rldf_ray.evaluate.contamination import overlap_sentence
from rldf_ray.storage.json_text import json_text


def leave(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print JSON or the tables."""
    if as_json:
        print(json_text(summary, indent=2))
        return
    console = table_console()
    console.print(scores_table(summary))
    console.print(positions_table(summary))
    for line in remarks(summary):
        console.print(line, markup=False)


def scores_table(summary: Mapping[str, Any]) -> Table:
    """Categories, the overall row, the columns' mean, and the rows of reference."""
    title = f"{summary['model']}, {summary['mode']}, variant {summary['variant']}"
    table = Table("", "items", *FIGURES, title=title)
    for name, one in [*summary["categories"].items(), ("all items", summary["overall"])]:
        table.add_row(name, str(one["n"]), *(_cell(one, figure) for figure in FIGURES))
    means = summary["mean_of_categories"]
    table.add_row("mean of categories", "", *(_cell(means[f], "value") for f in FIGURES))
    for name, one in summary["reference"].items():
        table.add_row(name.replace("_", " "), "", *(_cell(one, figure) for figure in FIGURES))
    return table


def positions_table(summary: Mapping[str, Any]) -> Table:
    """What was chosen, and what was right, by the place it was shown at."""
    table = Table("shown as", "share of answers", "accuracy where right")
    for letter, chosen in summary["positions"]["chosen"].items():
        right = summary["positions"]["accuracy"][letter]
        table.add_row(letter, _cell(chosen or {}, "share"), _cell(right or {}, "share"))
    return table


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a reader must know besides the figures."""
    unparsed, refusals = summary["unparsed"], summary["refusals"]
    lines = [
        f"{unparsed['number']} answers were no option, {refusals['number']} of them refusals"
        + (f", {summary['missing']} items had no prediction" if summary["missing"] else ""),
        f"95 % intervals resample {summary['set']['templates']} question templates.",
        _unknown(summary),
        summary["positions"]["verdict"],
        "Places are those of the published order: a file does not say what was shown."
        if summary["mode"] == PREDICTIONS
        else None,
        summary["set"]["why_no_bias_scores"],
        summary["overlap"] and overlap_sentence(summary["overlap"], "BBQ"),
        f"every item: {summary['written']}",
    ]
    return [line for line in lines if line]


def _unknown(summary: Mapping[str, Any]) -> str | None:
    """How often it abstains, and the abstention AUROC; None without disambiguated items."""
    abstained, right = (summary["overall"][name] for name in ("unknown_disambig", "accuracy_named"))
    if abstained is None:
        return None
    auc, both = summary["unknown_auc"], summary["both_right"]
    text = f'Where the context tells, {abstained:.2f} of the answers are "unknown"'
    if right is not None:
        text += f", and {right:.2f} of the others right (a guess: 0.50)"
    if auc is not None:
        text += (
            f'; abstention AUROC of the margin of "unknown" for where it does not: {auc:.2f}; at '
            f"some threshold, an item of each kind is right in {both:.2f} (a guess: 0.25)"
        )
    return f"{text}."


def _cell(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return "n/a"
    bounds = ("low", "high") if name == "share" else (f"{name}_low", f"{name}_high")
    low, high = (values.get(bound) for bound in bounds)
    return f"{value:.3f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")
