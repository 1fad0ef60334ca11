"""BiasLab: news articles, each rated by two people, toward Republicans and toward Democrats.

Batch_3495104_batch_results_600 HITS.csv as published (CC BY-NC-SA 4.0): a row for each person and
article; Answer.q1 is toward Republicans, 5 very positive, and Answer.q2 toward Democrats with the
sign turned. Or JSONL of id, title, text, toward_republicans and toward_democrats: two numbers each,
-2 very negative to 2 very positive. The five steps are those of the scale `toward`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.storage.json_lines import parsed_lines, refuse
from rldf_ray.storage.table_rows import RowsError, read_rows

TARGETS = ("Democrats", "Republicans")
STEPS = 2
"""From neutral to either end."""
_TAG = re.compile(r"<[^>]*>")

Step = Annotated[int, Field(ge=-STEPS, le=STEPS)]


class _Article(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    title: str = ""
    text: str = Field(min_length=1)
    toward_republicans: tuple[Step, ...]
    toward_democrats: tuple[Step, ...]


def read(file: Path, scale: LabelScale, targets: Sequence[str]) -> Iterator[EvinceItem]:
    """Every article toward each of the parties, or toward those of `targets`."""
    if len(scale.labels) != 2 * STEPS + 1:
        raise RowsError(
            f"settings.scale={scale.name!r} has {len(scale.labels)} labels; BiasLab has five steps"
        )
    unknown = sorted(set(targets) - set(TARGETS))
    if unknown:
        raise RowsError(f"settings.targets names {unknown[0]!r}; BiasLab has {', '.join(TARGETS)}")
    for article in _articles(file):
        for target in targets or TARGETS:
            steps = article.toward_democrats
            if target == "Republicans":
                steps = article.toward_republicans
            yield EvinceItem(
                item_id=f"{article.id}, {target}",
                text_id=article.id,
                text=article.text,
                title=article.title,
                target=target,
                category=f"toward {target}",
                given={
                    f"person {number}": scale.names[step + STEPS]
                    for number, step in enumerate(steps, start=1)
                },
            )


def _articles(file: Path) -> list[_Article]:
    if ".csv" not in file.suffixes:
        rows, problems = parsed_lines(file, _Article)
        refuse(file, problems)
        return list(rows.values())
    columns = ["Input.docid", "Input.title", "Input.fullDoc", "Answer.q1", "Answer.q2"]
    found: dict[str, _Article] = {}
    for number, row in read_rows(file, columns):
        toward = [_step(file, number, row["Answer.q1"]), -_step(file, number, row["Answer.q2"])]
        known = found.get(row["Input.docid"])
        found[row["Input.docid"]] = _Article(
            id=row["Input.docid"],
            title=row["Input.title"],
            text=_text(row["Input.fullDoc"]),
            toward_republicans=(*(known.toward_republicans if known else ()), toward[0]),
            toward_democrats=(*(known.toward_democrats if known else ()), toward[1]),
        )
    return list(found.values())


def _step(file: Path, number: int, cell: str) -> int:
    """-5, -2.5, 0, 2.5, 5 as -2 to 2."""
    try:
        steps = float(cell) / 2.5
    except ValueError:
        steps = float("nan")
    if steps not in range(-STEPS, STEPS + 1):
        raise RowsError(f"{file}, line {number}: {cell!r} is none of -5, -2.5, 0, 2.5, 5")
    return int(steps)


def _text(marked: str) -> str:
    """The paragraphs of an article, a line each, without tags."""
    paragraphs = re.split(r"</p>", marked)
    lines = (" ".join(html.unescape(_TAG.sub(" ", one)).split()) for one in paragraphs)
    return "\n".join(line for line in lines if line)
