"""What DPO and KTO are given: the run's pairs, as token ids in the chats that SFT and PPO know.

data/pairs.parquet -> encode_pair -> DPO: prompt, chosen, rejected
                                  -> answers_of -> KTO: prompt, answer, desirable or not
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from more_itertools import chunked, ilen, longest_common_prefix

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.plan import KTOSection

Row = dict[str, Any]


def encode_pair(row: Mapping[str, Any], template: ChatTemplate, max_length: int) -> Row:
    """A pair's prompt as an engine is given it, and what follows it on either side.

    Chats are cut on the right, as SFT's are: an answer that goes on does not end where it is cut.
    """
    sides = {
        side: template.answered(row["prompt"], row[side][-1]["content"]).ids
        for side in ("chosen", "rejected")
    }
    given = ilen(longest_common_prefix([template.prompt_ids(row["prompt"]), *sides.values()]))
    answers = {f"{side}_ids": ids[given:max_length] for side, ids in sides.items()}
    return {"prompt_ids": sides["chosen"][:given][:max_length], **answers}


def answers_of(pairs: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Every answer of encoded pairs once, however many pairs it is in: desirable where chosen."""
    seen = set()
    for pair in pairs:
        for side, label in (("chosen_ids", True), ("rejected_ids", False)):
            row = (*pair["prompt_ids"],), (*pair[side],), label
            if row not in seen:
                seen.add(row)
                yield {"prompt_ids": pair["prompt_ids"], "completion_ids": pair[side]} | {
                    "label": label
                }


def in_batches(answers: Iterable[Row], size: int, seed: int) -> list[Row]:
    """Answers in the order they are learned in, each with the one that its prompt is given in the
    estimate of the KL: of the row before it in its batch, of the last one for the first.

    A batch of one, the last, has the answer of the row before, as its own is no mismatch.
    """
    rows = list(answers)
    random.Random(seed).shuffle(rows)
    mismatched: list[Row] = []
    for batch in chunked(rows, size):
        for place, row in enumerate(batch):
            alone = len(batch) == 1 and len(rows) > 1
            other = rows[-2] if alone else batch[place - 1]
            mismatched.append({**row, "KL_completion_ids": other["completion_ids"]})
    return mismatched


def weights_of(section: KTOSection, desirable: int, undesirable: int) -> tuple[float, float]:
    """Weights of desirable and undesirable answers of which there are so many.

    Where the plan gives none, both kinds weigh the same in all and none less than 1 an answer
    (Ethayarajh et al. 2024, eq. 8, whose ratio may be 1 to 4/3).
    """
    given = section.desirable_weight, section.undesirable_weight
    if given == (None, None) and desirable and undesirable:
        most = max(desirable, undesirable)
        return most / desirable, most / undesirable
    wanted = [1.0 if weight is None else weight for weight in given]
    return wanted[0], wanted[1]


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
