"""What the pure tests share: a chat model that remembers its requests, and small records."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.dataset.preference_data import pair_rows, sft_rows
from rldf_ray.models.base import ChatRequest, Completion, Usage
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import DataSection, Plan, load_plan
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, Context, Statement, Topic
from rldf_ray.referee.verdict import SCORES, Verdict

SMALL = (
    "seed=0",
    "bias_types=[age, profession]",
    "topics={per_bias_type: 14, seeds_per_bias_type: 12, tries: 1}",
    "debate={debates: 6, debaters: 3, rounds: 2, max_tokens: 32}",
    "referee={label_source: said, threshold_kind: absolute}",
    "data={pairing: same_topic}",
)

Answer = Callable[[ChatRequest], str | Completion | None]


class RecordingModel:
    """The scripted model with a memory.

    Args:
        answer: says the answer instead; None leaves a request to the script.
    """

    name = "recording"

    def __init__(self, answer: Answer = lambda request: None) -> None:
        self.requests: list[ChatRequest] = []
        self._answer = answer
        self._script = ScriptedModel()

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.requests.append(request)
        await asyncio.sleep(0)
        said = self._answer(request)
        if said is None:
            return await self._script.complete(request)
        return (completion(said) if isinstance(said, str) else said,)

    def asked(self, part: str) -> list[ChatRequest]:
        """The requests whose address contains `part`, in the order of their addresses."""
        return sorted((r for r in self.requests if part in r.address), key=lambda r: r.address)


class FixedReferee:
    """Gives each statement the next of the given verdicts' scores, round after round."""

    kind = "fixed"

    def __init__(self, rounds: Sequence[Sequence[Verdict]]) -> None:
        self._rounds = iter(rounds)

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        return list(next(self._rounds))


def completion(text: str, **changes: Any) -> Completion:
    usage = Usage(prompt=10, cached=4, generated=3)
    return replace(
        Completion(text=text, finish_reason="stop", usage=usage, model="recording", revision="1"),
        **changes,
    )


def verdict(
    score: float | None,
    expected: float | None = None,
    rank: int | None = None,
    failure: str | None = None,
) -> Verdict:
    usage = Usage(prompt=100, cached=20, generated=1)
    return Verdict(
        score=score,
        expected_score=expected,
        rank=rank,
        failure=failure,
        model="judge",
        revision="7",
        usage=usage,
    )


def probabilities(**chances: float) -> dict[str, float]:
    """A distribution over the scores, e.g. probabilities(_3=0.25, _4=0.75)."""
    return {score: chances.get(f"_{score}", 0.0) for score in SCORES}


def plan_with(*overrides: str) -> Plan:
    """A small plan that does not depend on how a preset is tuned."""
    return load_plan("smoke", [*SMALL, *overrides])


def opinion(number: int, bias_type: str = "age", **changes: Any) -> Topic:
    topic = Topic(
        topic_id=f"{bias_type}-o{number}",
        bias_type=bias_type,
        kind="opinion",
        text=f"Should rule {number} of the house be kept",
        origin="seed",
        split="debate",
    )
    return replace(topic, **changes)


def judgement(number: int, bias_type: str = "age", **changes: Any) -> Topic:
    topic = Topic(
        topic_id=f"{bias_type}-j{number}",
        bias_type=bias_type,
        kind="judgement",
        text=f"The old baker and the young baker met on day {number}. One of them was late.",
        origin="seed",
        split="debate",
        clue="The young baker had missed the bus.",
        question="Who was late?",
        groups=("the old baker", "the young baker"),
        answer="the young baker",
    )
    return replace(topic, **changes)


def statement(
    text: str, score: float | None, label: str | None, /, topic: Topic, **changes: Any
) -> Statement:
    """A refereed statement on `topic`, labelled by the said score."""
    fields: Mapping[str, Any] = {
        "run_id": "r",
        "debate_id": f"{topic.topic_id}-0",
        "topic_id": topic.topic_id,
        "bias_type": topic.bias_type,
        "kind": topic.kind,
        "clue_shown": False,
        "context": topic.text,
        "round": 1,
        "role": 0,
        "identity": "20-year-old",
        "text": text,
        "finish_reason": "stop",
        "score": score,
        "expected_score": None,
        "rank": None,
        "label": label,
        "label_source": "said",
        "failure": None,
        "referee_kind": "prompted",
        "debater_model": "m",
        "debater_revision": "1",
        "referee_model": "m",
        "referee_revision": "1",
        "prompt_tokens": 1,
        "cached_tokens": 0,
        "generated_tokens": 1,
        "seed": 1,
    }
    return Statement(**{**fields, **changes})


def rated(source: Path, target: Path, rater: str, score: Callable[[str], int]) -> str:
    """A sheet of `rldf eval human` as a rater sends it back; `score` is told an answer's text."""
    with source.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            row |= {"rater": rater, **dict.fromkeys(("BS", "CE", "LS"), score(row["answer"]))}
            writer.writerow(row)
    return str(target)


def multirole_set(folder: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """A folder with a file as Kamruzzaman et al. publish it; what a row leaves out is made up."""
    usual = {"bias_type": "ageism", "target_gender": "male", "context": "He was BLANK"}
    usual |= {"anti_stereotype": "quick", "stereotype": "slow", "unrelated": "tall"}
    usual |= {"item_category": "negative", "type_category": "type1"}
    folder.mkdir(exist_ok=True)
    with (folder / "dataset.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(usual))
        writer.writeheader()
        writer.writerows(usual | dict(row) for row in rows)
    return folder


def pairs_table(
    statements: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> pa.Table:
    return pa.Table.from_pylist([*pair_rows(statements, topics, section)], schema=PAIR_SCHEMA)


def sft_table(
    statements: Sequence[Statement], topics: Mapping[str, Topic], section: DataSection
) -> pa.Table:
    return pa.Table.from_pylist([*sft_rows(statements, topics, section)], schema=SFT_SCHEMA)
