"""Tables, differences and costs in LaTeX (needs booktabs and graphicx), to be taken in by `input`.

A table with more columns than a page has room for is turned: its methods go across. What is still
wider than a line of text is made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rldf_ray.compare.comparisons import Comparison
from rldf_ray.compare.costs import Cost
from rldf_ray.compare.tables import Cell, Table
from rldf_ray.compare.writing import (
    COSTS,
    DIFFERENCES,
    DIGITS,
    ITEMS,
    cost_rows,
    difference_rows,
)

MOST_COLUMNS = 8
ESCAPED = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}"}
)
"""What LaTeX reads as something else, as it prints it."""


def latex(
    tables: Sequence[Table],
    comparisons: Sequence[Comparison],
    costs: Mapping[str, Cost],
    titles: Mapping[str, str],
) -> str:
    """The whole of tables.tex: a table environment each; a comment where none was measured."""
    parts = [_table(table) for table in tables]
    # All of them are longer than a page.
    for condition, mode in dict.fromkeys((c.condition, c.mode) for c in comparisons):
        of_one = [c for c in comparisons if (c.condition, c.mode) == (condition, mode)]
        rows = _escaped_rows(difference_rows(of_one, titles))
        caption = ", ".join(filter(None, (f"{DIFFERENCES}: {ITEMS[condition]}", mode)))
        label = "-".join(filter(None, ("differences", condition, mode)))
        parts.append(_environment(caption, label, rows))
    # Remarks are sentences, too long for a column.
    figures = _escaped_rows([row[:-1] for row in cost_rows(costs, titles)])
    remarks = [f"{titles[name]}: {text}." for name, cost in costs.items() for text in cost.remarks]
    parts.append(_environment(" ".join([f"{COSTS}.", *remarks]), "costs", _turned(figures)))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    if not table.rows:
        return f"% Table {table.number}. {_escaped(table.title)}: {' '.join(table.notes)}"
    rows = _escaped_rows([[table.head, *table.columns]])
    rows += [[_escaped(row.name), *map(_cell, row.cells)] for row in table.rows]
    if len(table.columns) > MOST_COLUMNS:
        rows = _turned(rows)
    return _environment(table.title, str(table.number), rows)


def _environment(caption: str, label: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head. The caption is text, the cells are LaTeX."""
    head, *body = [" & ".join(row) + r" \\" for row in rows]
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escaped(caption)}}}",
        rf"\label{{tab:{label}}}",
        r"\centering",
        # Without `max width`, which is not in every TeX.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * (len(rows[0]) - 1)}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _turned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """What was down goes across; as heads, names of methods are upright, being long."""
    (corner, *heads), *body = zip(*rows, strict=True)
    return [[corner, *(rf"\rotatebox{{90}}{{{head}}}" for head in heads)], *map(list, body)]


def _cell(cell: Cell) -> str:
    if cell.mean is None:
        return "--"
    mean = f"{cell.mean:.{DIGITS}f}"
    number = rf"\mathbf{{{mean}}}" if cell.best else mean
    spread = "" if cell.sd is None else rf"{{\scriptstyle\,\pm\,{cell.sd:.{DIGITS}f}}}"
    return f"${number}{spread}$"


def _escaped_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[_escaped(text) for text in row] for row in rows]


def _escaped(text: str) -> str:
    return text.translate(ESCAPED)
