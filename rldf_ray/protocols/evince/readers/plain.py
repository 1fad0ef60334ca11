"""One's own texts: a JSONL file, or a CSV file, with none, one or two given labels.

JSONL    {"id", "text", "title"?, "source"?, "category"?, "link"?, "target"?, "given"?}
         given: a label, or labels by who gave them: {"ann": "neutral", "ben": "negative"}
CSV      the same columns; given is a label, and further ones are given_2 or given:ANN
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.storage.json_lines import parsed_lines, problems_of, refuse
from rldf_ray.storage.table_rows import RowsError, read_rows


class _Given(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    text: str = Field(min_length=1)
    id: str | None = None
    title: str = ""
    source: str = ""
    category: str = ""
    link: str = ""
    target: str = ""
    given: str | dict[str, str] = {}


def read(file: Path, scale: LabelScale, targets: Sequence[str]) -> Iterator[EvinceItem]:
    """The items of one's own file; a text without a target is debated for each of `targets`."""
    rows = _table(file) if ".csv" in file.suffixes else _lines(file)
    for number, row in rows.items():
        text_id = row.id or f"{file.name.partition('.')[0]}-{number}"
        named = [row.target] if row.target else list(targets) or [""]
        for target in named:
            yield EvinceItem(
                item_id=text_id if len(named) == 1 else f"{text_id}, {target}",
                text_id=text_id,
                text=row.text,
                target=target,
                title=row.title,
                source=row.source,
                category=row.category,
                link=row.link,
                given=_labels(row.given),
            )


def _labels(given: str | dict[str, str]) -> dict[str, str]:
    if isinstance(given, str):
        return {"given": given} if given else {}
    return {who: label for who, label in given.items() if label}


def _lines(file: Path) -> dict[int, _Given]:
    rows, problems = parsed_lines(file, _Given)
    refuse(file, problems)
    return rows


def _table(file: Path) -> dict[int, _Given]:
    rows = {}
    for number, cells in read_rows(file, ["text"]):
        labels = {
            name.removeprefix("given").strip(":_ ") or "given": cell
            for name, cell in cells.items()
            if name.startswith("given") and cell
        }
        try:
            rows[number] = _Given.model_validate(
                {**cells, "id": cells.get("id") or None, "given": labels}
            )
        except ValidationError as error:
            raise RowsError(f"{file}, line {number}: {problems_of(error)}") from None
    return rows
