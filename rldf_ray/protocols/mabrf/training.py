"""Training rows of a finished study (METHOD-search 6).

pairs      the question -> the steps of an accepted pass, against the first ones
SFT rows   the question -> the best steps and the answer, where it is the label
"""

from __future__ import annotations

from collections.abc import Iterator

from rldf_ray.protocols.mabrf.agents import render
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.results import Results

Row = dict[str, object]


def pair_rows(results: Results) -> Iterator[Row]:
    """`item_id`, `prompt`, `chosen` and `rejected` (messages) of every arm that accepted a pass."""
    for item in results.items:
        for outcomes in results.arms.values():
            row = outcomes.get(item.item_id)
            if row is not None and row["accepted"] and row["bias_1"] < row["bias_0"]:
                yield {
                    "item_id": item.item_id,
                    "prompt": _asked(item),
                    "chosen": _said(row["steps_1"]),
                    "rejected": _said(row["steps_0"]),
                }


def sft_rows(results: Results) -> Iterator[Row]:
    """`item_id`, `prompt` and `completion` (messages) of every arm that ends clean and right."""
    for item in results.items:
        for outcomes in results.arms.values():
            row = outcomes.get(item.item_id)
            if row is None or item.label is None or row["answer_1"] != str(item.label):
                continue
            if row["stop"] in ("clean", "clean at once"):
                answer = f"{row['steps_1']}\n\n{item.options[item.label]}"
                yield {
                    "item_id": item.item_id,
                    "prompt": _asked(item),
                    "completion": _said(answer),
                }


def _asked(item: MabrfItem) -> list[dict[str, str]]:
    content = render("account", context=item.context, question=item.question, options=item.options)
    return [{"role": "user", "content": content}]


def _said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
