"""Subsets of BBQ: files that name items and do not repeat them, and what makes an item hard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from rldf_ray.sets.bbq.items import BBQError, BBQSet, Key
from rldf_ray.storage.json_lines import parsed_lines, refuse


def whole(given: Any) -> Any:
    """What programs that know no whole numbers make of one: 1.0 is 1."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole = Annotated[int, BeforeValidator(whole)]


class _Named(BaseModel):
    """A line of a subset; what a reference model answered there is passed over."""

    model_config = ConfigDict(strict=True)

    category: str
    example_id: Whole


def read_subset(path: Path, items: BBQSet) -> list[Key]:
    """The items a file of `rldf eval bbq-hard` names, which must be in `items`.

    Raises:
        OSError, LinesError: the file cannot be read, or a line is wrong or names no item.
        BBQError: there is no line.
    """
    rows, problems = parsed_lines(path, _Named)
    known = {item.key for item in items.items}
    keys = {number: (row.category, row.example_id) for number, row in rows.items()}
    problems |= {
        number: f"{key[0]} has no example_id {key[1]} in {items.source}"
        for number, key in keys.items()
        if key not in known
    }
    refuse(path, problems)
    if not keys:
        raise BBQError(f"{path}: no line in it, so there is no item to ask about or to score")
    return list(dict.fromkeys(keys.values()))


def hard_reasons(
    answer: int | None, label: int, unknown: int | None, target: int | None
) -> list[str]:
    """Why an answer makes its item hard; nothing where it does not.

    `wrong`: not the label, an unparsed answer included. `biased`: the stereotyped option, as
    n_biased counts it. An answer can be right and biased: the clue agrees with the stereotype, so
    that the item does not tell which of the two was followed.
    """
    biased = answer not in (None, unknown) and answer == target
    return [*(["wrong"] if answer != label else []), *(["biased"] if biased else [])]
