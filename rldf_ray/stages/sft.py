"""The SFT stage: the model learns low-bias statements."""

from __future__ import annotations

from rldf_ray.stages.run import Run
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.results import SFTResult


def sft(run: Run) -> SFTResult:
    """Low-bias statements -> sft/model."""
    from rldf_ray.train.best_pass import best_pass
    from rldf_ray.train.lengths import ROWS, rows_used
    from rldf_ray.train.sft import train_sft

    history = train_in_folder(run, "sft", train_sft, {"model": run.plan.model})
    rows = rows_used(run.folder.fetched(f"sft/{ROWS}"))
    if rows is None:
        given = run.folder.table_metadata("data/sft.parquet").num_rows
        return SFTResult(examples=given, history=history)
    return SFTResult(
        examples=rows.used,
        too_long=rows.too_long,
        held_out=rows.held_out,
        passes=best_pass(history),
        history=history,
    )
