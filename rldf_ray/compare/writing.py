"""Tables in Markdown, LaTeX and CSV. `mean ± sd`, the best in bold."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from rldf_ray.compare.comparisons import Comparison
from rldf_ray.compare.costs import Cost
from rldf_ray.compare.results import MULTIROLE
from rldf_ray.compare.tables import Cell, Table

DIGITS = 3
ITEMS = {
    "all": "all",
    "ambig": "ambiguous",
    "disambig": "disambiguated",
    MULTIROLE: "multi-role set",
}
"""What differences are of."""
LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
"""What LaTeX reads as something else, as it prints it."""


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
    parts.insert(1, differences(comparisons, titles))
    parts += [given_and_cost(costs, titles), *others]
    parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def differences(comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> str:
    """Paired differences of accuracy, in points, as Markdown."""
    head = ["method", "against", "items", "points", "95 % interval", "p (Holm)", "verdict"]
    rows = [
        [
            titles[c.method],
            titles[c.against],
            ITEMS[c.condition],
            f"{100 * c.value:+.1f}",
            f"{100 * c.low:+.1f} to {100 * c.high:+.1f}",
            "" if c.p_holm is None else f"{c.p_holm:.3f}",
            c.verdict,
        ]
        for c in comparisons
    ]
    return "**Differences of accuracy on the same items**\n\n" + pipes([head, *rows])


def given_and_cost(costs: Mapping[str, Cost], titles: Mapping[str, str]) -> str:
    """What every row was given and cost, mean of its repeats, as Markdown."""
    head = ["method", "topics", "statements", "pairs", "generated tokens", "seconds"]
    head += ["paid tokens", "USD", "thought tokens an item", "seconds an item"]
    head += ["referee AUC", "reward accuracy", ""]
    rows = [
        [
            titles[method],
            *(str(n) for n in (cost.topics, cost.statements, cost.pairs, cost.generated_tokens)),
            f"{cost.seconds:.0f}",
            str(cost.paid_tokens),
            "unknown" if cost.usd is None else f"{cost.usd:.2f}",
            f"{cost.answering.thought_tokens:.0f}",
            f"{cost.answering.seconds:.2f}",
            _known(cost.referee_auc),
            _known(cost.reward_accuracy),
            "; ".join(cost.remarks),
        ]
        for method, cost in costs.items()
    ]
    return "**What every row was given, and its cost in full**\n\n" + pipes([head, *rows])


def latex(tables: Sequence[Table]) -> str:
    """The whole of tables.tex: a table environment each (needs booktabs)."""
    return "\n\n".join(_latex_table(table) for table in tables) + "\n"


def csv_text(tables: Sequence[Table]) -> str:
    """The whole of tables.csv: one line a cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "row", "column", "mean", "sd", "n", "best"])
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                values = [cell.mean, cell.sd, cell.n, int(cell.best)]
                writer.writerow([table.number, row.name, column, *values])
    return text.getvalue()


def shown(cell: Cell, plus_minus: str = "±") -> str:
    """`0.442 ± 0.010`; without a deviation the mean alone, and a dash without a mean."""
    if cell.mean is None:
        return "–"
    mean = f"{cell.mean:.{DIGITS}f}"
    return mean if cell.sd is None else f"{mean} {plus_minus} {cell.sd:.{DIGITS}f}"


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


def pipes(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


def _latex_table(table: Table) -> str:
    caption = _escaped(f"{table.title}")
    body = [" & ".join(map(_escaped, [table.head, *table.columns])) + r" \\", r"\midrule"]
    for row in table.rows:
        cells = [_latex_cell(cell) for cell in row.cells]
        body.append(" & ".join([_escaped(row.name), *cells]) + r" \\")
    if not table.rows:
        return f"% Table {table.number}. {caption}: {' '.join(table.notes)}"
    lines = [
        r"\begin{table}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{table.number}}}",
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    if cell.mean is None:
        return "--"
    text = shown(cell, r"\pm")
    return rf"$\mathbf{{{text}}}$" if cell.best else f"${text}$"


def _escaped(text: str) -> str:
    return text.translate(LATEX)


def _known(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
