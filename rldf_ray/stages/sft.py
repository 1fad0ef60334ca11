"""The SFT stage: the model learns low-bias statements."""

from __future__ import annotations

from rldf_ray.stages.run import Facts, Run
from rldf_ray.stages.training import train_in_folder


def sft(run: Run) -> Facts:
    """Low-bias statements -> sft/model."""
    from rldf_ray.train.sft import train_sft

    facts = train_in_folder(run, "sft", train_sft, {"model": run.plan.model})
    return {"examples": run.folder.read_table("data/sft.parquet").num_rows, **facts}
