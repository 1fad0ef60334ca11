"""The README.md of the data folder: what the tables are, what they are like, how to load them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldf_ray.dataset.origin import Origin, listed, models_of
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

NAMES = {
    "debates": "Multi-role debates, scored and paired",
    "source": "Preference data of a protocol",
    "transcripts": "Given statements, paired by their scores",
    "pairs": "Given preference pairs",
}
"""What a hub calls the data, by their origin."""


def dataset_card(sizes: Mapping[str, int], quality: Quality, plan: Plan, origin: Origin) -> str:
    """The card of tables with `sizes` rows; its head is what a dataset hub reads.

    No licence is in it: whose the texts of a language model are is not for this project to say.
    Nor is it for this project to say who made what was given to it.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    language, is_made_here = plan.data.language, origin.kind in ("debates", "source")
    creators = "machine-generated" if is_made_here else None
    data = DatasetCardData(
        language=language if is_language(language) else None,
        pretty_name=f"{NAMES[origin.kind]} ({plan.name})",
        task_categories=["text-generation"],
        annotations_creators=creators,
        language_creators=creators,
        size_categories=_size(sum(sizes.values())),
        tags=[
            "rldf",
            *(["debiasing"] if origin.kind != "pairs" else []),
            "preference",
            *(["not-for-all-audiences"] if is_made_here else []),
        ],
        configs=[{"config_name": name, "data_files": f"{name}.parquet"} for name in sizes],
    )
    body = render(
        "dataset_card",
        sizes=sizes,
        quality=quality,
        plan=plan,
        origin=origin,
        models=listed(models_of(plan, origin)),
        digest=plan.digest(),
    )
    return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n{body}"))


def _size(rows: int) -> str:
    return next((name for above, name in SIZES.items() if rows < above), "10M<n<100M")
