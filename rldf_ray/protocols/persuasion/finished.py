"""Debates and consultancies of a finished study, from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.persuasion.holding import question_of
from rldf_ray.protocols.persuasion.transcript import (
    PersuasionItem,
    Position,
    Said,
    Side,
    Transcript,
    letter_of,
)

Row = Mapping[str, Any]
Address = tuple[str, str]
"""An item's id, and the key of a dialogue about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One debate or consultancy.

    Attributes:
        debaters: their names by side; one in a consultancy.
        transcript: all that was said, in the position in which it was held.
        arguments: rows of `ARGUMENTS`. verdicts: rows of `OUTCOMES`, of every judge and position.
        failure: why it ended before its last round; None where it did not.
    """

    item: PersuasionItem
    key: str
    interactive: bool
    debaters: Mapping[Side, str]
    transcript: Transcript
    arguments: Sequence[Row]
    verdicts: Sequence[Row]
    failure: str | None

    def seen_by(self, side: Side, number: int, sequential: bool) -> Transcript:
        """What a side could see when it spoke in a round."""
        transcript = self.transcript

        def there(one: Said) -> bool:
            if one.round < number or (one.round == number and one.side is None):
                return True
            second = letter_of(side, transcript.position) == "B" and transcript.kind == "debate"
            reads = sequential and second and number > 1 and one.side != side
            return reads and one.round == number

        said = tuple(one for one in transcript.said if there(one))
        return Transcript(kind=transcript.kind, position=transcript.position, said=said)


def finished(
    items: Iterable[PersuasionItem], tables: Mapping[str, pa.Table]
) -> dict[Address, Finished]:
    """Every dialogue of a study, in the order of its verdicts.

    Args:
        tables: `outcomes`, `arguments` and `turns`.
    """
    by_id = {item.item_id: item for item in items}
    arguments = _by_address(tables["arguments"].to_pylist())
    questions = _questions(tables["turns"])
    outcomes = [row for row in tables["outcomes"].to_pylist() if _debaters(row)]
    return {
        address: _finished(by_id[address[0]], rows, arguments.get(address, ()), questions)
        for address, rows in _by_address(outcomes).items()
    }


def _finished(
    item: PersuasionItem,
    rows: Sequence[Row],
    arguments: Sequence[Row],
    questions: Mapping[str, str],
) -> Finished:
    first = rows[0]
    # Static dialogues of earlier versions, which recorded none, were all held in the first.
    recorded = arguments[0]["position"] if arguments else None
    position: Position = recorded or rows[0]["position"]
    said = []
    for number in sorted({row["round"] for row in arguments}):
        question = questions.get(f"{item.item_id}/{first['key']}/{number}/question")
        if question:
            said.append(Said(number, None, question))
        of_round = [row for row in arguments if row["round"] == number]
        said += [Said(number, row["side"], row["text"]) for row in of_round]
    return Finished(
        item=item,
        key=first["key"],
        interactive=first["interactive"],
        debaters=_debaters(first),
        transcript=Transcript(kind=first["protocol"], position=position, said=tuple(said)),
        arguments=arguments,
        verdicts=rows,
        failure=first["failure"],
    )


def _debaters(row: Row) -> dict[Side, str]:
    """Who argued for what; nobody before naive and expert judges."""
    sides: tuple[Side, Side] = ("correct", "incorrect")
    return {side: row[f"{side}_debater"] for side in sides if row[f"{side}_debater"] is not None}


def _by_address(rows: Iterable[Row]) -> dict[Address, list[Row]]:
    found: dict[Address, list[Row]] = {}
    for row in rows:
        found.setdefault((row["item_id"], row["key"]), []).append(row)
    return found


def _questions(turns: pa.Table) -> dict[str, str]:
    """The judge's questions by their addresses."""
    columns = turns.select(["address", "seat", "text"]).to_pylist()
    return {
        row["address"]: question_of(row["text"])
        for row in columns
        if row["seat"] == "interactive judge"
    }
