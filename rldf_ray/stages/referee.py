"""The trained referee is fitted before it is asked -> referee/model, referee/calibration.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from msgspec import UNSET

from rldf_ray.cluster.ray_cluster import remote
from rldf_ray.referee.labelled_statements import LabelledStatement
from rldf_ray.referee.platt import Calibration, PlattError, platt
from rldf_ray.stages.run import Run, StageError
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.results import RefereeResult


def referee(run: Run) -> RefereeResult:
    """Minimal pairs of labelled statements -> a reward model, and how its rewards become scores.

    Raises:
        StageError: the plan's bias types have no labelled statements, or what was learned does not
            separate the statements that were kept for calibration.
    """
    from rldf_ray.referee.fit import fit_pairs, fit_statements
    from rldf_ray.train.lengths import ROWS, rows_used
    from rldf_ray.train.reward import held_out_topics, train_reward

    plan = run.plan
    statements = fit_statements(plan)
    pairs = run.folder.write_table("labelled/pairs.parquet", fit_pairs(statements))
    topics = held_out_topics([s.topic for s in statements], plan.referee.fit.held_out_share)
    kept = [s for s in statements if s.topic in topics]
    folders = {
        "model": plan.referee.fit.model or plan.model,
        "data": run.folder.shared("labelled"),
    }
    history = train_in_folder(run, "referee", train_reward, folders, {"fit": plan.referee.fit})
    rows = rows_used(run.folder.fetched(f"referee/{ROWS}"))
    calibration = _calibrated(run, kept)
    weights = run.folder.fetched("referee/model") / "model.safetensors"
    run.folder.write_json(
        "referee/calibration.json",
        {**asdict(calibration), "revision": file_digest(weights)[:16]},
    )
    return RefereeResult(
        pairs=rows.used if rows else (len(statements) - len(kept)) // 2,
        held_out_pairs=rows.held_out if rows else len(kept) // 2,
        too_long=rows.too_long if rows else UNSET,
        labelled=file_digest(pairs),
        calibration=asdict(calibration),
        history=history,
    )


def _calibrated(run: Run, statements: Sequence[LabelledStatement]) -> Calibration:
    import ray

    from rldf_ray.referee.fit import fit_prompt, rewards_of

    placement = run.placement
    rewards: list[float | None] = ray.get(
        remote(rewards_of, placement).remote(
            run.folder.address("referee/model"),
            [(fit_prompt(s.context), s.text) for s in statements],
            device=placement.device,
            threads=placement.threads,
            max_length=run.plan.referee.fit.max_length,
        )
    )
    read = [(r, s.label) for r, s in zip(rewards, statements, strict=True) if r is not None]
    try:
        return platt([r for r, _ in read], [label for _, label in read])
    except PlattError as error:
        raise StageError(
            f"the referee cannot be calibrated on the {len(read)} labelled statements kept for "
            f"that ({error}): raise referee.fit.epochs or referee.fit.trained_layers, name a "
            "larger referee.fit.model, or set referee.kind=prompted"
        ) from error
