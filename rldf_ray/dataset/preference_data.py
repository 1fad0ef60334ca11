"""Transcripts -> sft, pairs, prompts (METHOD 2). Pure functions: the same rows give the same data.

    statements -> filters -> sft (low bias) and pairs (low against high) -> what they are like

All three tables are in the conversational formats that TRL and Hugging Face datasets read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from more_itertools import interleave_longest

from rldf_ray.dataset.aside import BATCH
from rldf_ray.dataset.card import dataset_card
from rldf_ray.dataset.filters import filtered
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, Quality, quality_of
from rldf_ray.plan import DataSection, Plan
from rldf_ray.prompts import render
from rldf_ray.records import (
    PAIR_SCHEMA,
    PROMPT_SCHEMA,
    SFT_SCHEMA,
    Identity,
    Statement,
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


@dataclass(frozen=True)
class PreferenceData:
    """What the trainers read, and what it is like."""

    sft: pa.Table
    pairs: pa.Table
    prompts: pa.Table
    quality: Quality

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {"sft": self.sft, "pairs": self.pairs, "prompts": self.prompts}


def preference_data(
    statements: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> PreferenceData:
    """All tables from the statements of a run and its topics by id.

    Raises:
        ValueError: `data.language` is none that can be recognised.
    """
    left = filtered(statements, section)
    pairs = pairs_table(left.kept, topics, section)
    return PreferenceData(
        sft=sft_table(left.kept, topics, section),
        pairs=pairs,
        prompts=prompts_table(topics.values()),
        quality=quality_of(
            len(statements),
            left.dropped,
            Measured(left.kept),
            MeasuredPairs(pairs.to_batches(BATCH)),
        ),
    )


def write_data(folder: RunFolder, plan: Plan, made: PreferenceData) -> DataResult:
    """Write the tables and their card to data/; returns what the stage's manifest says of them."""
    for name, table in made.tables.items():
        folder.write_table(f"data/{name}.parquet", table)
    return describe_data(folder, plan, made.quality)


def describe_data(folder: RunFolder, plan: Plan, quality: Quality) -> DataResult:
    """Write the card of the tables in data/; returns what the stage's manifest says of them."""
    sizes = {
        name: folder.table_metadata(f"data/{name}.parquet").num_rows
        for name in ("topics", "transcripts", *MADE)
        if (folder.root / f"data/{name}.parquet").exists()
    }
    folder.write_text("data/README.md", dataset_card(sizes, quality, plan) + "\n")
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
    )


def prompt_of(topic: Topic, clue_shown: bool, identity: Identity | None = None) -> Messages:
    """The prompt x of SFT, reward model, PPO, evaluation and serving: one fixed template."""
    text = render(
        "answer",
        text=topic.text,
        question=topic.question,
        clue=topic.clue if clue_shown else None,
        identity=identity,
    )
    return [{"role": "user", "content": text}]


def sft_table(
    statements: Iterable[Statement], topics: Mapping[str, Topic], section: DataSection
) -> pa.Table:
    """Low-bias statements as (prompt, completion), the least biased ones where there is a limit.

    The limit goes in turn through the bias types, and in each through opinions, scenes and scenes
    with their clue: what a model writes best does not push the rest out.
    """
    low = [s for s in statements if s.label == "low"]
    rows = [
        {
            "prompt": prompt_of(topics[s.topic_id], s.clue_shown, _identity(s, section)),
            "completion": _answer(s.text),
            "bias_type": s.bias_type,
            "topic_id": s.topic_id,
            "kind": s.kind,
            "clue_shown": s.clue_shown,
            "score": s.label_score,
        }
        for s in _in_turn(low)[: section.max_sft]
    ]
    return pa.Table.from_pylist(rows, schema=SFT_SCHEMA)


