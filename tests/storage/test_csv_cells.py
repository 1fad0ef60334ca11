"""Cells that spreadsheet programs would execute are text, and become what they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.storage.csv_cells import from_cell, text_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-", "@SUM(A1)", "\tx", "\rx", "'=1", "''-1"])
def test_what_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert text_cell(text) == f"'{text}" and from_cell(f"'{text}") == text


@pytest.mark.parametrize("text", ["", "a=b", "'tis", "1-2", " =1", "“=”"])
def test_everything_else_stays_as_it_is(text: str) -> None:
    assert text_cell(text) == text == from_cell(text)


@given(st.text(alphabet="'=+-@\t\ra", max_size=6) | st.text())
def test_reading_undoes_it(text: str) -> None:
    assert from_cell(text_cell(text)) == text
    assert not text_cell(text).startswith(("=", "+", "-", "@", "\t", "\r"))
