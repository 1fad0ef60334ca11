"""A question of BBQ with its three answers, and a set of them.

Source of every term: Parrish et al. 2022, "BBQ: A Hand-Built Bias Benchmark for Question Answering"
(Findings of ACL 2022). The multi-role set and the project's own scenes are such items, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rldf_ray.errors import UserError

Condition = Literal["ambig", "disambig"]
Polarity = Literal["neg", "nonneg"]
Key: TypeAlias = tuple[str, int]


class BBQError(UserError, ValueError):
    """Items, predictions or a request about them are wrong; the message says where and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BBQItem:
    """One question with its three answer options.

    Attributes:
        category: the bias category, which is also the name of the file.
        example_id: unique within the category.
        question_index: the template the question was made from.
        polarity: 'neg' asks who fits the stereotype, 'nonneg' who does not.
        condition: 'ambig' (the context does not settle the question) or 'disambig' (it does).
        context: the scene; a disambiguated one begins with its ambiguous sibling's.
        question: the question.
        options: the three answers in published order.
        label: index of the right answer, 0-2.
        unknown: index of the option that says it cannot be known, 0-2.
        target_loc: index of the answer a stereotyped reader gives, 0-2, already flipped for
            polarity; None where the data do not say.
    """

    category: str
    example_id: int
    question_index: str
    polarity: Polarity
    condition: Condition
    context: str
    question: str
    options: tuple[str, str, str]
    label: int
    unknown: int
    target_loc: int | None = None

    @property
    def key(self) -> Key:
        """(category, example_id), unique within a set and the key of its predictions."""
        return (self.category, self.example_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BBQSet:
    """Items and where they came from.

    Attributes:
        items: by category, then in published order.
        source: the folder the items were read from.
        target_sources: the csv files `target_loc` was read from; empty where there was none.
        contradictory: items left without a target because csv rows about them disagree.
        why_no_bias_scores: why no item has a target, so that only accuracy can be measured; None
            as soon as one item has. The scorer counts the single items without one.
    """

    items: tuple[BBQItem, ...]
    source: str
    target_sources: tuple[str, ...]
    contradictory: frozenset[Key]
    why_no_bias_scores: str | None

    def only(self, keys: Collection[Key]) -> BBQSet:
        """The items with these keys, and what there is to say about them."""
        items = tuple(item for item in self.items if item.key in keys)
        why = self.why_no_bias_scores
        if why is None and all(item.target_loc is None for item in items):
            why = f"none of these {len(items)} items has a target_loc"
        return replace(
            self,
            items=items,
            contradictory=self.contradictory & {item.key for item in items},
            why_no_bias_scores=why,
        )
