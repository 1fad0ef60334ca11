"""Tables of a study as its files hold them."""

import pyarrow as pa

from rldf_ray.protocols.evince.study import TABLES
from rldf_ray.protocols.study import Held


def tables_of(*several: Held) -> dict[str, pa.Table]:
    return {
        name: pa.Table.from_pylist([row for one in several for row in one.tables[name]], schema)
        for name, schema in TABLES.items()
    }
