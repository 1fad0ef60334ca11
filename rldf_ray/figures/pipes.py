"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def pipes(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *others = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
