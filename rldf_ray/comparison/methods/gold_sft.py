"""SFT on the right answers to the scenes that the row `sft` learns from: labels alone.

The prompts are that row's, one for one; only what is to be said differs. An opinion has no right
answer, so its rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import msgspec
import pyarrow as pa

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import as_planned, titled
from rldf_ray.plan import Plan
from rldf_ray.records import SFT_SCHEMA, TOPIC_SCHEMA, Topic, topics_of
from rldf_ray.stages.data import data
from rldf_ray.stages.run import Run
from rldf_ray.stages.table import STAGES
from rldf_ray.storage.results import DataResult
from rldf_ray.topics.unknown import UNKNOWN

PLACE = 6
CONTROL = True
NEEDS = "no scene has a right answer where topics.judgement_share is 0"
ROWS = "data/sft.parquet"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row; none where no topic is a scene."""
    if plan.topics.judgement_share == 0:
        return []
    made = dict(STAGES) | {"data": right_answers}
    title = titled("SFT on right answers", plan)
    return [Method("gold_sft", title, Training(as_planned(plan), "sft", made, "gold"))]


def right_answers(run: Run) -> DataResult:
    """The data stage, and then the right answer as the completion of every SFT row."""
    result = data(run)
    topics = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    said = run.folder.read_table(ROWS, SFT_SCHEMA)
    answered = answered_rows(said.to_pylist(), {t.topic_id: t for t in topics}, run.plan)
    right = pa.Table.from_pylist(answered, schema=SFT_SCHEMA)
    run.folder.write_table(ROWS, right)
    size = result.bytes - said.nbytes + right.nbytes if result.bytes else result.bytes
    return msgspec.structs.replace(result, sft=right.num_rows, bytes=size)


def answered_rows(
    rows: Iterable[Mapping[str, Any]], topics: Mapping[str, Topic], plan: Plan
) -> list[dict[str, Any]]:
    """Rows of SFT that have a right answer, with it as their completion; nobody scored it.

    Rows without the clue, and only they, take the wordings of "not known" in turn.
    """
    unknown = _in_turn(UNKNOWN[plan.debate.unknown])
    return [
        {
            **row,
            "completion": _answer(row, topics, "" if row["clue_shown"] else next(unknown)),
            "score": None,
        }
        for row in rows
        if topics[row["topic_id"]].answer is not None
    ]


def _in_turn(wordings: Sequence[str]) -> Iterator[str]:
    """All of them round and round, without end, each round beginning one later.

    Rows of the bias types come in turn, too: without the step, or with as many types as wordings
    but one, a type would have few of them.
    """
    for begin in cycle(range(len(wordings))):
        yield from (*wordings[begin:], *wordings[:begin])


def _answer(
    row: Mapping[str, Any], topics: Mapping[str, Topic], unknown: str
) -> list[dict[str, str]]:
    """What the clue gives, or that it is not known where the clue is not shown."""
    text = topics[row["topic_id"]].answer if row["clue_shown"] else unknown
    assert text is not None  # rows without an answer are left out
    return [{"role": "assistant", "content": f"{text[0].upper()}{text[1:]}."}]
