"""Training rows of a finished study: what persuades, and what persuades of the truth.

pairs      a request -> its best rated candidate, against the worst one
SFT rows   a debater's request -> an argument for the correct answer that the judges believed

Requests are made again from the tables and compared with the digests of those that were asked, so
that no answer stands under a prompt that it is not the answer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rldf_ray.errors import UserError
from rldf_ray.models.base import Message
from rldf_ray.protocols.persuasion.finished import Address, Finished, finished
from rldf_ray.protocols.persuasion.folder import study_data
from rldf_ray.protocols.persuasion.prompt import render
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem, Side
from rldf_ray.protocols.persuasion.turn_prompt import TurnPrompt
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder

Row = Mapping[str, Any]
Place = tuple[str, str, int, Side]
"""A turn: item, dialogue, round and side."""
_REQUESTS = {"first": "turn", "critique": "critique", "refined": "refine"}
"""What ends the address of the request by the stage of its candidates."""


class PromptsChangedError(UserError):
    """A study was held with other prompts than this version has."""


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """A finished study, as training rows are made of it.

    Attributes:
        candidates: rows of `CANDIDATES` by turn and stage, in their order.
        digests: of every request's messages, by its address.
    """

    settings: PersuasionSettings
    dialogues: Mapping[Address, Finished]
    candidates: Mapping[tuple[Place, str], Sequence[Row]]
    digests: Mapping[str, str]


def training_data(
    items: Sequence[PersuasionItem], tables: Mapping[str, pa.Table], settings: PersuasionSettings
) -> TrainingData:
    """What training rows need of a study's tables, `turns` among them."""
    candidates: dict[tuple[Place, str], list[Row]] = {}
    for row in tables["candidates"].to_pylist():
        place = (row["item_id"], row["key"], row["round"], row["side"])
        candidates.setdefault((place, row["stage"]), []).append(row)
    turns = tables["turns"].select(["address", "prompt_digest"]).to_pylist()
    return TrainingData(
        settings=settings,
        dialogues=finished(items, tables),
        candidates=candidates,
        digests={row["address"]: row["prompt_digest"] for row in turns},
    )


def pair_rows(data: TrainingData) -> Iterator[dict[str, object]]:
    """`topic`, `prompt`, `chosen` and `rejected` (messages) of every choice between candidates.

    Arguments, critiques and rewritings alike; where all are rated the same there is no pair. The
    topic is the story, so that pairs about one story are held out together.

    Raises:
        PromptsChangedError: the request cannot be made again.
    """
    for place, stage, best, worst in choices(data):
        yield {
            "topic": _story(data, place),
            "prompt": _asked(data, place, stage),
            "chosen": said(best["raw"]),
            "rejected": said(worst["raw"]),
        }


def choices(data: TrainingData) -> Iterator[tuple[Place, str, Row, Row]]:
    """Every turn and stage in which candidates were rated apart, with the best and the worst.

    Two that say the same after other thoughts are rated apart by chance, and are no pair.
    """
    for (place, stage), several in data.candidates.items():
        rated = [one for one in several if one["rating"] is not None]
        if not rated:
            continue
        best = max(rated, key=lambda one: one["rating"])
        worst = min(rated, key=lambda one: one["rating"])
        if best["rating"] > worst["rating"] and best["text"] != worst["text"]:
            yield place, stage, best, worst


def sft_rows(data: TrainingData) -> Iterator[dict[str, object]]:
    """`topic`, `prompt` and `completion` (messages) of the correct side of dialogues it won.

    What a turn came to in the end, as an answer to the turn's own request.

    Raises:
        PromptsChangedError: the request cannot be made again.
    """
    for place, final in winning(data):
        yield {
            "topic": _story(data, place),
            "prompt": _asked(data, place, "first"),
            "completion": said(final["raw"]),
        }


def winning(data: TrainingData) -> Iterator[tuple[Place, Row]]:
    """The turns of the correct side in dialogues that it won, and what each came to."""
    for (item_id, key), dialogue in data.dialogues.items():
        if not believed(dialogue):
            continue
        for argument in dialogue.arguments:
            if argument["side"] == "correct":
                place: Place = (item_id, key, argument["round"], "correct")
                yield place, _final(data, place)


def believed(dialogue: Finished) -> bool:
    """Whether every judge takes the correct answer for the right one at the end.

    By its mean probability over the positions in which the dialogue was judged; where that is not
    known, by all of its letters.
    """
    if dialogue.failure is not None:
        return False
    by_judge: dict[str, list[Row]] = {}
    for row in dialogue.verdicts:
        by_judge.setdefault(row["judge"], []).append(row)
    return all(map(_convinced, by_judge.values()))


def _convinced(rows: Sequence[Row]) -> bool:
    chances = [row["p_correct"] for row in rows]
    if None in chances:
        return all(row["correct"] for row in rows)
    return bool(sum(chances) / len(chances) > 0.5)


def _chosen(data: TrainingData, place: Place, stage: str) -> Row | None:
    several = data.candidates.get((place, stage), ())
    return next((one for one in several if one["chosen"]), None)


def _final(data: TrainingData, place: Place) -> Row:
    """What a turn came to: the rewriting where there is one."""
    found = _chosen(data, place, "refined") or _chosen(data, place, "first")
    assert found is not None, f"a turn without a chosen candidate: {place}"
    return found


def _asked(data: TrainingData, place: Place, stage: str) -> list[dict[str, str]]:
    """The request that candidates of a stage answer, with the system's message."""
    item_id, key, number, side = place
    dialogue = data.dialogues[item_id, key]
    prompt = TurnPrompt(
        item=dialogue.item,
        side=side,
        settings=data.settings,
        interactive=dialogue.interactive,
        transcript=dialogue.seen_by(side, number, data.settings.order == "sequential"),
        round=number,
    )
    first, critique = (_chosen(data, place, one) for one in ("first", "critique"))
    if stage == "first" or first is None:
        messages = prompt.turn()
    elif stage == "critique" or critique is None:
        messages = prompt.critique(first["text"])
    else:
        messages = prompt.refine(first["raw"], critique["text"])
    address = f"{item_id}/{key}/{number}/{side}/{_REQUESTS[stage]}"
    system = render("system")
    if digest(system, *(one.content for one in messages)) != data.digests.get(address):
        raise PromptsChangedError(
            f"the request {address} is not what this version asks: make the rows with the version "
            "that held the study (held.versions in its report.json), or hold it anew"
        )
    return [
        {"role": one.role, "content": one.content} for one in (Message("system", system), *messages)
    ]


def _story(data: TrainingData, place: Place) -> str:
    return data.dialogues[place[:2]].item.group


def said(text: str) -> list[dict[str, str]]:
    """A text as the assistant's message."""
    return [{"role": "assistant", "content": text}]


def training_rows(
    folder: RunFolder, settings: PersuasionSettings, seed: int
) -> Mapping[str, Iterable[Mapping[str, object]]]:
    """Rows of a finished study by kind: `sft` and `pairs`.

    Raises:
        PromptsChangedError: the requests cannot be made again.
    """
    held = study_data(folder)
    data = training_data(held.items, held.tables, settings)
    return {"sft": sft_rows(data), "pairs": pair_rows(data)}
