"""Training rows of a finished study.

pairs      the question -> the steps of an accepted pass, against the first ones
SFT rows   the question -> the best steps and the answer, where it is the label
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldf_ray.protocols.mabrf.agents import render
from rldf_ray.protocols.mabrf.folder import results_in
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import Row as Outcome
from rldf_ray.protocols.mabrf.measures import right
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.storage.run_folder import RunFolder

Row = dict[str, object]


def training_rows(
    folder: RunFolder, settings: MabrfSettings, seed: int
) -> Mapping[str, Iterator[Row]]:
    """Both kinds, of a finished study's folder; a study of a reader makes none.

    Raises:
        UserError: its files are not to be read.
    """
    results = results_in(folder, settings, seed)
    return {"sft": sft_rows(results), "pairs": pair_rows(results)}


def pair_rows(results: Results) -> Iterator[Row]:
    """`topic` (the item's group), `prompt`, `chosen` and `rejected` (messages).

    One an item and arm, of arms whose accepted passes made the steps less biased; the same pair
    once. A group is one topic, so that no pair of it is held out while others are learned.
    """
    for item in results.items:
        yield from pairs_of(item, results)


def pairs_of(item: MabrfItem, results: Results) -> Iterator[Row]:
    """The pairs of one item."""
    for steps in dict.fromkeys(row["steps_1"] for row in _rows(item, results) if _better(row)):
        yield {
            "topic": item.group,
            "prompt": _asked(item),
            "chosen": _said(steps),
            "rejected": _said(results.first[item.item_id]["steps_0"]),
        }


def sft_rows(results: Results) -> Iterator[Row]:
    """`item_id`, `prompt` and `completion` (messages), one an item and arm that ends clean and
    right; the same steps once.
    """
    for item in results.items:
        ends = (row["steps_1"] for row in _rows(item, results) if _clean_and_right(item, row))
        for steps in dict.fromkeys(ends):
            yield {
                "item_id": item.item_id,
                "prompt": _asked(item),
                "completion": _said(f"{steps}\n\n{item.options[item.label or 0]}"),
            }


def _rows(item: MabrfItem, results: Results) -> Iterator[Outcome]:
    outcomes = (arm.get(item.item_id) for arm in results.arms.values())
    return (row for row in outcomes if row is not None)


def _better(row: Outcome) -> bool:
    # A judge may give the same words less bias than before.
    differ = row["steps_1"] != row["steps_0"]
    return bool(row["accepted"]) and differ and row["bias_1"] < row["bias_0"]


def _clean_and_right(item: MabrfItem, row: Outcome) -> bool:
    return row["stop"] in ("clean", "clean at once") and right(item, row, 1)


def _asked(item: MabrfItem) -> list[dict[str, str]]:
    content = render("account", context=item.context, question=item.question, options=item.options)
    return [{"role": "user", "content": content}]


def _said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
