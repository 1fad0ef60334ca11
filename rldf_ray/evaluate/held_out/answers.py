"""Free answers to held-out prompts, scored by the run's reward model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from more_itertools import interleave_longest

from rldf_ray.dataset.preference_data import topic_of_prompt
from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Completion, Message, seed_of
from rldf_ray.models.embedded import resolve_model
from rldf_ray.stats import clustered_estimate

ANSWER_SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("reward", pa.float64()),
        ("finish_reason", pa.string()),
        ("tokens", pa.int64()),
    ]
)


def held_out_rows(rows: Iterable[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """At most so many of the prompts that nothing is trained on, the bias types in turn.

    Topics' ids end with a hash of the text, so within a bias type the first ones are a sample of
    its kinds. Of a scene's two prompts the one without its clue comes first, of the next scene, and
    of the next bias type's, the one with it: few prompts are some of either.
    """
    kept = [row for row in rows if row["split"] == "eval"]
    by_type: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in sorted(kept, key=lambda row: (row["bias_type"], row["prompt_id"].partition("-")[2])):
        topics = by_type.setdefault(row["bias_type"], {})
        topics.setdefault(topic_of_prompt(row["prompt_id"]), []).append(row)
    in_order = [_by_topic(topics.values(), place) for place, topics in enumerate(by_type.values())]
    return list(islice(interleave_longest(*in_order), most))


def _by_topic(topics: Iterable[Sequence[dict[str, Any]]], place: int) -> Iterator[dict[str, Any]]:
    """Prompts topic by topic; each topic has the one with its clue before the one without."""
    for number, prompts in enumerate(topics, place):
        yield from prompts if number % 2 else reversed(prompts)


async def answer_prompts(
    model: ChatModel,
    prompts: Sequence[Mapping[str, Any]],
    *,
    name: str,
    max_tokens: int,
    seed: int,
    on_answer: Callable[[], None],
) -> list[Completion]:
    """One sampled answer to each prompt; the seed is the prompt's own, equal for every model."""

    agent = Agent(model=model, seed=seed)

    async def one(row: Mapping[str, Any]) -> Completion:
        completion = await agent.say(
            [Message(m["role"], m["content"]) for m in row["prompt"]],
            f"held_out/{name}/{row['prompt_id']}",
            max_tokens=max_tokens,
            # Without the model's name, so that models differ by their weights, not by the draw.
            seed=seed_of(seed, f"held_out/{row['prompt_id']}"),
        )
        on_answer()
        return completion

    return await asyncio.gather(*(one(row) for row in prompts))


def score_answers(
    folder: str,
    answers: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Completion]]],
    *,
    device: str,
    threads: int,
    max_length: int,
) -> pa.Table:
    """The answers of each model, by name, with their rewards; columns of ANSWER_SCHEMA."""
    import torch

    from rldf_ray.models.reward_score import RewardModel

    if device == "cpu":
        torch.set_num_threads(threads)
    reward = RewardModel(resolve_model(folder), device, max_length)
    scores = {
        name: reward.score(
            [c.prompt_ids for c in completions], [c.token_ids for c in completions]
        ).tolist()
        for name, (_, completions) in answers.items()
    }
    return answers_table(answers, scores)


def answers_table(
    answers: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Completion]]],
    scores: Mapping[str, Sequence[float]] | None = None,
) -> pa.Table:
    """The answers of each model in columns of ANSWER_SCHEMA; rewards are null where none are."""
    rows: list[dict[str, Any]] = []
    for name, (prompts, completions) in answers.items():
        rewards = [None] * len(completions) if scores is None else scores[name]
        rows += [
            {
                **{key: row[key] for key in ("prompt_id", "bias_type", "kind", "clue_shown")},
                "model": name,
                "prompt": row["prompt"][-1]["content"],
                "answer": completion.text,
                "reward": score,
                "finish_reason": completion.finish_reason,
                "tokens": completion.usage.generated,
            }
            for row, completion, score in zip(prompts, completions, rewards, strict=True)
        ]
    return pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA)


def reward_summary(table: pa.Table, name: str, seed: int) -> dict[str, Any] | None:
    """Reward, length and share of answers that ended by themselves, of one model.

    The interval resamples topics: a scene is asked about with its clue and without.
    """
    rows = [r for r in table.to_pylist() if r["model"] == name and r["reward"] is not None]
    topics = [topic_of_prompt(row["prompt_id"]) for row in rows]
    estimate = clustered_estimate([row["reward"] for row in rows], topics, seed)
    if estimate is None:
        return None
    return {
        "n": estimate.n,
        "mean": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "share_ended": sum(row["finish_reason"] == "stop" for row in rows) / len(rows),
        "mean_tokens": sum(row["tokens"] for row in rows) / len(rows),
    }
