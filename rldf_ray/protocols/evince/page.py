"""The remediation report: one self-contained page, and the same as JSON and as a table.

METHOD-evince 3, choice 23. The page proposes; blank fields are for whoever decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa

from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.remediation import loaded
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.review import sheet_rows
from rldf_ray.storage.json_text import json_text

BEST = 3
"""Arguments of each side that an entry shows."""
WIDTH, HEIGHT = 240, 80
"""Of a drawing of the course of a dialogue, pixels."""
CURVES = {"level": "#8a8f98", "wd_share": "#2166ac", "jsd": "#b35806"}

DECIDED = ("decision", "person", "date", "reason")

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

REMEDIATION = pa.schema(
    [
        *(pa.field(n, pa.string()) for n in ("item_id", "target", "label", "status")),
        pa.field("given", pa.map_(pa.string(), pa.string())),
        pa.field("distances", pa.map_(pa.string(), pa.float64())),
        pa.field("distribution", pa.list_(pa.float64())),
        pa.field("mean_position", pa.float64()),
        pa.field("rounds", pa.int16()),
        pa.field("review", pa.list_(pa.string())),
        *(pa.field(n, pa.string()) for n in ("action", "proposal", "justification", "findings")),
        pa.field("final", pa.list_(pa.string())),
        *(pa.field(n, pa.string()) for n in DECIDED),
    ]
)


def entries(results: Results, decisions: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """What the report has of each item.

    Args:
        decisions: rows of `review.DECISIONS`.
    """
    decided = {row["item_id"]: row for row in decisions}
    return [
        _entry(results, item_id, row, decided.get(item_id))
        for item_id, row in results.outcomes.get("main", {}).items()
    ]


def _entry(results: Results, item_id: str, row: Row, decided: Row | None) -> dict[str, Any]:
    item, key = results.items[item_id], (item_id, "main")
    arguments = results.arguments.get(key, ())
    label, scale = row["label"], results.scale
    return {
        "item_id": item_id,
        "title": item.title,
        "source": item.source,
        "category": item.category,
        "link": item.link,
        "target": item.target,
        "text": item.text,
        "truncated": item.truncated,
        "given": dict(item.given),
        "distances": {
            who: scale.distance(label, one) for who, one in item.given.items() if label is not None
        },
        "label": label,
        "distribution": None if row["distributions"] is None else row["distributions"][0],
        "mean_position": row["mean_position"],
        "status": row["status"],
        "failure": row["failure"],
        "rounds": row["rounds"],
        "review": row["review"],
        "course": [dict(one) for one in results.rounds.get(key, ())],
        "best": {side: _best(arguments, side) for side in "AB"},
        "conceded": [one for one in arguments if one["conceded"]],
        "flagged": [one for one in arguments if one["flags"]],
        "case": loaded(row["remediation"]),
        "decided": decided,
    }


def _best(arguments: Sequence[Row], side: str) -> list[Row]:
    """The best arguments of a side, by their own quality; the last ones where none was rated."""
    ours = [one for one in arguments if one["side"] == side]
    ranked = sorted(ours, key=lambda one: (one["own"] or 0.0, one["round"]), reverse=True)
    return ranked[:BEST]


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
    )


def points(course: Sequence[Row], name: str) -> str:
    """A polyline's points: a figure between 0 and 1 by round."""
    last = max(1, len(course) - 1)
    return " ".join(
        f"{4 + (WIDTH - 8) * place / last:.1f},{HEIGHT - 4 - (HEIGHT - 8) * min(1, row[name]):.1f}"
        for place, row in enumerate(course)
    )


def _counts(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How often each action is proposed."""
    counts: dict[str, int] = {}
    for entry in found:
        action = entry["case"]["action"] if entry["case"] else "nothing proposed"
        counts[action] = counts.get(action, 0) + 1
    return counts


def remediation_table(found: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The same as a table."""
    rows = []
    for entry in found:
        case, decided = entry["case"] or {}, entry["decided"] or {}
        row = {name: entry.get(name) for name in REMEDIATION.names}
        row |= {name: case.get(name) for name in ("action", "proposal", "justification")}
        row |= {
            name: decided.get(name) for name in ("final", "decision", "person", "date", "reason")
        }
        row["findings"] = json_text(case["findings"]) if case else None
        row |= {name: list(entry[name].items()) for name in ("given", "distances")}
        rows.append(row)
    return pa.Table.from_pylist(rows, REMEDIATION)


def sheet_page(results: Results, title: str) -> str:
    """The review sheet as a form that needs no server: it saves the CSV that `decide` reads."""
    rows = list(sheet_rows(results))
    return _templates.get_template("sheet.html.jinja").render(
        title=title, rows=rows, names=results.scale.names
    )
