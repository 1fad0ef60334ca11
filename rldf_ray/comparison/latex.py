"""Tables, differences and costs in LaTeX (needs booktabs and graphicx), to be taken in by `input`.

A table with more columns than a page has room for is turned: its methods go across. What is still
wider than a line of text is made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rldf_ray.comparison.comparisons import Comparison
from rldf_ray.comparison.costs import Cost
from rldf_ray.comparison.tables import Cell, Table
from rldf_ray.comparison.writing import (
    COSTS,
    DIFFERENCES,
    DIGITS,
    ITEMS,
    cost_rows,
    difference_rows,
)
from rldf_ray.figures.latex import escaped, escaped_rows, table_environment

MOST_COLUMNS = 8


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
        rows = escaped_rows(difference_rows(of_one, titles))
        caption = ", ".join(filter(None, (f"{DIFFERENCES}: {ITEMS[condition]}", mode)))
        label = "-".join(filter(None, ("differences", condition, mode)))
        parts.append(table_environment(escaped(caption), label, rows))
    # Remarks are sentences, too long for a column.
    figures = escaped_rows([row[:-1] for row in cost_rows(costs, titles)])
    remarks = [f"{titles[name]}: {text}." for name, cost in costs.items() for text in cost.remarks]
    caption = escaped(" ".join([f"{COSTS}.", *remarks]))
    parts.append(table_environment(caption, "costs", _turned(figures)))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    if not table.rows:
        return f"% Table {table.number}. {escaped(table.title)}: {' '.join(table.notes)}"
    rows = escaped_rows([[table.head, *table.columns]])
    rows += [[escaped(row.name), *map(_cell, row.cells)] for row in table.rows]
    if len(table.columns) > MOST_COLUMNS:
        rows = _turned(rows)
    return table_environment(escaped(table.title), str(table.number), rows)


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
