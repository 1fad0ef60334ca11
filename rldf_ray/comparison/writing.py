"""Tables, differences and costs in Markdown (`mean ± sd`, the best in bold) and in CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from rldf_ray.comparison.comparisons import Comparison
from rldf_ray.comparison.costs import Answering, Cost
from rldf_ray.comparison.results import MULTIROLE
from rldf_ray.comparison.tables import Cell, Table
from rldf_ray.figures.pipes import pipes
from rldf_ray.storage.csv_cells import text_cell

DIGITS = 3
DIFFERENCES = "Paired differences on the same items"
COSTS = "What every row was given and cost, whatever it shares with others"
SECONDS = "seconds (of each stage's last start)"
ITEMS = {
    "all": "all",
    "ambig": "ambiguous",
    "disambig": "disambiguated",
    MULTIROLE: "multi-role set",
    "BS": "BS of free answers (lower is better)",
    "CE": "CE of free answers",
    "LS": "LS of free answers",
}
"""What differences are of."""
AN_ITEM = ("thought tokens an item", "thoughts cut off", "seconds an item")
"""What an item takes to answer, in one way of asking."""
AN_ITEM_FIELDS = {
    "thought_tokens_an_item": "thought_tokens",
    "thoughts_cut_off": "cut_off",
    "seconds_an_item": "seconds",
}
"""The same in costs.csv: name, and field of `Answering`."""


def markdown(
    tables: Sequence[Table],
    comparisons: Sequence[Comparison],
    costs: Mapping[str, Cost],
    titles: Mapping[str, str],
    others: Sequence[str],
    notes: Sequence[str],
) -> str:
    """The whole of tables.md.

    Args:
        others: more tables, as Markdown.
    """
    parts = [_markdown_table(table) for table in tables]
    parts.insert(1, f"**{DIFFERENCES}**\n\n{pipes(difference_rows(comparisons, titles))}")
    parts += [f"**{COSTS}**\n\n{pipes(cost_rows(costs, titles))}", *others]
    parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def difference_rows(
    comparisons: Sequence[Comparison], titles: Mapping[str, str]
) -> list[list[str]]:
    """Paired differences, in points of accuracy or of a score; the first row is the head."""
    head = ["method", "against", "items", "points", "95 % interval", "p (Holm)", "verdict"]
    # A single repeat has no interval over seeds.
    repeated = any(c.seed_low is not None for c in comparisons)
    if repeated:
        head.insert(5, "95 % over seeds")
    rows = []
    for c in comparisons:
        items = ", ".join(filter(None, (f"{ITEMS[c.condition]} ({c.n})", c.mode)))
        row = [titles[c.method], titles[c.against], items]
        row += [f"{100 * c.value:+.1f}", _between(c.low, c.high)]
        row += [_between(c.seed_low, c.seed_high)] if repeated else []
        rows.append([*row, "" if c.p_holm is None else _p(c.p_holm), c.verdict])
    return [head, *rows]


def _between(low: float | None, high: float | None) -> str:
    """An interval in points; nothing where there is none."""
    return "" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def cost_rows(costs: Mapping[str, Cost], titles: Mapping[str, str]) -> list[list[str]]:
    """What every row was given and cost, mean of its repeats; the first row is the head."""
    head = ["method", "topics", "statements", "SFT rows", "SFT steps", "SFT pass kept"]
    modes = list(dict.fromkeys(mode for cost in costs.values() for mode in cost.answering))
    head += ["pairs", "episodes", "generated tokens", SECONDS, "paid tokens", "USD"]
    head += [f"{what} ({mode})" for mode in modes for what in AN_ITEM]
    head += ["referee AUC, opinions", "referee AUC, scenes", "reward accuracy", ""]
    rows = [
        [
            titles[method],
            *map(str, (cost.topics, cost.statements, cost.sft_rows, cost.sft_steps)),
            "" if cost.sft_pass is None else f"{cost.sft_pass:.3g}",
            *map(str, (cost.pairs, cost.episodes, cost.generated_tokens)),
            f"{cost.seconds:.0f}",
            str(cost.paid_tokens),
            "unknown" if cost.usd is None else f"{cost.usd:.2f}",
            *(cell for mode in modes for cell in _an_item(cost.answering.get(mode))),
            *map(_known, (cost.auc_opinions, cost.auc_scenes, cost.reward_accuracy)),
            "; ".join(cost.remarks),
        ]
        for method, cost in costs.items()
    ]
    return [head, *rows]


def _an_item(answering: Answering | None) -> tuple[str, str, str]:
    """Cells of AN_ITEM."""
    if answering is None:
        return ("", "", "")
    tokens, seconds = f"{answering.thought_tokens:.0f}", f"{answering.seconds:.2f}"
    return (tokens, _known(answering.cut_off), seconds)


def csv_text(tables: Sequence[Table]) -> str:
    """The whole of tables.csv: one line a cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "row", "column", "mean", "sd", "n", "best", "title"])
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                values = [cell.mean, cell.sd, cell.n, int(cell.best), text_cell(table.title)]
                writer.writerow([table.number, text_cell(row.name), text_cell(column), *values])
    return text.getvalue()


def differences_csv(comparisons: Sequence[Comparison]) -> str:
    """The whole of differences.csv: one line a comparison, accuracy and scores as shares."""
    names = [*(field.name for field in fields(Comparison)), "verdict"]
    return _lines(names, [{**asdict(c), "verdict": c.verdict} for c in comparisons])


def costs_csv(costs: Mapping[str, Cost]) -> str:
    """The whole of costs.csv: one line a method (there is one at least), mean of its repeats."""
    rows = []
    for method, cost in costs.items():
        row = {"method": method, **cost.as_dict(), "remarks": "; ".join(cost.remarks)}
        for mode, answering in row.pop("answering").items():
            row |= {f"{name}_{mode}": answering[field] for name, field in AN_ITEM_FIELDS.items()}
        rows.append(row)
    return _lines(list(dict.fromkeys(name for row in rows for name in row)), rows)


def _lines(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: text_cell(v) if isinstance(v, str) else v for k, v in row.items()})
    return text.getvalue()


def shown(cell: Cell) -> str:
    """`0.442 ± 0.010`; without a deviation the mean alone, and a dash without a mean."""
    if cell.mean is None:
        return "–"
    mean = f"{cell.mean:.{DIGITS}f}"
    return mean if cell.sd is None else f"{mean} ± {cell.sd:.{DIGITS}f}"


def _markdown_table(table: Table) -> str:
    title = f"**Table {table.number}. {table.title}**"
    rows = [
        [row.name, *(f"**{shown(cell)}**" if cell.best else shown(cell) for cell in row.cells)]
        for row in table.rows
    ]
    parts = [title]
    if rows:
        parts.append(pipes([[table.head, *table.columns], *rows]))
    return "\n\n".join([*parts, *table.notes])


def _known(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
