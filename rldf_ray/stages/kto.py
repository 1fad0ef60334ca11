"""The KTO stage: the policy learns from the answers of the pairs, without a reward model."""

from __future__ import annotations

from msgspec import UNSET

from rldf_ray.stages.run import Run
from rldf_ray.stages.training import policy_start, train_in_folder
from rldf_ray.storage.results import KTOResult


def kto(run: Run) -> KTOResult:
    """Desirable and undesirable answers -> kto/model, from pi_SFT or the policy before it."""
    from rldf_ray.train.held_out import HELD_OUT, read_right
    from rldf_ray.train.kto import train_kto
    from rldf_ray.train.lengths import ROWS, rows_used
    from rldf_ray.train.preference_rows import weights_of

    history = train_in_folder(run, "kto", train_kto, policy_start(run, "kto"))
    rows = rows_used(run.folder.fetched(f"kto/{ROWS}"))
    assert rows is not None
    assert isinstance(rows.desirable, int) and isinstance(rows.undesirable, int)
    desirable, undesirable = weights_of(run.plan.kto, rows.desirable, rows.undesirable)
    return KTOResult(
        pairs=rows.used,
        held_out_pairs=rows.held_out,
        too_long=rows.too_long,
        desirable=rows.desirable,
        undesirable=rows.undesirable,
        right_by_topic=read_right(run.folder.fetched(f"kto/{HELD_OUT}")) or UNSET,
        desirable_weight=desirable,
        undesirable_weight=undesirable,
        history=history,
    )
