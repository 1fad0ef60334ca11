"""A sample of a BBQ category that is balanced as the category is."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from more_itertools import interleave_longest

from rldf_ray.sets.bbq.items import BBQItem, Polarity

LEAST = 4
"""Items of the smallest sample of a category: two conditions of two polarities."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two items of one question: without and with the sentence that settles it."""

    ambig: BBQItem
    disambig: BBQItem


def balanced_sample(items: Sequence[BBQItem], limit: int | None, seed: int) -> list[BBQItem]:
    """At most `limit` items of one category, balanced, in their given order.

    Whole (ambiguous, disambiguated) pairs, as many of either polarity, spread over the question
    templates; none where no question has both polarities.

    Args:
        limit: 4 or more; a category that is no larger is taken whole, and so it is with None.
        seed: the same seed takes the same items of a category.
    """
    if limit is None or len(items) <= limit:
        return list(items)
    rng = random.Random(f"{seed}:{items[0].category}")
    by_polarity: dict[Polarity, list[_Pair]] = {"neg": [], "nonneg": []}
    for scene in _shuffled_scenes(_pairs(items), rng):
        for pair in scene:
            by_polarity[pair.ambig.polarity].append(pair)
    # Both polarities walk through the same scenes, so the sample's questions share contexts,
    # which the engines' prefix cache saves.
    take = min(limit // 4, *map(len, by_polarity.values()))
    chosen = [pair for pairs in by_polarity.values() for pair in pairs[:take]]
    ids = {item.example_id for pair in chosen for item in (pair.ambig, pair.disambig)}
    return [item for item in items if item.example_id in ids]


def _pairs(items: Sequence[BBQItem]) -> list[_Pair]:
    """Siblings: same template and question, the ambiguous context a prefix of the other.

    A context can occur several times (other names for the options), so that each disambiguated
    item takes the nearest ambiguous one that is still free.
    """
    free: dict[tuple[str, str, str], list[BBQItem]] = defaultdict(list)
    for item in items:
        if item.condition == "ambig":
            free[item.question_index, item.polarity, item.question].append(item)
    pairs = []
    for item in items:
        candidates = free[item.question_index, item.polarity, item.question]
        fitting = [other for other in candidates if item.context.startswith(other.context)]
        if item.condition == "disambig" and fitting:
            nearest = min(fitting, key=lambda other: abs(other.example_id - item.example_id))
            candidates.remove(nearest)
            pairs.append(_Pair(nearest, item))
    return pairs


def _shuffled_scenes(pairs: Sequence[_Pair], rng: random.Random) -> list[list[_Pair]]:
    """Pairs of one ambiguous context together, contexts in random order, one template a turn."""
    templates: dict[str, dict[str, list[_Pair]]] = defaultdict(lambda: defaultdict(list))
    for pair in pairs:
        templates[pair.ambig.question_index][pair.ambig.context].append(pair)
    columns = [list(scenes.values()) for scenes in templates.values()]
    rng.shuffle(columns)
    for column in columns:
        rng.shuffle(column)
    return list(interleave_longest(*columns))
