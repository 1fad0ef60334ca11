"""How far people agree: Fleiss' kappa on levels, Krippendorff's alpha on scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fleiss_kappa(counts: NDArray[np.int_]) -> float | None:
    """Fleiss' kappa (Fleiss 1971) of items rated by equally many raters.

    kappa = (P - P_e) / (1 - P_e), where P is the share of agreeing pairs of ratings of one item,
    and P_e that of pairs drawn from all ratings, with replacement.

    Args:
        counts: [items, categories], how many raters put the item there; every row sums to the same
            number, at least 2.

    Returns:
        At most 1; None where everything is in one category, so that there is nothing to tell apart.
    """
    raters = set(counts.sum(1).tolist())
    if len(raters) != 1 or min(raters) < 2:
        raise ValueError(f"items have {sorted(raters)} ratings; allowed: one number, 2 or more")
    if np.count_nonzero(counts.sum(0)) < 2:
        return None
    number: int = raters.pop()
    agreeing = float(((counts**2).sum(1) - number).mean()) / (number * (number - 1))
    by_chance = float(((counts.sum(0) / counts.sum()) ** 2).sum())
    return float((agreeing - by_chance) / (1 - by_chance))


def krippendorff_alpha(scores: NDArray[np.float64]) -> float | None:
    """Krippendorff's alpha for interval data, which bears missing ratings.

    alpha = 1 - D_o / D_e (Krippendorff 2011, "Computing Krippendorff's alpha-reliability", C): the
    mean squared difference of two ratings of one item, over that of any two. The squared
    differences of m ratings sum to 2 m times their squared deviations from the mean.

    Args:
        scores: [raters, items], nan where a rater gave none.

    Returns:
        At most 1; None where fewer than two items have two ratings, or all ratings are equal.
    """
    rated = scores[:, (~np.isnan(scores)).sum(0) >= 2]
    if rated.shape[1] < 2 or len(np.unique(rated[~np.isnan(rated)])) < 2:
        return None
    ratings = (~np.isnan(rated)).sum(0)
    total = int(ratings.sum())
    within = np.nansum((rated - np.nanmean(rated, axis=0)) ** 2, axis=0)
    observed = float((ratings * within / (ratings - 1)).sum()) / total
    expected = float(np.nansum((rated - np.nanmean(rated)) ** 2)) / (total - 1)
    return 1 - observed / expected
