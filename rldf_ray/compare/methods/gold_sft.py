"""SFT on the right answers to the scenes that the row `sft` learns from: labels alone.

The prompts are that row's, one for one; only what is to be said differs. An opinion has no right
answer, so its rows are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from rldf_ray.compare.method import Method, Training
from rldf_ray.compare.plans import debating, own_teacher
from rldf_ray.dataset.preference_data import PreferenceData
from rldf_ray.plan import Plan
from rldf_ray.records import SFT_SCHEMA, Topic
from rldf_ray.stages.data import data
from rldf_ray.stages.table import STAGES
from rldf_ray.topics.unknown import UNKNOWN

PLACE = 6
CONTROL = True
NEEDS = "no scene has a right answer where topics.judgement_share is 0"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row; none where no topic is a scene."""
    if plan.topics.judgement_share == 0:
        return []
    made = dict(STAGES) | {"data": partial(data, changed=with_right_answers)}
    source = debating(plan, own_teacher(plan))
    return [Method("gold_sft", "SFT on right answers", Training(source, "sft", made, "gold"))]


def with_right_answers(
    made: PreferenceData, topics: Mapping[str, Topic], plan: Plan
) -> PreferenceData:
    """The data with the right answer as the completion of every SFT row."""
    unknown = UNKNOWN[plan.debate.unknown]
    rows = [row for row in made.sft.to_pylist() if topics[row["topic_id"]].answer is not None]
    answered = [
        {**row, "completion": _answer(row, topics, unknown[number % len(unknown)]), "score": 0.0}
        for number, row in enumerate(rows)
    ]
    return replace(made, sft=pa.Table.from_pylist(answered, schema=SFT_SCHEMA))


def _answer(
    row: Mapping[str, Any], topics: Mapping[str, Topic], unknown: str
) -> list[dict[str, str]]:
    """What the clue gives, or that it is not known where the clue is not shown."""
    text = topics[row["topic_id"]].answer if row["clue_shown"] else unknown
    assert text is not None  # rows without an answer are left out
    return [{"role": "assistant", "content": f"{text[0].upper()}{text[1:]}."}]
