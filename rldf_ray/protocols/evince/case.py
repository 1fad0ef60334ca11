"""The case of each text: what the remediation report has of it, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.evince.cost import COST, costs, summed
from rldf_ray.protocols.evince.items import VOTES
from rldf_ray.protocols.evince.metrics import wasserstein
from rldf_ray.protocols.evince.prompt import POSITIONS
from rldf_ray.protocols.evince.records import ROUNDS, Row, label_fields
from rldf_ray.protocols.evince.remediation import loaded
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import Distribution
from rldf_ray.storage.json_text import json_text

BEST = 3
"""Arguments of each side that a case shows."""
TRIANGLE = ("a_to_people", "b_to_people", "a_to_b")
DECIDED = ("decision", "person", "date", "reason")
_COURSE = [field for field in ROUNDS if field.name not in ("item_id", "arm")]

REMEDIATION = pa.schema(
    [
        *(pa.field(n, pa.string()) for n in ("item_id", "target", "label", "status")),
        pa.field("given", pa.map_(pa.string(), pa.string())),
        VOTES,
        pa.field("distances", pa.map_(pa.string(), pa.float64())),
        pa.field("distribution", pa.list_(pa.float64())),
        pa.field("mean_position", pa.float64()),
        # Of what is rated: the text, or both sides' positions.
        pa.field(
            "rated",
            pa.list_(
                pa.struct(
                    [
                        pa.field("name", pa.string()),
                        pa.field("distribution", pa.list_(pa.float64())),
                        pa.field("label", pa.string()),
                        pa.field("mean_position", pa.float64()),
                    ]
                )
            ),
        ),
        pa.field("triangle", pa.struct([pa.field(n, pa.float64()) for n in TRIANGLE])),
        pa.field("rounds", pa.int16()),
        pa.field("course", pa.list_(pa.struct(_COURSE))),
        pa.field("review", pa.list_(pa.string())),
        *(pa.field(n, pa.string()) for n in ("action", "proposal", "justification", "findings")),
        pa.field("cost", pa.struct([field for field in COST if field.name != "seat"])),
        pa.field("cost_by_seat", pa.list_(COST)),
        pa.field("final", pa.list_(pa.string())),
        *(pa.field(n, pa.string()) for n in DECIDED),
    ]
)


def entries(results: Results, decisions: Sequence[Row] = ()) -> list[dict[str, Any]]:
    """The case of each text.

    Args:
        decisions: rows of `review.DECISIONS`.
    """
    decided = {row["item_id"]: row for row in decisions}
    spent = costs(results.tables["turns"])
    return [
        _entry(results, item_id, row, spent.get(item_id, ()), decided.get(item_id))
        for item_id, row in results.outcomes.get("main", {}).items()
    ]


def _entry(
    results: Results, item_id: str, row: Row, spent: Sequence[Row], decided: Row | None
) -> dict[str, Any]:
    item, key = results.items[item_id], (item_id, "main")
    arguments, course = results.arguments.get(key, ()), results.rounds.get(key, ())
    return {
        "item_id": item_id,
        "title": item.title,
        "source": item.source,
        "category": item.category,
        "link": item.link,
        "target": item.target,
        # Title and all, as places of quotes and passages are counted in it.
        "text": item.source_text,
        "truncated": item.truncated,
        "given": dict(item.given),
        "votes": {who: dict(each) for who, each in item.votes.items()},
        "distances": {
            who: steps
            for who in item.raters
            if (steps := results.apart("main", who, item_id)) is not None
        },
        "label": row["label"],
        "distribution": None if row["distributions"] is None else row["distributions"][0],
        "mean_position": row["mean_position"],
        "rated": _rated(results, row),
        "triangle": _triangle(results, item_id, course),
        "status": row["status"],
        "failure": row["failure"],
        "rounds": row["rounds"],
        "review": row["review"],
        "course": [dict(one) for one in course],
        "best": {side: _best(arguments, side) for side in "AB"},
        "conceded": [one for one in arguments if one["conceded"]],
        "flagged": [one for one in arguments if one["flags"]],
        "case": loaded(row["remediation"]),
        "cost": summed(spent),
        "cost_by_seat": list(spent),
        "decided": decided,
    }


def _rated_names(results: Results) -> tuple[str, ...]:
    """What is rated, as reports call it: the text, or both sides' positions by what they are."""
    settings = results.settings
    if settings.rates == "item":
        return ("the text",)
    pairs = zip(POSITIONS, settings.positions, strict=True)
    return tuple(f"{whose}, {position}" for whose, position in pairs)


def _rated(results: Results, row: Row) -> list[dict[str, Any]]:
    """The mixture of each thing that is rated, with its label."""
    return [
        {"name": name, "distribution": mixture, **label_fields(mixture, results.scale)}
        for name, mixture in zip(_rated_names(results), row["distributions"] or (), strict=False)
    ]


def _triangle(results: Results, item_id: str, course: Sequence[Row]) -> Mapping[str, float] | None:
    """How far A and B end from each other and from the people who rated the text, in steps.

    Wasserstein distances: those of a person's label are from all of the probability on it, and
    several people are one distribution, the mean of theirs. None where nobody rated the text, or
    positions are rated and not the text.
    """
    item, scale = results.items[item_id], results.scale
    rated = [results.rating(who, item_id) for who in item.raters]
    several = [one for one in rated if one is not None]
    if not course or not several or results.settings.rates != "item":
        return None
    people: Distribution = tuple(sum(p) / len(several) for p in zip(*several, strict=True))
    a, b = course[-1]["a"][0], course[-1]["b"][0]
    ends = (wasserstein(a, people, scale), wasserstein(b, people, scale), wasserstein(a, b, scale))
    return dict(zip(TRIANGLE, ends, strict=True))


def _best(arguments: Sequence[Row], side: str) -> list[Row]:
    """The best arguments of a side, by their own quality; the last ones where none was rated."""
    ours = [one for one in arguments if one["side"] == side]
    ranked = sorted(ours, key=lambda one: (one["own"] or 0.0, one["round"]), reverse=True)
    return ranked[:BEST]


def remediation_table(found: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The cases as data/remediation.parquet holds them."""
    rows = []
    for entry in found:
        case, decided = entry["case"] or {}, entry["decided"] or {}
        row = {name: entry.get(name) for name in REMEDIATION.names}
        row |= {name: case.get(name) for name in ("action", "proposal", "justification")}
        row |= {name: decided.get(name) for name in ("final", *DECIDED)}
        row["findings"] = json_text(case["findings"]) if case else None
        row |= {name: list(entry[name].items()) for name in ("given", "distances")}
        row["votes"] = [(who, list(each.items())) for who, each in entry["votes"].items()]
        rows.append(row)
    return pa.Table.from_pylist(rows, REMEDIATION)
