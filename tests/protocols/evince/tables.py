"""Tables of a study as its files hold them."""

from collections.abc import Mapping
from dataclasses import asdict

import pyarrow as pa

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.study import TABLES
from rldf_ray.protocols.study import TURN_SCHEMA, Held


def tables_of(*several: Held) -> dict[str, pa.Table]:
    turns = [asdict(turn) for one in several for turn in one.turns]
    rows = {name: [row for one in several for row in one.tables[name]] for name in TABLES}
    return {
        "turns": pa.Table.from_pylist(turns, TURN_SCHEMA),
        **{name: pa.Table.from_pylist(rows[name], schema) for name, schema in TABLES.items()},
    }


def answered(
    items: list[EvinceItem], labels: Mapping[str, str | None], scale: LabelScale, **outcome: object
) -> Results:
    """A study whose dialogues came to these labels, by item; None is a failed one."""
    empty = dict.fromkeys(TABLES["outcomes"].names)
    rows = [
        {
            **empty,
            "item_id": item,
            "arm": "main",
            "status": "failed" if label is None else "converged",
            "failure": "x" if label is None else None,
            "label": label,
            "distributions": None if label is None else [scale.certain(label)],
            "review": [],
            **outcome,
        }
        for item, label in labels.items()
    ]
    tables = {name: schema.empty_table() for name, schema in TABLES.items()}
    tables["outcomes"] = pa.Table.from_pylist(rows, TABLES["outcomes"])
    return Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=EvinceSettings(),
        scale=scale,
        seed=7,
    )
