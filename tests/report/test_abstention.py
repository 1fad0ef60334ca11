"""Accuracies at any abstention threshold: whose lines are drawn, and through which points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from rldf_ray.evaluate.bbq.unknown import accuracies_by_threshold
from rldf_ray.figures.files import files_of
from rldf_ray.report.abstention import answered_of, draw_abstention


def row(condition: str, scores: tuple[float, ...] | None, **changes: Any) -> dict[str, Any]:
    """An item whose first option is "unknown", and its second right where the context tells."""
    head = {"set": "bbq", "method": "RLDF", "repeat": 0, "unknown": 0}
    label = 0 if condition == "ambig" else 1
    right = scores is not None and scores.index(max(scores)) == label
    about = {"condition": condition, "label": label, "correct": right, "scores": scores}
    return {**head, **about, **changes}


ROWS = [
    row("ambig", (3.0, 0.0, 0.0)),
    row("ambig", (-1.0, 0.0, 0.0), repeat=1),
    row("disambig", (0.0, 1.0, 0.0)),
    row("disambig", (-2.0, 0.0, 0.5), repeat=1),
]


def test_a_line_goes_from_never_unknown_to_nothing_else() -> None:
    answered = answered_of(ROWS)["RLDF"]
    ambiguous, disambiguated = accuracies_by_threshold([a.margin for a in answered])
    # Margins 3 and -1 of ambiguous items, -1 (right) and -2.5 (the wrong name) of the others.
    assert ambiguous.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert disambiguated.tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("without", [None, "absent"])
def test_methods_without_scores_and_other_sets_are_left_out(without: str | None) -> None:
    unranked = row("ambig", None, method="CoT")
    if without == "absent":
        del unranked["scores"]
    one_kind = row("ambig", (1.0, 0.0, 0.0), method="SFT")
    other = row("all", (1.0, 0.0, 0.0), method="SFT", set="multirole")
    told = row("disambig", (0.0, 1.0, 0.0), method="CoT")
    assert list(answered_of([*ROWS, unranked, told, one_kind, other])) == ["RLDF"]


def test_equal_items_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw_abstention(answered_of(ROWS), {"RLDF": "RLDF self-reflection"}, tmp_path / name)
    for one, other in zip(files_of(tmp_path / "a"), files_of(tmp_path / "b"), strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg = files_of(tmp_path / "a")[1].read_text(encoding="utf-8")
    assert "RLDF self-reflection" in svg and "accuracy on ambiguous items" in svg


def test_the_marker_is_what_was_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plotted: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Axes, "plot", lambda self, *xy, **how: plotted.append((xy, how)))
    # The first of two equal options was given: right here, whatever the scores alone would say.
    tie = row("disambig", (0.0, 0.0, 0.0), correct=True)
    draw_abstention(answered_of([*ROWS, tie]), {}, tmp_path / "a")
    (marker,) = [xy for xy, how in plotted if how.get("label") == "RLDF"]
    assert marker == ([pytest.approx(2 / 3)], [0.5])


def test_no_two_of_many_methods_look_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plotted: list[dict[str, Any]] = []
    monkeypatch.setattr(Axes, "plot", lambda self, *xy, **how: plotted.append(how))
    number = 14
    rows = [{**one, "method": f"m{place}"} for place in range(number) for one in ROWS]
    draw_abstention(answered_of(rows), {}, tmp_path / "a")
    markers = [(how["color"], how["marker"]) for how in plotted if "marker" in how]
    lines = [
        (h["color"], h["linestyle"]) for h in plotted if "marker" not in h and "alpha" not in h
    ]
    assert len(set(markers)) == len(set(lines)) == number
