"""How much nearer to people one rater is than another, on the items that both labelled."""

from __future__ import annotations

from collections.abc import Container, Mapping

from rldf_ray.protocols.evince.metrics import wasserstein
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import Distribution
from rldf_ray.stats import Estimate, clustered_estimate

Said = Mapping[str, Distribution]
"""What a rater says of each item, as `Results.said` has it."""


def steps_nearer(results: Results, ours: Said, theirs: Said) -> Estimate | None:
    """Mean distance to each person and group of `theirs`, less that of `ours`, in steps.

    The interval resamples texts; None without an item that both labelled.
    """
    steps, texts = [], []
    for item_id in _both(results, ours, theirs):
        item = results.items[item_id]
        for who in item.raters:
            rating = results.rating(who, item_id)
            if rating is not None:
                far = wasserstein(theirs[item_id], rating, results.scale)
                steps.append(far - wasserstein(ours[item_id], rating, results.scale))
                texts.append(item.text_id)
    return clustered_estimate(steps, texts, results.seed)


def share_changed(
    results: Results, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> Estimate | None:
    """Share of the items that both labelled with another label."""
    both = _both(results, ours, theirs)
    changed = [float(ours[item_id] != theirs[item_id]) for item_id in both]
    texts = [results.items[item_id].text_id for item_id in both]
    return clustered_estimate(changed, texts, results.seed)


def times_the_tokens(results: Results, dialogue: str, system: str) -> float | None:
    """Tokens that a dialogue's turns generated, over those of what it is held against."""
    ours, theirs = (
        sum(row["generated_tokens"] or 0 for row in results.outcomes[name].values())
        for name in (dialogue, system)
    )
    return ours / theirs if theirs else None


def _both(results: Results, ours: Container[str], theirs: Container[str]) -> list[str]:
    return [item_id for item_id in results.items if item_id in ours and item_id in theirs]
