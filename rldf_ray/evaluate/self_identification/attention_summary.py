"""Attention by framing and span, and what the framing changed; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rldf_ray.stats import mean_estimate, paired_difference

Rows = Sequence[Mapping[str, Any]]


def attention_summary(rows: Rows, seed: int) -> dict[str, Any]:
    """place -> span -> framing -> mass, and another's and a competitor's minus one's own.

    Masses are means over layers and heads; 95 % intervals resample question-answer pairs. The
    framings differ in length, so `tokens` of a span stands beside its mass.
    """
    by_item: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    lengths: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        items = by_item.setdefault((row["place"], row["span"], row["framing"]), {})
        items.setdefault(row["item_id"], []).append(row["mass"])
        lengths.setdefault((row["span"], row["framing"]), []).append(row["tokens"])
    means = {
        key: {item: sum(masses) / len(masses) for item, masses in items.items()}
        for key, items in by_item.items()
    }
    summary: dict[str, Any] = {}
    for (place, span, framing), found in means.items():
        own = means[place, span, "own"]
        estimate = mean_estimate(list(found.values()), seed)
        change = paired_difference([own[i] for i in found], list(found.values()), seed)
        tokens = lengths[span, framing]
        summary.setdefault(place, {}).setdefault(span, {})[framing] = {
            "mass": estimate and asdict(estimate),
            "minus_own": change and asdict(change),
            "tokens": sum(tokens) / len(tokens),
        }
    return summary


def mean_masses(rows: Rows, place: str, framing: str, spans: Sequence[str]) -> NDArray[np.float64]:
    """Mean over items of the mass on each span: [layer, span]."""
    found: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        if row["place"] == place and row["framing"] == framing:
            found.setdefault((row["layer"], row["span"]), []).append(row["mass"])
    layers = 1 + max(layer for layer, _ in found)
    return np.array([[np.mean(found[layer, span]) for span in spans] for layer in range(layers)])
