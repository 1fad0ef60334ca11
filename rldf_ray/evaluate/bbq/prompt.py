"""How a multiple-choice item is put to a model: the prompt, and the answers in which order.

`order[shown]` is the published index of the option shown at that place. Predictions leave this
package as published indices, whatever order was shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, TypeAlias

from rldf_ray.prompts import prompts_beside
from rldf_ray.prompts import render as render_shared
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.sets.bbq.score import match_text

render = prompts_beside(__file__)

Mode = Literal["rank", "rank_sum", "letter", "generate"]
Order: TypeAlias = tuple[int, int, int]

LETTERS = ("A", "B", "C")
RANKED: tuple[Mode, ...] = ("rank", "rank_sum")
"""Options are not shown, their likelihoods are compared: a token's mean, or the sum."""

PUBLISHED: Order = (0, 1, 2)
_ORDERS: tuple[Order, ...] = tuple((a, b, c) for a, b, c in permutations((0, 1, 2)))

_DECORATION = "*_`\"'“”\u2018\u2019 \n\t"
_LEAD_IN = re.compile(
    r"^(?:the\s+)?(?:(?:correct|right|best)\s+)?answer(?:\s+is)?\s*[:,]?\s+", re.IGNORECASE
)
_LABEL = re.compile(r"^\(?([abc])(?:[).:]+(?:\s+|$)|$)", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:i(?:['’]m| am) (?:sorry|not able|unable)|i (?:can(?:no|['’])t|won['’]t|will not) "
    r"(?:assist|help|answer|provide|make|respond|engage)|as an ai\b"
    r"|i (?:must )?(?:refuse|decline))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ItemPrompt:
    """One item as a model is shown it.

    Attributes:
        messages: the conversation up to where the model answers.
        answers: the answers it may give, in the order shown.
        order: the published index of each.
    """

    messages: tuple[dict[str, str], ...]
    answers: tuple[str, str, str]
    order: Order


def order_of(item: BBQItem, permute: bool, seed: int) -> Order:
    """The item's own order: as published, or drawn by seed, category and example_id."""
    if not permute:
        return PUBLISHED
    return random.Random(f"{seed}/{item.category}/{item.example_id}").choice(_ORDERS)


def ask(item: BBQItem, mode: Mode, order: Order = PUBLISHED) -> ItemPrompt:
    """The item as `mode` shows it.

    rank, rank_sum: context and question in the one template of training, the options as answers.
    letter, generate: the options are shown too; the answer is a letter, or an option's words.
    """
    shown = tuple(item.options[published] for published in order)
    if mode in RANKED:
        text = render_shared(
            "answer", text=item.context, question=item.question, clue=None, identity=None
        )
    else:
        text = render(
            "multiple_choice",
            context=item.context,
            question=item.question,
            options=list(zip(LETTERS, shown, strict=True)),
            by_letter=mode == "letter",
        )
    answers = LETTERS if mode == "letter" else shown
    return ItemPrompt(
        ({"role": "user", "content": text},), (answers[0], answers[1], answers[2]), order
    )


def parse_answer(text: str, options: Sequence[str]) -> int | None:
    """The place of the option that a generated answer is, or None.

    An option's words, its letter, or both, perhaps after "The answer is"; nothing is searched for
    inside a longer text, where "not the old man" would count as the old man.
    """
    line = _bare(text)
    matched = match_text(line, options)
    label = _LABEL.match(line)
    if matched is not None or label is None:
        return matched
    named = "abc".index(label[1].lower())
    rest = line[label.end() :].strip(_DECORATION)
    return named if not rest or match_text(rest, options) == named else None


def parse_letter(text: str, options: Sequence[str]) -> int | None:
    """`parse_answer` where a letter was asked for: what follows the letter may be cut off."""
    label = _LABEL.match(_bare(text))
    return parse_answer(text, options) if label is None else "abc".index(label[1].lower())


def _bare(text: str) -> str:
    """Without quotation marks, emphasis and "The answer is"."""
    return _LEAD_IN.sub("", text.strip(_DECORATION)).strip(_DECORATION)


def is_refusal(text: str) -> bool:
    """Whether an answer that is no option declines to answer at all."""
    return _REFUSAL.search(text) is not None
