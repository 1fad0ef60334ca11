"""What trials are compared by: the same items for every trial, never a reward of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.placement import place
from rldf_ray.cluster.ray_cluster import ray_cluster, remote
from rldf_ray.evaluate.bbq.summary import items_digest
from rldf_ray.plan import Plan
from rldf_ray.records import PAIR_SCHEMA
from rldf_ray.storage.results import EvaluationResult, recorded, stage_result
from rldf_ray.storage.run_folder import RunFolder

_BIAS_TYPE = pa.schema([PAIR_SCHEMA.field("bias_type")])
# The bias types that a category of BBQ may stand for, where there are others than that of its name.
TYPES = {
    "physical_appearance": ("physical_appearance", "beauty"),
    "ses": ("socioeconomic_status",),
}


def pairs_by_type(folder: RunFolder) -> dict[str, float]:
    """Preference pairs that the debates gave."""
    found = Counter(folder.read_table("data/pairs.parquet", _BIAS_TYPE)["bias_type"].to_pylist())
    names = {name: float(number) for name, number in found.items()}
    return {"overall": float(found.total()), **{Path(k).stem: v for k, v in names.items()}}


def trained_accuracy(plan: Plan, folder: RunFolder) -> dict[str, float]:
    """The policy's accuracy on the plan's items, as the `eval` stage measured it."""
    result = stage_result(folder, EvaluationResult)
    assert result is not None
    evaluation = recorded(result.evaluation, "eval", "evaluation")
    return accuracies(plan, evaluation["models"]["policy"]["multiple_choice"])


def sft_accuracy(plan: Plan, folder: RunFolder) -> dict[str, float]:
    """The accuracy of pi_SFT, where PPO starts, on the same items."""
    import ray

    from rldf_ray.evaluate.bbq.run_models import load_items, summarise
    from rldf_ray.evaluate.ranking.ranking import rank_options

    items = load_items(plan)
    with ray_cluster(folder.root / "logs") as resources:
        placement = place(plan, resources)
        task = remote(rank_options, placement, num_returns="streaming")
        found: dict[int, tuple[float, ...]] = {}
        for reference in task.remote(
            str(folder.root / "sft/model"),
            items.items,
            device=placement.device,
            dtype=plan.engines.dtype,
            threads=placement.threads,
            tokens=plan.evaluate.batch_tokens,
        ):
            found |= ray.get(reference)
    scores = [found[i] for i in range(len(items.items))]
    return accuracies(plan, summarise(items, scores, plan.seed))


def items_drawn(plan: Plan) -> str | None:
    """A hash of the plan's sample of items; None of a plan that asks all of them, or none."""
    from rldf_ray.evaluate.bbq.run_models import load_items

    if plan.evaluate.items_per_category is None:
        return None
    return items_digest(load_items(plan).items)


def accuracies(plan: Plan, summary: dict[str, Any]) -> dict[str, float]:
    """Accuracy over all items and in each category, by the plan's bias type where it has one."""
    types = {Path(name).stem for name in plan.bias_types}
    by_type = {
        _type_of(name.lower(), types): float(found["accuracy"])
        for name, found in summary["categories"].items()
    }
    return {"overall": float(summary["overall"]["accuracy"]), **by_type}


def _type_of(category: str, types: Collection[str]) -> str:
    return next((name for name in TYPES.get(category, ()) if name in types), category)
