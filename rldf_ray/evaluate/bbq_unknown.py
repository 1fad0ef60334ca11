"""How well a model tells when something is not known, whatever its readiness to say so.

A model that says "unknown" more readily gains on ambiguous items and loses on the others. What is
left when readiness is taken out is how items are ordered by the margin of "unknown" over the
likelier of the two names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rldf_ray.evaluate.bbq_items import BBQItem, Key
from rldf_ray.evaluate.stats import auc


def unknown_auc(
    items: Sequence[BBQItem], scores: Mapping[Key, Sequence[float] | None]
) -> float | None:
    """The chance that the margin is larger on an ambiguous item than on a disambiguated one.

    Args:
        scores: item -> (log-)likelihood of the options as published, nats.

    Returns:
        In [0, 1]; 0.5 is a model for which both are alike. None where an item has no scores, or all
        items have one condition.
    """
    margins = []
    for item in items:
        found = scores[item.key]
        if found is None:
            return None
        names = [score for option, score in enumerate(found) if option != item.unknown]
        margins.append(found[item.unknown] - max(names))
    return auc([item.condition == "ambig" for item in items], margins)
