"""A finished study's folder, as what is made of it afterwards reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from rldf_ray.protocols.persuasion.items import ITEM_SCHEMA, items_of
from rldf_ray.protocols.persuasion.records import LATER, TABLES
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import TURN_SCHEMA
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class StudyData:
    """What was held.

    Attributes:
        tables: the study's own, and `turns`.
    """

    items: list[PersuasionItem]
    tables: Mapping[str, pa.Table]


def study_data(folder: RunFolder) -> StudyData:
    """The data of a finished study, also of one in an object store.

    Raises:
        RunFolderError: the study is not finished; its files are not to be read.
    """
    folder.fetched("data")
    schemas = {"turns": TURN_SCHEMA, **TABLES}
    return StudyData(
        items=items_of(folder.read_table("data/items.parquet", ITEM_SCHEMA)),
        tables={
            name: folder.read_table(
                f"data/{name}.parquet", schema, LATER if name == "arguments" else ()
            )
            for name, schema in schemas.items()
        },
    )
