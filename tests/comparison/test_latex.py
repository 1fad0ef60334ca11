"""tables.tex: what LaTeX reads is escaped, and what a page has no room for is turned or smaller."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rldf_ray.comparison.comparisons import Comparison
from rldf_ray.comparison.costs import Cost
from rldf_ray.comparison.latex import MOST_COLUMNS, latex
from rldf_ray.comparison.tables import Cell, Row, Table
from rldf_ray.figures.latex import escaped_rows
from rldf_ray.figures.pipes import pipes

TITLES = {"default": "Default", "rldf_self": "RLDF self-reflection"}
DIFFERENCE = Comparison(
    method="rldf_self",
    against="default",
    condition="all",
    value=0.2,
    low=-0.01,
    high=0.4,
    p=0.06,
    n=8,
    templates=8,
    p_holm=0.12,
)
COSTS = {"default": Cost(), "rldf_self": Cost(remarks=("its judge is the model itself",))}


def table(columns: int, methods: int = 2, name: str = "method") -> Table:
    cells = tuple(Cell(0.1 * i, 0.01, 3, best=i == 1) for i in range(columns))
    names = tuple(f"category_{i}" for i in range(columns))
    rows = tuple(Row(f"{name} {i}", cells) for i in range(methods))
    return Table(
        number=1,
        title="Accuracy (m_1)",
        head="method",
        columns=names,
        rows=rows,
        directions=(1,) * columns,
    )


def test_a_row_that_begins_with_a_star_keeps_it() -> None:
    """After the end of a row LaTeX takes a star for a form of it, on the next line as well."""
    assert escaped_rows([["a*", "b"], ["* ours", "[1]"]]) == [["a{*}", "b"], ["{*} ours", "{[}1]"]]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        (r"a\\|", r"a\\\\\|"),
        (r"a\b", r"a\b"),
        ("a\nb \r\n\n c", "a b c"),
    ],
)
def test_a_cell_in_markdown_is_one_line_with_its_bars(text: str, cell: str) -> None:
    assert pipes([["head"], [text]]) == f"| head |\n| --- |\n| {cell} |"


def test_cells_are_numbers_and_all_else_is_escaped() -> None:
    text = latex([table(2)], [DIFFERENCE], COSTS, TITLES)
    assert r"\caption{Accuracy (m\_1)}" in text
    assert r"method & category\_0 & category\_1 \\" in text
    assert r"$0.000{\scriptstyle\,\pm\,0.010}$ & $\mathbf{0.100}{\scriptstyle" in text
    assert r"RLDF self-reflection & Default & all (8) & +20.0 & -1.0 to +40.0 & 0.120 &" in text
    assert r"95 \% interval" in text


def test_a_title_that_latex_would_read_is_printed_as_it_is() -> None:
    text = latex([table(1, 1, r"[a]\b~c^d {50 %} & #1 $x_y <|>")], [], {}, {})
    assert (
        r"{[}a]\textbackslash{}b\textasciitilde{}c\textasciicircum{}d \{50 \%\} \& \#1 \$x\_y "
        r"\textless{}\textbar{}\textgreater{}" in text
    )


def test_a_table_without_rows_says_why_in_a_comment() -> None:
    missing = Table(
        number=2,
        title="By people",
        head="method",
        columns=(),
        rows=(),
        notes=("Not measured: nobody.",),
    )
    assert "% Table 2. By people: Not measured: nobody." in latex([missing], [], {}, {})


def test_a_wide_table_is_turned() -> None:
    text = latex([table(MOST_COLUMNS + 1)], [], {}, {})
    assert r"method & \rotatebox{90}{method 0} & " in text and r"category\_0 & $0.000" in text


def test_costs_have_methods_across_and_remarks_below() -> None:
    text = latex([], [DIFFERENCE], COSTS, TITLES)
    assert r"& \rotatebox{90}{RLDF self-reflection} \\" in text
    assert r"with others. RLDF self-reflection: its judge is the model itself.}" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_it_compiles_and_nothing_is_wider_than_the_page(tmp_path: Path) -> None:
    many = {f"m{i}": f"[RLDF] teacher – ältere_{i}" for i in range(8)}
    costs = {name: Cost(remarks=("teacher and referee are one model",)) for name in many}
    tables = [table(19, 8), table(6, 8), table(2, 2, "[1] method")]
    differences = [
        replace(DIFFERENCE, method=name, against=against, condition=condition)
        for condition in ("all", "ambig", "disambig")
        for against in ("m0", "m1", "m2")
        for name in many
    ]
    (tmp_path / "tables.tex").write_text(
        latex(tables, differences, COSTS | costs, TITLES | many), encoding="utf-8"
    )
    (tmp_path / "main.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,graphicx}"
        r"\begin{document}\input{tables}\end{document}",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.findall(r"Overfull \\hbox.*|Float too large.*", done.stdout)
