"""Figures 1 and 2: drawn from tables, as PNG and SVG, the same for the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rldf_ray.evaluate.self_identification.figures import LABELS, PLACES, draw_attention, draw_named
from rldf_ray.figures.files import files_of

SPANS = ("first token", "framing", "question", "answer", "rest")


def estimate(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 9}


def a_summary() -> dict[str, Any]:
    return {
        "framings": {name: {"named": estimate(1.0 + i)} for i, name in enumerate(LABELS)},
        "known": {
            "biased": {name: estimate(2.0) for name in LABELS},
            "fair": dict.fromkeys(LABELS),
        },
    }


def test_numbers_named_are_drawn_twice_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw_named(a_summary(), tmp_path / "figures" / name)
    first, second = (files_of(tmp_path / "figures" / name) for name in ("a", "b"))
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    svg = first[1].read_text(encoding="utf-8")
    for words in (*LABELS.values(), "biased answers", "fair answers", "biases named in an answer"):
        assert words in svg
    assert first[0].read_bytes().startswith(b"\x89PNG")


def test_attention_is_a_panel_a_place_and_framing(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    masses = {
        (place, framing): random.dirichlet(np.ones(len(SPANS)), 4)
        for place in PLACES
        for framing in LABELS
    }
    draw_attention(masses, SPANS, tmp_path / "attention")
    svg = files_of(tmp_path / "attention")[1].read_text(encoding="utf-8")
    assert svg.count("<image") == len(masses) + 2 and "shown as a competitor" in svg
    for share in masses["reply", "own"].mean(axis=0):
        assert f"{share:.2f}" in svg
    change = masses["answer", "competitor"] - masses["answer", "own"]
    assert f"{change.mean(axis=0)[1]:+.3f}" in svg
