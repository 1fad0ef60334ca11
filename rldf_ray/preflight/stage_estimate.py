"""What a stage would take, and how tokens are counted before anything is asked."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from rldf_ray.plan import Part, Plan
from rldf_ray.records import Topic, context_of
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics, wanted_by_kind

CHARACTERS_A_TOKEN = 4
# What a chat template puts around a request's messages.
TEMPLATE_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class StageEstimate:
    """One stage.

    Attributes:
        calls: model calls.
        prompt, generated: tokens; of `prompt` a prefix cache saves what calls share.
        work: what the stage's time is proportional to, in a unit of its own; None if unknown.
        billed: shares of `prompt` and `generated` that an endpoint answers.
        usd: what an endpoint charges, 0 where none is asked; None where a price is missing.
        seconds: from an earlier run, None without one.
    """

    name: str
    calls: int
    prompt: int
    generated: int
    work: float | None
    billed: tuple[float, float] = (0.0, 0.0)
    usd: float | None = None
    seconds: float | None = None


def tokens_of(*texts: str) -> int:
    """Tokens of a request whose messages are `texts`."""
    return TEMPLATE_TOKENS + math.ceil(sum(map(len, texts)) / CHARACTERS_A_TOKEN)


def billed(plan: Plan, part: Part) -> float:
    """1 where an endpoint plays `part`, else 0."""
    return float(plan.speaker_of(part).paid)


def mean_context(plan: Plan) -> int:
    """Tokens of what is debated, over the seeds of all bias types."""
    topics: list[Topic] = [
        topic
        for name in plan.bias_types
        for kind in wanted_by_kind(2, 0.5)
        for topic in seed_topics(bias_type(name), kind, plan)
    ]
    lengths = [len(context_of(topic, topic.kind == "judgement").text) for topic in topics]
    return math.ceil(statistics.mean(lengths) / CHARACTERS_A_TOKEN) if lengths else 0
