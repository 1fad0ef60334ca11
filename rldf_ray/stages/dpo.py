"""The DPO stage: the policy learns from the preference pairs, without a reward model."""

from __future__ import annotations

from msgspec import UNSET

from rldf_ray.stages.run import Run
from rldf_ray.stages.training import policy_start, train_in_folder
from rldf_ray.storage.results import DPOResult


def dpo(run: Run) -> DPOResult:
    """Preference pairs -> dpo/model, from pi_SFT or the policy before it."""
    from rldf_ray.train.dpo import train_dpo
    from rldf_ray.train.held_out import HELD_OUT, read_right
    from rldf_ray.train.lengths import ROWS, rows_used

    history = train_in_folder(run, "dpo", train_dpo, policy_start(run, "dpo"))
    rows = rows_used(run.folder.fetched(f"dpo/{ROWS}"))
    assert rows is not None
    return DPOResult(
        pairs=rows.used,
        held_out_pairs=rows.held_out,
        too_long=rows.too_long,
        right_by_topic=read_right(run.folder.fetched(f"dpo/{HELD_OUT}")) or UNSET,
        history=history,
    )
