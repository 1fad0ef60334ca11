"""Whether a disk has room for what stages write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from rldf_ray.cluster.placement import BYTES
from rldf_ray.engines.checks import PreflightError
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import Plan
from rldf_ray.preflight.models import parameters_of
from rldf_ray.storage.stages import TRAINING, whole_run


def check_disk(
    plan: Plan, out: Path, stages: Collection[str] | None = None, freed_gib: float = 0.0
) -> str:
    """There is room for what these stages of the run write, by default all of the plan's.

    Args:
        freed_gib: what is going to be removed before they write, GiB.
    """
    stages = whole_run(plan.train.after) if stages is None else stages
    written = kept_gib(plan, stages) + passing_gib(plan, stages)
    return check_room(out, max(0.0, written - freed_gib))


def check_room(out: Path, needed: float) -> str:
    """`out` can be written and has `needed` GiB, and half of one for tables and logs."""
    existing = next(p for p in [out, *out.parents] if p.exists())
    if not os.access(existing, os.W_OK):
        raise PreflightError(
            f"{existing} cannot be written: give an --out in a folder of your own, or ask for the "
            "right to write there"
        )
    free = shutil.disk_usage(existing).free / 2**30
    needed += 0.5
    if free < needed:
        raise PreflightError(
            f"{existing} has {free:.1f} GiB free, {needed:.1f} are written at most: make room or "
            "give an --out on a larger disk"
        )
    return f"{free:.0f} GiB free, {needed:.1f} needed"


def kept_gib(plan: Plan, stages: Collection[str]) -> float:
    """What these stages leave, GiB (at most): their models, and PPO's checkpoints.

    Of those `checkpoint_keep` are there, the best one and the one that is being written.
    """
    models = sum(_model_gib(plan, stage) for stage in TRAINING if stage in stages)
    ppo = _checkpoint_gib(plan, "ppo") if "ppo" in stages else 0.0
    return models + (plan.train.checkpoint_keep + 2) * ppo


def passing_gib(plan: Plan, stages: Collection[str]) -> float:
    """What they take beside that for a while, GiB (at most).

    A policy's weights for the export, and PPO's on their way to the engines; and the checkpoints of
    a stage that is trained by TRL, which go when it ends.
    """
    each = [_checkpoint_gib(plan, s) for s in TRAINING if s in stages and s != "ppo"]
    checkpoints = (plan.train.checkpoint_keep + 1) * max(each, default=0.0)
    if "ppo" in stages:
        return checkpoints + 2 * _model_gib(plan, "ppo")
    last = plan.train.last
    return checkpoints + (_model_gib(plan, last) if last in stages else 0.0)


def _checkpoint_gib(plan: Plan, stage: str) -> float:
    """Weights, twice, and AdamW's moments: 16 bytes a parameter in either precision.

    Bfloat16 has float32 copies beside them. Those of adapters are small beside a model.
    """
    if plan.train.checkpoint_every is None or not _trained_whole(plan, stage):
        return 0.0
    models = plan.ppo.models_trained if stage == "ppo" else 1
    return models * _parameters(plan, stage) * 16 / 2**30


def _model_gib(plan: Plan, stage: str) -> float:
    """One trained whole is taken to be written in float32; one with adapters is as its base."""
    dtype = plan.ppo.dtype if stage == "ppo" else plan.train.dtype
    size = BYTES["float32"] if _trained_whole(plan, stage) else BYTES[dtype]
    return _parameters(plan, stage) * size / 2**30


def _trained_whole(plan: Plan, stage: str) -> bool:
    return stage == "referee" or plan.train.lora.rank == 0


def _parameters(plan: Plan, stage: str) -> float:
    """Those of the model that a stage trains; 0 where it trains none."""
    if stage == "referee" and not plan.referee.fitted:
        return 0.0
    started_from = plan.fitted_speaker().model if stage == "referee" else plan.model
    return parameters_of(resolve_model(started_from))
