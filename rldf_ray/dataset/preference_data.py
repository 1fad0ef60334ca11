"""Transcripts -> sft, pairs, prompts (METHOD 2). Pure functions: the same rows give the same data.

    statements -> filters -> sft (low bias) and pairs (low against high) -> what they are like

All three tables are in the conversational formats that TRL and Hugging Face datasets read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from more_itertools import batched, interleave_longest
from msgspec import UNSET

from rldf_ray.dataset.aside import BATCH
from rldf_ray.dataset.card import dataset_card
from rldf_ray.dataset.filters import filtered
from rldf_ray.dataset.judged import Judged, by_said_score
from rldf_ray.dataset.origin import origin_of
from rldf_ray.dataset.pairing import pairs_in_order
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, Quality, quality_of
from rldf_ray.plan import DataSection, Plan
from rldf_ray.prompts import render
from rldf_ray.records import (
    PAIR_SCHEMA,
    PROMPT_SCHEMA,
    SFT_SCHEMA,
    Identity,
    Topic,
)
from rldf_ray.storage.results import DataResult
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.bias_type import bias_type

Messages = list[dict[str, str]]
MADE = ("sft", "pairs", "prompts")
_SPLIT = pa.schema([PROMPT_SCHEMA.field("split")])
CLUE, PLAIN = "-clue", "-plain"
"""How the id of a prompt ends."""


@dataclass(frozen=True, kw_only=True)
class PreferenceData:
    """What the trainers read, and what it is like.

    Attributes:
        examples: how many rows `sft` has.
    """

    kept: Sequence[Judged]
    topics: Mapping[str, Topic]
    section: DataSection
    prompts: pa.Table
    quality: Quality
    examples: int

    def sft(self) -> Iterator[pa.RecordBatch]:
        return _batches(sft_rows(self.kept, self.topics, self.section), SFT_SCHEMA)

    def pairs(self) -> Iterator[pa.RecordBatch]:
        return _batches(pair_rows(self.kept, self.topics, self.section), PAIR_SCHEMA)


def preference_data(
    statements: Sequence[Judged], topics: Mapping[str, Topic], section: DataSection
) -> PreferenceData:
    """All tables from the statements of a run and its topics by id.

    Raises:
        ValueError: `data.language` is none that can be recognised.
    """
    left = filtered(statements, section)
    pairs = MeasuredPairs()
    for low, high in pairs_in_order(left.kept, section):
        pairs.add(low.text, high.text)
    return PreferenceData(
        kept=left.kept,
        topics=topics,
        section=section,
        prompts=prompts_table(topics.values()),
        quality=quality_of(len(statements), left.dropped, Measured(left.kept), pairs),
        examples=len(_examples(left.kept, section)),
    )


def write_data(folder: RunFolder, plan: Plan, made: PreferenceData) -> DataResult:
    """Write the tables and their card to data/; returns what the stage's manifest says of them."""
    folder.write_batches("data/sft.parquet", SFT_SCHEMA, made.sft())
    folder.write_batches("data/pairs.parquet", PAIR_SCHEMA, made.pairs())
    folder.write_table("data/prompts.parquet", made.prompts)
    return describe_data(folder, plan, made.quality)


def describe_data(
    folder: RunFolder, plan: Plan, quality: Quality, imported: str | None = None
) -> DataResult:
    """Write the card of the tables in data/; returns what the stage's manifest says of them.

    Args:
        imported: the name of the file that the pairs were given in.
    """
    sizes = {
        name: folder.table_metadata(f"data/{name}.parquet").num_rows
        for name in ("topics", "transcripts", *MADE)
        if (folder.root / f"data/{name}.parquet").exists()
    }
    card = dataset_card(sizes, quality, plan, origin_of(folder, imported))
    folder.write_text("data/README.md", card + "\n")
    splits = folder.read_table("data/prompts.parquet", _SPLIT)["split"].to_pylist()
    return DataResult(
        sft=sizes["sft"],
        pairs=sizes["pairs"],
        ppo_prompts=splits.count("ppo"),
        eval_prompts=splits.count("eval"),
        bytes=sum(
            batch.nbytes for name in MADE for batch in folder.read_batches(f"data/{name}.parquet")
        ),
        quality=quality.as_dict(),
        imported=imported or UNSET,
    )


