"""A finished study's folder, read again."""

from __future__ import annotations

from rldf_ray.protocols.mabrf.items import ITEM_SCHEMA, items_of
from rldf_ray.protocols.mabrf.records import OUTCOMES, PASSES, TOLD
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.storage.run_folder import RunFolder


def results_in(folder: RunFolder, settings: MabrfSettings, seed: int) -> Results:
    """What a finished study holds, also of one in an object store.

    Raises:
        UserError: the study is not finished, or its files are not to be read.
    """
    folder.fetched("data")
    schemas = {"outcomes": OUTCOMES, "passes": PASSES}
    return Results(
        items=items_of(folder.read_table("data/items.parquet", ITEM_SCHEMA)),
        tables={
            name: folder.read_table(
                f"data/{name}.parquet", schema, TOLD if name == "outcomes" else ()
            )
            for name, schema in schemas.items()
        },
        settings=settings,
        seed=seed,
    )