def pairs_table(
    statements: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> pa.Table:
    """(prompt, chosen, rejected): chosen low and rejected high bias, on the same prompt.

    Two statements may pair if they answer the same prompt x: the same topic with the same clue
    shown, under `same_role` also the same identity.
    """
    groups: dict[tuple[object, ...], list[Statement]] = {}
    for s in statements:
        role = s.role if section.pairing == "same_role" else None
        groups.setdefault((s.topic_id, s.clue_shown, role), []).append(s)
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for group in groups.values():
        by_topic.setdefault(group[0].topic_id, []).extend(_pairs(group, topics, section))
    kept = [_widest(pairs, section) for pairs in by_topic.values()]
    by_prompt = [prompt for pairs in kept for prompt in _with_and_without_clue(pairs)]
    rows = [row for pairs in _first_in_turn(by_prompt, section.max_pairs) for row in pairs]
    return pa.Table.from_pylist(rows, schema=PAIR_SCHEMA)


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


def _pairs(
    group: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> list[dict[str, Any]]:
    low = [s for s in group if s.label == "low"]
    high = [s for s in group if s.label == "high"]
    rows = []
    for chosen, rejected in itertools.product(low, high):
        chosen_score, rejected_score = chosen.label_score, rejected.label_score
        # A label relative to its round says little across rounds, so a pair must also be in
        # order by score; equal texts have nothing to prefer.
        if chosen_score is None or rejected_score is None or chosen.text == rejected.text:
            continue
        gap = rejected_score - chosen_score
        if gap <= 0 or gap < section.min_gap:
            continue
        rows.append(
            {
                "prompt": prompt_of(
                    topics[chosen.topic_id], chosen.clue_shown, _identity(chosen, section)
                ),
                "chosen": _answer(chosen.text),
                "rejected": _answer(rejected.text),
                "bias_type": chosen.bias_type,
                "topic_id": chosen.topic_id,
                "kind": chosen.kind,
                "clue_shown": chosen.clue_shown,
                "chosen_score": chosen_score,
                "rejected_score": rejected_score,
            }
        )
    return rows


def _widest(pairs: list[dict[str, Any]], section: DataSection) -> list[dict[str, Any]]:
    ordered = sorted(pairs, key=lambda p: p["chosen_score"] - p["rejected_score"])
    return ordered[: section.pairs_per_topic]


def _with_and_without_clue(pairs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [[pair for pair in pairs if pair["clue_shown"] is shown] for shown in (False, True)]


def _first_in_turn(
    by_prompt: Sequence[list[dict[str, Any]]], most: int | None
) -> list[list[dict[str, Any]]]:
    """The pairs on every prompt, cut to `most` in all.

    Opinions, scenes and scenes with their clue give one pair in turn, in each one prompt after
    another: a reward model that sees "not known" preferred more often than a name thinks it best
    where the clue tells as well.
    """
    if most is None:
        return list(by_prompt)
    places = [(i, prompt) for prompt, pairs in enumerate(by_prompt) for i in range(len(pairs))]
    columns: dict[tuple[str, bool], list[int]] = {}
    for _, prompt in sorted(places):
        first = by_prompt[prompt][0]
        columns.setdefault((first["kind"], first["clue_shown"]), []).append(prompt)
    in_turn = interleave_longest(*(columns[key] for key in sorted(columns)))
    kept = Counter(islice(in_turn, most))
    return [pairs[: kept[prompt]] for prompt, pairs in enumerate(by_prompt)]


def _in_turn(statements: Sequence[Statement]) -> list[Statement]:
    """Least biased first; bias types, in each opinions, scenes and scenes with clue, in turn."""
    columns: dict[tuple[str, str, bool], list[Statement]] = {}
    for s in sorted(statements, key=lambda s: s.label_score or 0.0):
        columns.setdefault((s.bias_type, s.kind, s.clue_shown), []).append(s)
    return list(interleave_longest(*(columns[key] for key in sorted(columns))))


def _identity(statement: Statement, section: DataSection) -> Identity | None:
    if section.pairing != "same_role":
        return None
    return bias_type(statement.bias_type).identities[statement.role]


def _answer(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]
