"""Files of stages that have not finished since: one that is to be done again leaves its tables."""

from __future__ import annotations

from pathlib import Path

from rldf_ray.storage.stages import writer_of


def left_over(root: Path, name: str) -> str | None:
    """Why a file is no part of the run at `root` as it is now; None where it is, or is not there.

    A folder without a plan is no run: its files are what somebody has put there.
    """
    stage = writer_of(name)
    if stage is None or not (root / name).exists() or not (root / "plan.yaml").exists():
        return None
    if (root / f"stages/{stage}.json").exists():
        return None
    return f"{root / name} is left over: the stage {stage} is to be done again, or was cut off"
