"""The README.md of the data folder: what the tables are, what they are like, how to load them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldf_ray.dataset.statistics import Quality
from rldf_ray.plan import Plan
from rldf_ray.prompts import templates
from rldf_ray.storage.hub_card import is_language

render = templates(Path(__file__).parent)

SIZES = {
    10**3: "n<1K",
    10**4: "1K<n<10K",
    10**5: "10K<n<100K",
    10**6: "100K<n<1M",
    10**7: "1M<n<10M",
}
"""The hub's classes of size, by the number of rows that is above them."""


def dataset_card(sizes: Mapping[str, int], quality: Quality, plan: Plan) -> str:
    """The card of tables with `sizes` rows; its head is what a dataset hub reads.

    No licence is in it: whose the texts of a language model are is not for this project to say.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    language = plan.data.language
    data = DatasetCardData(
        language=language if is_language(language) else None,
        pretty_name=f"Multi-role debates, scored and paired ({plan.name})",
        task_categories=["text-generation"],
        annotations_creators="machine-generated",
        language_creators="machine-generated",
        size_categories=_size(sum(sizes.values())),
        tags=["rldf", "debiasing", "preference", "not-for-all-audiences"],
        configs=[{"config_name": name, "data_files": f"{name}.parquet"} for name in sizes],
    )
    body = render("dataset_card", sizes=sizes, quality=quality, plan=plan, digest=plan.digest())
    return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n{body}"))


def _size(rows: int) -> str:
    return next((name for above, name in SIZES.items() if rows < above), "10M<n<100M")