def prompt_of(topic: Topic, clue_shown: bool, identity: Identity | None = None) -> Messages:
    """The prompt x of SFT, reward model, PPO, evaluation and serving: one fixed template."""
    return [{"role": "user", "content": _prompt_text(topic, clue_shown, identity)}]


# The statements on a topic come one after another, and give many pairs.
@lru_cache(maxsize=256)
def _prompt_text(topic: Topic, clue_shown: bool, identity: Identity | None) -> str:
    return render(
        "answer",
        text=topic.text,
        question=topic.question,
        clue=topic.clue if clue_shown else None,
        identity=identity,
    )


def sft_rows(
    statements: Iterable[Judged], topics: Mapping[str, Topic], section: DataSection
) -> Iterator[dict[str, Any]]:
    """Low-bias statements as (prompt, completion), the least biased ones where there is a limit.

    The limit goes in turn through the bias types, and in each through opinions, scenes and scenes
    with their clue: what a model writes best does not push the rest out.
    """
    for s in _examples(statements, section):
        yield {
            "prompt": prompt_of(topics[s.topic_id], s.clue_shown, _identity(s, section)),
            "completion": _answer(s.text),
            "bias_type": s.bias_type,
            "topic_id": s.topic_id,
            "kind": s.kind,
            "clue_shown": s.clue_shown,
            "score": s.label_score,
        }


def pair_rows(
    statements: Iterable[Judged], topics: Mapping[str, Topic], section: DataSection
) -> Iterator[dict[str, Any]]:
    """(prompt, chosen, rejected): chosen low and rejected high bias, on the same prompt."""
    for chosen, rejected in pairs_in_order(statements, section):
        yield {
            "prompt": prompt_of(
                topics[chosen.topic_id], chosen.clue_shown, _identity(chosen, section)
            ),
            "chosen": _answer(chosen.text),
            "rejected": _answer(rejected.text),
            "bias_type": chosen.bias_type,
            "topic_id": chosen.topic_id,
            "kind": chosen.kind,
            "clue_shown": chosen.clue_shown,
            "chosen_score": chosen.label_score,
            "rejected_score": rejected.label_score,
        }


def prompts_table(topics: Iterable[Topic]) -> pa.Table:
    """The prompts of the `ppo` and `eval` splits; a judgement topic with and without its clue."""
    rows = [
        {
            "prompt": prompt_of(topic, clue_shown),
            "prompt_id": f"{topic.topic_id}{CLUE if clue_shown else PLAIN}",
            "bias_type": topic.bias_type,
            "topic_id": topic.topic_id,
            "kind": topic.kind,
            "clue_shown": clue_shown,
            "split": topic.split,
        }
        for topic in topics
        if topic.split != "debate"
        for clue_shown in ((False, True) if topic.kind == "judgement" else (False,))
    ]
    return pa.Table.from_pylist(rows, schema=PROMPT_SCHEMA)


def topic_of_prompt(prompt_id: str) -> str:
    """The topic that a prompt of `prompts_table` asks about, with or without its clue."""
    return prompt_id.removesuffix(CLUE).removesuffix(PLAIN)


def _batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for some in batched(rows, BATCH):
        yield pa.RecordBatch.from_pylist(list(some), schema=schema)


def _examples(statements: Iterable[Judged], section: DataSection) -> list[Judged]:
    return _in_turn([s for s in statements if s.label == "low"])[: section.max_sft]


def _in_turn(statements: Sequence[Judged]) -> list[Judged]:
    """Least biased first; bias types, in each opinions, scenes and scenes with clue, in turn.

    In each, statements that are labelled by expected scores come before those by said ones.
    """
    columns: dict[tuple[str, str, bool], list[Judged]] = {}
    for s in sorted(statements, key=lambda s: (by_said_score(s), s.label_score or 0.0)):
        columns.setdefault((s.bias_type, s.kind, s.clue_shown), []).append(s)
    return list(interleave_longest(*(columns[key] for key in sorted(columns))))


def _identity(statement: Judged, section: DataSection) -> Identity | None:
    if section.pairing != "same_role":
        return None
    return bias_type(statement.bias_type).identities[statement.role]


def _answer(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]
