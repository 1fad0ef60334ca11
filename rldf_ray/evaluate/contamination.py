"""What training topics must not repeat, and whether a model was trained on what it is asked.

Topics are held against the items' texts, completions against their answer options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.bbq.run_models import SCENES, evaluation_texts, topic_overlap
from rldf_ray.evaluate.multirole.data import load_multirole
from rldf_ray.plan import Plan
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, TOPIC_SCHEMA, topics_of
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.overlap import EvaluationTexts, words

TOPICS = "data/topics.parquet"
SFT_ROWS, PAIR_ROWS = "data/sft.parquet", "data/pairs.parquet"
COMPLETIONS = {
    SFT_ROWS: pa.schema([SFT_SCHEMA.field("completion")]),
    PAIR_ROWS: pa.schema([PAIR_SCHEMA.field(side) for side in ("chosen", "rejected")]),
}
"""Tables that models are trained on, and their columns of what is to be said."""

_PART = re.compile(r"[.!?,;:\n]")


def texts_to_avoid(plan: Plan) -> EvaluationTexts:
    """What nothing a model is trained on may repeat: all items of the plan's sets.

    Those too that its sample leaves out: the model may be asked them another day.
    """
    items = load_bbq(plan.evaluate.bbq or SCENES).items
    if plan.evaluate.multirole is None:
        return evaluation_texts(items)
    return evaluation_texts([*items, *load_multirole(plan.evaluate.multirole, None).items])


def overlap_with(model: str, items: Sequence[BBQItem]) -> dict[str, int] | None:
    """What the run that a model is of has in common with the items; None if it is of none."""
    run = run_behind(model)
    if run is None:
        return None
    topics = topics_of(run.read_table(TOPICS, TOPIC_SCHEMA))
    within = home_path(model).resolve().relative_to(run.root.resolve()).parts
    tables = [SFT_ROWS] if within[:1] == ("sft",) else [*COMPLETIONS]
    return topic_overlap(topics, items) | answer_overlap(completions_of(run, tables), items)


def run_behind(model: str) -> RunFolder | None:
    """The run that a model is of: RUN, RUN/model or RUN/ppo/model."""
    folder = home_path(model)
    if not folder.is_dir():  # a name, whose parents would be those of the current folder
        return None
    for run in (folder, *folder.resolve().parents[:2]):
        if (run / "plan.yaml").is_file() and (run / TOPICS).is_file():
            return RunFolder(run)
    return None


def completions_of(run: RunFolder, tables: Iterable[str] = tuple(COMPLETIONS)) -> Counter[str]:
    """What the run's models are trained to say, or to say rather than something else.

    Args:
        tables: those that were trained on.

    Returns:
        Text -> how often it is there; either side of a pair counts.
    """
    texts: Counter[str] = Counter()
    for table in tables:
        if run.fetched(table).is_file():
            for batch in run.read_batches(table, COMPLETIONS[table]):
                for column in batch.columns:
                    texts.update(map(_said, column.to_pylist()))
    return texts


def answer_overlap(
    completions: Mapping[str, int] | Iterable[str], items: Sequence[BBQItem]
) -> dict[str, int]:
    """How many different completions, and of how many rows, begin with an option of the items.

    A completion does where its words up to one of its punctuation marks, or to its end, are those
    of the option; words are compared without case, and an option may have marks inside.
    """
    rows = Counter(completions)
    options = {tuple(words(option)) for item in items for option in item.options}
    unknown = {tuple(words(item.options[item.unknown])) for item in items}
    longest = max(map(len, options), default=0)
    beginnings = {text: _beginnings(text, longest) for text in rows}
    optional, open_ = (
        [text for text, some in beginnings.items() if not of.isdisjoint(some)]
        for of in (options, unknown)
    )
    return {
        "completions": len(rows),
        "begin_with_option": len(optional),
        "begin_with_unknown": len(open_),
        "rows": rows.total(),
        "rows_with_option": sum(rows[text] for text in optional),
        "rows_with_unknown": sum(rows[text] for text in open_),
    }


def _beginnings(text: str, longest: int) -> set[tuple[str, ...]]:
    """The words of a text up to each of its marks, as far as they are at most `longest`."""
    said: list[str] = []
    found = set()
    for part in _PART.split(text):
        said += words(part)
        if len(said) > longest:
            break
        found.add(tuple(said))
    return found - {()}


def overlap_sentence(overlap: Mapping[str, int], name: str) -> str:
    """`topic_overlap`, and `answer_overlap` if it is there, in words; the items are of `name`."""
    of_topics = (
        f"Of {overlap['topics']} training topics {overlap['ngram']} have eight words in a row in "
        f"common with an item of {name}, and {overlap['same_words']} the same words."
    )
    return (
        f"{of_topics} {answers_sentence(overlap, name)}" if "completions" in overlap else of_topics
    )


def answers_sentence(overlap: Mapping[str, int], name: str) -> str:
    """`answer_overlap` in words; the items are of `name`. Earlier versions counted no rows."""
    different = (
        f"Of {overlap['completions']} different completions {overlap['begin_with_option']} begin "
        f"with an answer option of {name}, {overlap['begin_with_unknown']} of them with one that "
        "says that it is not known"
    )
    if "rows" not in overlap:
        return f"{different}."
    return (
        f"{different}; of their {overlap['rows']} rows (a pair has one for each side) "
        f"{overlap['rows_with_option']} and {overlap['rows_with_unknown']}."
    )


def _said(messages: Sequence[Mapping[str, Any]]) -> str:
    return str(messages[-1]["content"]) if messages else ""
