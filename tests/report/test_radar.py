"""Radar charts: figures of one set, means and deviations over repeats, a scale around them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.figures.files import files_of
from rldf_ray.report.radar import Spread, draw_radar, limits_of, lines_of, spokes_of

TYPES = ("age", "nationality", "institution", "beauty", "profession")


def row(method: str, group: str, value: float | None, **changes: Any) -> dict[str, Any]:
    head = {"repeat": 0, "seed": 0, "set": "answers", "measure": "CE", "n": 9}
    return {**head, "method": method, "group": group, "value": value, **changes}


def rows(*methods: str) -> list[dict[str, Any]]:
    return [
        row(method, group, 50 + 5 * place + spoke + 2 * repeat, repeat=repeat)
        for place, method in enumerate(methods)
        for repeat in (0, 1)
        for spoke, group in enumerate(TYPES)
    ]


def test_a_line_is_the_mean_of_the_repeats_with_their_deviation() -> None:
    lines = lines_of(rows("Default", "RLDF"), "ce", "answers")
    assert list(lines) == ["Default", "RLDF"] and spokes_of(lines) == list(TYPES)
    assert lines["RLDF"]["nationality"] == Spread(57.0, pytest.approx(math.sqrt(2)))


def test_figures_of_other_measures_sets_and_of_everything_together_are_left_out() -> None:
    given_rows = [
        row("A", "age", 1.0),
        row("A", "age", 3.0, set="people"),
        row("A", "all", 4.0),
        row("A", "age", 5.0, measure="LS"),
        row("A", "beauty", None),
        row("A", "beauty", math.nan),
    ]
    assert lines_of(given_rows, "CE", "answers") == {"A": {"age": Spread(1.0)}}
    assert lines_of(given_rows, "CE", "people") == {"A": {"age": Spread(3.0)}}
    assert lines_of(given_rows, "BS", "answers") == {}


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0, 20)), min_size=1, max_size=8))
def test_every_figure_and_its_bar_lie_between_centre_and_rim(
    figures: list[tuple[float, float]],
) -> None:
    lines = {"A": {str(i): Spread(mean, sd) for i, (mean, sd) in enumerate(figures)}}
    low, high, step = limits_of(lines)
    slack = 1e-6 * step
    assert all(low - slack <= m - sd and m + sd <= high + slack for m, sd in figures)
    assert step > 0 and 1 <= round((high - low) / step) <= 8


def test_a_chart_names_every_method_type_and_its_centre(tmp_path: Path) -> None:
    lines = lines_of(rows("Default", "rldf_self"), "CE", "answers")
    del lines["Default"]["beauty"]  # type: ignore[attr-defined]
    for name in ("a", "b"):
        draw_radar(lines, {"rldf_self": "RLDF"}, "Communication", tmp_path / name)
    first, second = (files_of(tmp_path / name) for name in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    svg = first[1].read_text(encoding="utf-8")
    for words in ("Default", "RLDF", "Nationality", "Communication (centre "):
        assert words in svg
    assert "rldf_self" not in svg


def test_a_long_name_stays_inside_the_chart(tmp_path: Path) -> None:
    lines = lines_of(rows("Default", "rldf_self"), "CE", "answers")
    draw_radar(lines, {"rldf_self": "RLDF teacher some-model-1.5b-instruct"}, "CE", tmp_path / "a")
    svg = files_of(tmp_path / "a")[1].read_text(encoding="utf-8")
    assert "RLDF teacher some-" in svg and "model-1.5b-instruct" in svg
    assert "RLDF teacher some-model" not in svg


def test_two_types_are_no_radar(tmp_path: Path) -> None:
    lines = {"A": {"age": Spread(1.0), "beauty": Spread(2.0)}}
    with pytest.raises(ValueError, match="needs 3 bias types, found 2"):
        draw_radar(lines, {}, "CE", tmp_path / "a")
