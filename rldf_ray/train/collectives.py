"""Sums over all training workers; with one worker, or none started, what came in."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from rldf_ray.train.ppo import losses as ppo_math


def all_reduce(x: Tensor, *, largest: bool = False) -> Tensor:
    """`x` summed (or its maximum) over all workers, in place."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
    return x


def reduced(stats: ppo_math.Stats) -> dict[str, float]:
    """Statistics of all workers together: the largest of a `_max`, else the sum."""
    return {
        name: float(all_reduce(value.clone(), largest=name.endswith("_max")))
        for name, value in stats.items()
    }


def gathered(x: object) -> list[object]:
    """Every worker's `x`, in the order of ranks."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return [x]
    values: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(values, x)
    return values


def barrier() -> None:
    if dist.is_initialized():
        dist.barrier()
