"""Was a run's model trained on what it is asked? The run's topics against the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from rldf_ray.evaluate.bbq_data import BBQItem
from rldf_ray.evaluate.multiple_choice import topic_overlap
from rldf_ray.records import Topic, topics_of

TOPICS = Path("data/topics.parquet")


def overlap_with(model: str, items: Sequence[BBQItem]) -> dict[str, int] | None:
    """How many topics of the run that a model is of repeat the items; None if it is of none."""
    topics = topics_behind(model)
    return topic_overlap(topics, items) if topics else None


def topics_behind(model: str) -> list[Topic]:
    """The topics of the run that a model is of: RUN, RUN/model or RUN/ppo/model."""
    folder = Path(model).expanduser()
    if not folder.is_dir():  # a name, whose parents would be those of the current folder
        return []
    for run in (folder, *folder.resolve().parents[:2]):
        if (run / "plan.yaml").is_file() and (run / TOPICS).is_file():
            return topics_of(pq.read_table(run / TOPICS))
    return []


def overlap_sentence(overlap: Mapping[str, int], name: str) -> str:
    """`topic_overlap` in words; `name` is what the items are of."""
    return (
        f"Of {overlap['topics']} training topics {overlap['ngram']} have eight words in a row in "
        f"common with an item of {name}, and {overlap['same_words']} the same words."
    )
