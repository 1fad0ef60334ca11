"""The README.md of the data folder: what the tables are, what they are like, how to load them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldf_ray.dataset.statistics import Quality
from rldf_ray.plan import Plan
from rldf_ray.prompts import templates

render = templates(Path(__file__).parent)


def dataset_card(sizes: Mapping[str, int], quality: Quality, plan: Plan) -> str:
    """The card of tables with `sizes` rows; its head is what a dataset hub reads."""
    return render("dataset_card", sizes=sizes, quality=quality, plan=plan, digest=plan.digest())
