"""Tables of a study as Markdown, LaTeX (booktabs) and CSV; figures as PNG and SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rldf_ray.figures.files import drawn
from rldf_ray.figures.latex import escaped, escaped_rows, table_environment
from rldf_ray.figures.pipes import pipes
from rldf_ray.protocols.study import StudyFigure, StudyTable
from rldf_ray.storage.csv_cells import text_cell
from rldf_ray.storage.run_folder import RunFolder


def write_tables(folder: RunFolder, tables: Sequence[StudyTable]) -> None:
    """tables/NAME.md, .tex and .csv of each, and all of them in tables/all.md."""
    for table in tables:
        folder.write_text(f"tables/{table.name}.md", markdown(table))
        folder.write_text(f"tables/{table.name}.tex", latex(table))
        folder.write_text(f"tables/{table.name}.csv", csv_text(table))
    folder.write_text("tables/all.md", "\n".join(map(markdown, tables)))


def write_figures(folder: RunFolder, figures: Sequence[StudyFigure]) -> None:
    """figures/NAME.png and .svg of each."""
    for figure in figures:
        with drawn(folder.path(f"figures/{figure.name}"), figure.width, figure.height) as empty:
            figure.draw(empty)


def markdown(table: StudyTable) -> str:
    """The table with its title above and its notes below."""
    parts = [f"**{table.title}**", pipes([table.columns, *table.rows]), *table.notes]
    return "\n\n".join(parts) + "\n"


def latex(table: StudyTable) -> str:
    """A table environment, to be taken in by `input`."""
    caption = escaped(" ".join([f"{table.title}.", *table.notes]))
    return table_environment(caption, table.name, escaped_rows([table.columns, *table.rows])) + "\n"


def csv_text(table: StudyTable) -> str:
    """The table's columns and rows; cells that a spreadsheet would compute are made text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([text_cell(cell) for cell in row] for row in table.rows)
    return text.getvalue()
