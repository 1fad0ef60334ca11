"""The remediation report and the review sheet as pages, each self-contained.

Their form is a choice. The report proposes; blank fields are for whoever decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from rldf_ray.protocols.evince.case import TRIANGLE
from rldf_ray.protocols.evince.cost import summed
from rldf_ray.protocols.evince.prompt import rated
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.review import sheet_rows

WIDTH, HEIGHT, MARGIN = 240, 80, 16
"""Of the drawings of a dialogue, pixels."""
CURVES = {"level": "#8a8f98", "wd_share": "#2166ac", "jsd": "#b35806"}

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def remediation_page(results: Results, found: Sequence[Mapping[str, Any]], title: str) -> str:
    """The page."""
    return _templates.get_template("remediation.html.jinja").render(
        title=title,
        names=results.scale.names,
        entries=found,
        curves=CURVES,
        points=points,
        size=(WIDTH, HEIGHT),
        counts=_counts(found),
        rated=rated(results.settings),
        corner=corner,
        total=summed(entry["cost"] for entry in found),
    )


def points(course: Sequence[Row], name: str) -> str:
    """A polyline's points: a figure between 0 and 1 by round."""
    last = max(1, len(course) - 1)
    return " ".join(
        f"{4 + (WIDTH - 8) * place / last:.1f},{HEIGHT - 4 - (HEIGHT - 8) * min(1, row[name]):.1f}"
        for place, row in enumerate(course)
    )


def corner(triangle: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Where a drawing has A, B and people, pixels; sides are to scale."""
    ap, bp, ab = (triangle[name] for name in TRIANGLE)
    x = (ap**2 - bp**2 + ab**2) / (2 * ab) if ab else 0.0
    y = math.sqrt(max(0.0, ap**2 - x**2))
    left, right = min(0.0, x), max(ab, x)
    room = min((WIDTH - 2 * MARGIN) / ((right - left) or 1), (HEIGHT - 2 * MARGIN) / (y or 1))
    at = {"A": (0.0, 0.0), "B": (ab, 0.0), "people": (x, y)}
    return {
        name: (
            round(MARGIN + (across - left) * room, 1),
            round(HEIGHT - MARGIN - up * room, 1),
        )
        for name, (across, up) in at.items()
    }


def _counts(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How often each action is proposed."""
    counts: dict[str, int] = {}
    for entry in found:
        action = entry["case"]["action"] if entry["case"] else "nothing proposed"
        counts[action] = counts.get(action, 0) + 1
    return counts


def sheet_page(results: Results, title: str) -> str:
    """The review sheet as a form that needs no server: it saves the CSV that `decide` reads."""
    rows = list(sheet_rows(results))
    return _templates.get_template("sheet.html.jinja").render(
        title=title, rows=rows, names=results.scale.names
    )
