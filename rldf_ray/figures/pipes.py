"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence


def pipes(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *others = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


def _cell(text: str) -> str:
    """A text on one line; backslashes before a bar are doubled, as one alone would escape it."""
    line = re.sub(r"\s*[\r\n]\s*", " ", text)
    return re.sub(r"(\\*)\|", r"\1\1\\|", line)
