"""One's own texts: a JSONL file, or a CSV file, with none, one or two given labels.

JSONL    {"id", "text", "title"?, "source"?, "category"?, "link"?, "target"?, "given"?}
         given: a label, or labels by who gave them: {"ann": "neutral", "ben": "negative"};
         of a text with several targets, either of these by target: {"X": {"ann": "neutral"}}
CSV      the same columns; given is a label, and further ones are given_2 or given:ANN

Names in `given` are those of people, unless one of them has labels of its own below it or all are
targets of the text: then they are targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.storage.json_lines import parsed_lines, problems_of, refuse
from rldf_ray.storage.json_text import json_text
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
    given: str | dict[str, str | dict[str, str]] | None = None


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
                given=_labels(file, number, row, target, named),
            )


def _labels(
    file: Path, number: int, row: _Given, target: str, targets: Sequence[str]
) -> dict[str, str]:
    """The labels of a text toward one of its targets.

    Raises:
        RowsError: the text has several targets, and its labels do not say which they are of; or
            they are toward others alone.
    """
    given: Any = row.given or {}
    if _by_target(given, targets):
        if not set(given) & set(targets):
            allowed = ", ".join(targets) or "none, as the text has no target"
            raise RowsError(
                f"{file}, line {number}: `given` has labels toward {', '.join(given)}; allowed: "
                f"{allowed}; change the names there, or settings.targets"
            )
        given = given.get(target) or {}
    elif given and len(targets) > 1:
        raise RowsError(
            f"{file}, line {number}: `given` does not say toward whom, and settings.targets has "
            f'{len(targets)}; write {{"{target}": {json_text(given)}}}'
        )
    if isinstance(given, str):
        return {"given": given}
    return {who: label for who, label in given.items() if label}


def _by_target(given: Any, targets: Sequence[str]) -> bool:
    """Whether the names in `given` are those of targets, and not of people."""
    if not isinstance(given, dict):
        return False
    nested = any(isinstance(one, dict) for one in given.values())
    return nested or (bool(given) and set(given) <= set(filter(None, targets)))


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
