"""How much nearer to people's labels one rater is than another, on the items that both labelled."""

from __future__ import annotations

from collections.abc import Mapping

from rldf_ray.protocols.evince.results import Results
from rldf_ray.stats import Estimate, clustered_estimate

Labels = Mapping[str, str]
"""By item."""


def steps_nearer(results: Results, ours: Labels, theirs: Labels) -> Estimate | None:
    """Mean distance to each person's label of `theirs`, less that of `ours`, in steps.

    The interval resamples texts; None without an item that both labelled.
    """
    steps, texts = [], []
    for item_id in _both(results, ours, theirs):
        item = results.items[item_id]
        for label in item.given.values():
            far = results.scale.distance(theirs[item_id], label)
            steps.append(far - results.scale.distance(ours[item_id], label))
            texts.append(item.text_id)
    return clustered_estimate(steps, texts, results.seed)


def share_changed(results: Results, ours: Labels, theirs: Labels) -> Estimate | None:
    """Share of the items that both labelled with another label."""
    both = _both(results, ours, theirs)
    changed = [float(ours[item_id] != theirs[item_id]) for item_id in both]
    texts = [results.items[item_id].text_id for item_id in both]
    return clustered_estimate(changed, texts, results.seed)


def _both(results: Results, ours: Labels, theirs: Labels) -> list[str]:
    return [item_id for item_id in results.items if item_id in ours and item_id in theirs]
