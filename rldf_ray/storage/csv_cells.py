"""Texts in CSV files, which spreadsheet programs execute where they begin like a formula."""

from __future__ import annotations

import re

# With apostrophes before it, so that what `from_cell` undoes is what `text_cell` did.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def text_cell(text: str) -> str:
    """A cell of text: an apostrophe before what looks like a formula. Numbers need none of it."""
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """The inverse of `text_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
