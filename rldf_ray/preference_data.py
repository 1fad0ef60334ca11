"""Transcripts -> sft, pairs, prompts (METHOD 2). Pure functions: the same rows give the same data.

All three tables are in the conversational formats that TRL and Hugging Face datasets read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.plan import DataSection
from rldf_ray.prompts import bias_type, render
from rldf_ray.records import (
    PAIR_SCHEMA,
    PROMPT_SCHEMA,
    SFT_SCHEMA,
    Identity,
    Statement,
    Topic,
)

Messages = list[dict[str, str]]


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


def label_score(statement: Statement) -> float | None:
    """The score the statement's label came from."""
    expected = statement.label_source == "expected"
    return statement.expected_score if expected else statement.score


def sft_table(
    statements: Iterable[Statement], topics: Mapping[str, Topic], section: DataSection
) -> pa.Table:
    """Low-bias statements as (prompt, completion), the least biased ones where there is a limit.

    A bias type keeps its share under `max_sft`: the limit goes through the types in turn.
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
            "score": label_score(s),
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
    rows = [row for pairs in by_topic.values() for row in _widest(pairs, section)]
    return pa.Table.from_pylist(rows, schema=PAIR_SCHEMA)


def prompts_table(topics: Iterable[Topic]) -> pa.Table:
    """The prompts of the `ppo` and `eval` splits; a judgement topic with and without its clue."""
    rows = [
        {
            "prompt": prompt_of(topic, clue_shown),
            "prompt_id": f"{topic.topic_id}-{'clue' if clue_shown else 'plain'}",
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


def dataset_card(tables: Mapping[str, pa.Table], run_id: str, plan_digest: str) -> str:
    """The README.md of the data folder: what the tables are, and how to load them."""
    sizes = {name: table.num_rows for name, table in tables.items()}
    return render("dataset_card", sizes=sizes, run_id=run_id, plan_digest=plan_digest)


def _pairs(
    group: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> list[dict[str, Any]]:
    low = [s for s in group if s.label == "low"]
    high = [s for s in group if s.label == "high"]
    rows = []
    for chosen, rejected in itertools.product(low, high):
        chosen_score, rejected_score = label_score(chosen), label_score(rejected)
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


def _in_turn(statements: Sequence[Statement]) -> list[Statement]:
    """Least biased first within each bias type, bias types in turn."""
    by_type: dict[str, list[Statement]] = {}
    for s in sorted(statements, key=lambda s: label_score(s) or 0.0):
        by_type.setdefault(s.bias_type, []).append(s)
    columns = itertools.zip_longest(*(by_type[name] for name in sorted(by_type)))
    return [s for column in columns for s in column if s is not None]


def _identity(statement: Statement, section: DataSection) -> Identity | None:
    if section.pairing != "same_role":
        return None
    return bias_type(statement.bias_type).identities[statement.role]


def _answer(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]
