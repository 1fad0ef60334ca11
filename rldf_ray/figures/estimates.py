"""Estimates as tables show them: the figure, and its interval where there is one."""

from __future__ import annotations

from rldf_ray.stats import Estimate


def shown(estimate: Estimate | None) -> str:
    """`0.72 (0.64 to 0.80)`; a dash where there is none."""
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def signed(estimate: Estimate | None) -> str:
    """`+0.12 (+0.04 to +0.20)`."""
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:+.3f}"
    return f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
