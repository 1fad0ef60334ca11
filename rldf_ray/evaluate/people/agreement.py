"""How far people agree: Fleiss' kappa on levels, Krippendorff's alpha on scores."""

from __future__ import annotations

import krippendorff
import numpy as np
from numpy.typing import NDArray


def fleiss_kappa(counts: NDArray[np.int_]) -> float | None:
    """Fleiss' kappa (Fleiss 1971) of items rated by equally many raters.

    Computed from Krippendorff's nominal alpha, which on such data differs only in how the agreement
    by chance is estimated, with or without replacement: of T ratings,
    kappa = 1 - (1 - alpha) * T / (T - 1).

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
    total = int(counts.sum())
    alpha = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    return 1 - (1 - float(alpha)) * total / (total - 1)


def krippendorff_alpha(scores: NDArray[np.float64]) -> float | None:
    """Krippendorff's alpha for interval data, which bears missing ratings.

    Args:
        scores: [raters, items], nan where a rater gave none.

    Returns:
        At most 1; None where fewer than two items have two ratings, or all ratings are equal.
    """
    rated = scores[:, (~np.isnan(scores)).sum(0) >= 2]
    if rated.shape[1] < 2 or len(np.unique(rated[~np.isnan(rated)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=rated, level_of_measurement="interval"))
