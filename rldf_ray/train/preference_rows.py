"""What DPO and KTO are given: the run's pairs, as token ids in the chats that SFT and PPO know.

data/pairs.parquet -> encode_pair -> DPO: prompt, chosen, rejected
                                  -> answers_of -> KTO: prompt, answer, desirable or not
"""

from __future__ import annotations

import random
from collections import Counter
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


def in_batches(answers: Iterable[Row], size: int, seed: int, max_length: int) -> list[Row]:
    """Answers in the order they are learned in, each with the one that its prompt is given in the
    estimate of the KL, cut where the prompt leaves it room in `max_length` tokens for no more.

    That is another one of its batch, each of which is given once: one to another prompt, as far as
    the batch has such. A batch of one, the last, has one of the rows before.
    """
    rows = list(answers)
    random.Random(seed).shuffle(rows)
    mismatched: list[Row] = []
    for batch in chunked(rows, size):
        others = _others(batch) if len(batch) > 1 else [_before(rows)]
        for row, other in zip(batch, others, strict=True):
            room = max_length - len(row["prompt_ids"])
            mismatched.append({**row, "KL_completion_ids": other["completion_ids"][:room]})
    return mismatched


def _others(batch: Sequence[Row]) -> list[Row]:
    """For each row another one, each once, and one of another prompt as far as there are such.

    In an order in which the rows of a prompt stand together, each gets the one that stands as far
    before it as there are rows of the most frequent prompt.
    """
    prompts = [(*row["prompt_ids"],) for row in batch]
    order = sorted(range(len(batch)), key=prompts.__getitem__)
    most = max(Counter(prompts).values())
    given = {place: order[i - min(most, len(batch) - 1)] for i, place in enumerate(order)}
    return [batch[given[place]] for place in range(len(batch))]


def _before(rows: Sequence[Row]) -> Row:
    """The last row before the last one, of another prompt if there is one; itself if it is all."""
    *before, last = rows
    apart = [row for row in before if row["prompt_ids"] != last["prompt_ids"]]
    return [last, *before, *apart][-1]


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
