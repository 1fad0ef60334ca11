"""Rows that are too long to learn anything from, left out before a trainer sees them, and counted.

Trainers cut what is longer than the plan's `max_length`. Of a pair whose prompt takes all of that
two equal sides are left, and of an example for SFT no word of its answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from rldf_ray.errors import UserError
from rldf_ray.models.chat_template import ChatTemplate

ROWS = "rows.json"


class TooLongError(UserError):
    """No row is short enough to learn from; the message says how short it has to be."""


class RowsUsed(msgspec.Struct, kw_only=True, frozen=True):
    """Rows of a training job: learned from, kept to measure with, and left out as too long.

    KTO's are pairs; `desirable` and `undesirable` are the answers in those learned from.
    """

    used: int
    held_out: int = 0
    too_long: int
    desirable: int | UnsetType = UNSET
    undesirable: int | UnsetType = UNSET

    def write(self, out: str | Path) -> None:
        """Into the job's folder, for the stage that began it; rank 0 alone calls this."""
        (Path(out) / ROWS).write_bytes(msgspec.json.encode(self))


def rows_used(path: Path) -> RowsUsed | None:
    """What a job left in `path`; None of a job of an earlier version, which did not count."""
    return msgspec.json.decode(path.read_bytes(), type=RowsUsed) if path.exists() else None


def with_room(data: Any, template: ChatTemplate, field: str, max_length: int) -> Any:
    """The examples (prompt, completion) of a data set of which the trainer keeps some answer.

    Raises:
        TooLongError: there is none.
    """

    def has_room(row: dict[str, Any]) -> bool:
        return len(template.prompt_ids(row["prompt"])) < max_length

    kept = data.filter(has_room)
    check_some_left(len(kept), len(data), "examples", field, max_length)
    return kept


def that_differ(pairs: Any, field: str, max_length: int) -> Any:
    """The encoded pairs of a data set whose sides are not the same once they are cut.

    Raises:
        TooLongError: there is none.
    """
    kept = pairs.filter(lambda row: row["chosen_ids"] != row["rejected_ids"])
    check_some_left(len(kept), len(pairs), "pairs", field, max_length)
    return kept


def measured_once(pairs: Any) -> Any:
    """The encoded pairs to measure with, each once, however often it was drawn.

    A pair that comes again tells nothing new, and an interval takes every pair for a new one.
    """
    ids = [name for name in pairs.column_names if name.endswith("_ids")]
    places = {str([row[name] for name in ids]): place for place, row in enumerate(pairs)}
    return pairs.select(sorted(places.values()))


def check_some_left(number: int, of: int, what: str, field: str, max_length: int) -> None:
    """
    Raises:
        TooLongError: `number` is 0.
    """
    if number == 0:
        raise TooLongError(
            f"nothing to train on: of {of} {what} none is left once they are cut to "
            f"{field}={max_length} tokens, as their prompts alone are as long: raise {field}, or "
            "give shorter prompts"
        )
