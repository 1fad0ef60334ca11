"""Tables in LaTeX (needs booktabs and graphicx), to be taken in by `input`."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPED = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "*": "{*}"}
)
"""What LaTeX reads as something else, as it prints it; [ and * after the end of a row."""


def table_environment(caption: str, label: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head. Caption and cells are LaTeX."""
    head, *body = [" & ".join(row) + r" \\" for row in rows]
    lines = [
        r"\begin{table}",
        rf"\caption{{{caption}}}",
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


def escaped_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[escaped(text) for text in row] for row in rows]


def escaped(text: str) -> str:
    """A text as LaTeX prints it."""
    return text.translate(ESCAPED)
