"""What training topics must not repeat, and whether a model was trained on what it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rldf_ray.evaluate.bbq.data import load_bbq
from rldf_ray.evaluate.bbq.items import BBQItem
from rldf_ray.evaluate.bbq.run_models import SCENES, evaluation_texts, topic_overlap
from rldf_ray.evaluate.multirole.data import load_multirole
from rldf_ray.plan import Plan
from rldf_ray.records import TOPIC_SCHEMA, Topic, topics_of
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.overlap import EvaluationTexts

TOPICS = "data/topics.parquet"


def texts_to_avoid(plan: Plan) -> EvaluationTexts:
    """What nothing a model is trained on may repeat: all items of the plan's sets.

    Those too that its sample leaves out: the model may be asked them another day.
    """
    items = load_bbq(plan.evaluate.bbq or SCENES).items
    if plan.evaluate.multirole is None:
        return evaluation_texts(items)
    return evaluation_texts([*items, *load_multirole(plan.evaluate.multirole, None).items])


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
            return topics_of(RunFolder(run).read_table(TOPICS, TOPIC_SCHEMA))
    return []


def overlap_sentence(overlap: Mapping[str, int], name: str) -> str:
    """`topic_overlap` in words; `name` is what the items are of."""
    return (
        f"Of {overlap['topics']} training topics {overlap['ngram']} have eight words in a row in "
        f"common with an item of {name}, and {overlap['same_words']} the same words."
    )
