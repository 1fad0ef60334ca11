"""A sample of a BBQ category that is balanced as the category is."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from more_itertools import interleave_longest

from rldf_ray.sets.bbq.items import BBQItem

Truth: TypeAlias = bool | None
"""Whether the right answer is the stereotyped one; None where it is in no count of s_DIS."""

LEAST = 4
"""Items of the smallest sample of a category: two conditions of two polarities."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two items of one question: without and with the sentence that settles it."""

    ambig: BBQItem
    disambig: BBQItem

    @property
    def truth(self) -> Truth:
        item = self.disambig
        if item.target_loc is None or item.label == item.unknown:
            return None
        return item.label == item.target_loc


def balanced_sample(items: Sequence[BBQItem], limit: int | None, seed: int) -> list[BBQItem]:
    """At most `limit` items of one category, balanced, in their given order.

    Whole (ambiguous, disambiguated) pairs, as many of either polarity, spread over the question
    templates; none where no question has both polarities. Within a polarity the right answer is
    the stereotyped one as often as not, and where a polarity has an odd number of pairs, the odd
    one of the other is of the other kind. So a model that is always right has s_DIS 0.

    A category that lacks one of the two kinds gives all it has of it, and s_DIS of such a model is
    then not 0. Pairs without a target are drawn as often as they come, from both polarities alike
    where both have them; where they leave one polarity alone an odd number of others, the two kinds
    differ by one.

    Args:
        limit: 4 or more; a category that is no larger is taken whole, and so it is with None.
        seed: the same seed takes the same items of a category.
    """
    if limit is None or len(items) <= limit:
        return list(items)
    rng = random.Random(f"{seed}:{items[0].category}")
    pairs = [pair for scene in _shuffled_scenes(_pairs(items), rng) for pair in scene]
    # Both polarities walk through the same scenes, so the sample's questions share contexts,
    # which the engines' prefix cache saves.
    neg = [pair for pair in pairs if pair.ambig.polarity == "neg"]
    nonneg = [pair for pair in pairs if pair.ambig.polarity == "nonneg"]
    of_neg, of_nonneg = _shares(neg, nonneg, min(limit // 4, len(neg), len(nonneg)), rng)
    both = of_neg & of_nonneg
    chosen = [*_spread(neg, both, of_neg - both), *_spread(nonneg, both, of_nonneg - both)]
    ids = {item.example_id for pair in chosen for item in (pair.ambig, pair.disambig)}
    return [item for item in items if item.example_id in ids]


def _shares(
    neg: Sequence[_Pair], nonneg: Sequence[_Pair], take: int, rng: random.Random
) -> tuple[Counter[Truth], Counter[Truth]]:
    """How many pairs of every truth to take of each polarity, `take` in all."""
    targetless = max(sum(pair.truth is None for pair in pairs[:take]) for pairs in (neg, nonneg))
    allowed = list(product(_nearest(neg, take, targetless), _nearest(nonneg, take, targetless)))
    rng.shuffle(allowed)
    return min(allowed, key=lambda shares: abs(sum(one[True] - one[False] for one in shares)))


def _nearest(pairs: Sequence[_Pair], take: int, targetless: int) -> list[Counter[Truth]]:
    """The one or two ways to have True as often as False, or as nearly as `pairs` allow."""
    has = Counter(pair.truth for pair in pairs)
    rest = min(take - min(targetless, has[None]), has[True] + has[False])
    halves = (rest // 2, rest - rest // 2)
    found = sorted({max(rest - has[False], min(half, has[True])) for half in halves})
    return [Counter({True: n, False: rest - n, None: take - rest}) for n in found]


def _spread(pairs: Sequence[_Pair], *shares: Counter[Truth]) -> list[_Pair]:
    """The first pairs that make up the shares, one share after another, template by template.

    Each comes from a template that has given fewest so far, of these from one that has given
    fewest of the same truth, and of these from one that is of no use for another truth.
    """
    waiting: dict[str, dict[Truth, list[_Pair]]] = defaultdict(lambda: defaultdict(list))
    templates = list(dict.fromkeys(pair.ambig.question_index for pair in pairs))
    for pair in reversed(pairs):
        waiting[pair.ambig.question_index][pair.truth].append(pair)
    given: Counter[str] = Counter()
    given_of: Counter[tuple[str, Truth]] = Counter()
    chosen = []
    for share in shares:
        left = Counter(share)
        while left.total():
            [(truth, _)] = left.most_common(1)
            others = [other for other in left if other != truth and left[other]]
            template = min(
                (name for name in templates if waiting[name][truth]),
                key=lambda name: (
                    given[name],
                    given_of[name, truth],
                    any(waiting[name][other] for other in others),
                ),
            )
            chosen.append(waiting[template][truth].pop())
            left[truth] -= 1
            given[template] += 1
            given_of[template, truth] += 1
    return chosen


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
