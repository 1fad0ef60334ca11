"""What is written as JSON is JSON: no NaN, no Infinity."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.json_text import NotFiniteError, exact_json, json_text
from rldf_ray.storage.run_folder import RunFolder

NOT_FINITE = [math.nan, math.inf, -math.inf]
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
values = st.recursive(
    leaves, lambda v: st.lists(v) | st.dictionaries(st.text(max_size=4), v), max_leaves=12
)


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def nulled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: nulled(member) for key, member in value.items()}
    if isinstance(value, list):
        return [nulled(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@given(values)
def test_every_value_is_json_with_null_for_what_is_no_number(value: Any) -> None:
    assert strict(json_text(value)) == nulled(value)


@given(values)
def test_finite_values_are_written_as_ever(value: Any) -> None:
    finite = nulled(value)
    assert json_text(finite, indent=2) == json.dumps(finite, indent=2)
    assert exact_json(finite, "it") == json.dumps(finite)


@pytest.mark.parametrize("number", NOT_FINITE)
def test_where_null_would_mean_something_else_the_place_is_named(number: float) -> None:
    value = {"samples": [{"text": "a"}, {"logprobs": (0.1, number)}]}
    with pytest.raises(NotFiniteError, match=r"the answer.*: samples\[1\]\.logprobs\[1\] is NaN"):
        exact_json(value, "the answer")


@pytest.mark.parametrize("number", NOT_FINITE)
def test_run_folders_have_null(tmp_path: Path, number: float) -> None:
    folder = RunFolder(tmp_path)
    path = folder.write_json("report.json", {"loss": number, "tokens": (1, number)})
    assert strict(path.read_text(encoding="utf-8")) == {"loss": None, "tokens": [1, None]}


@pytest.mark.parametrize("number", NOT_FINITE)
def test_a_journal_keeps_no_such_answer_and_says_of_which_call(
    tmp_path: Path, number: float
) -> None:
    journal = Journal(tmp_path / "calls.jsonl")
    with pytest.raises(NotFiniteError, match=r"d/1 .*samples\[0\]\.choice_probabilities\.yes"):
        journal.append("d/1", {"samples": [{"choice_probabilities": {"yes": number}}]})
    journal.append("d/2", {"samples": []})
    journal.close()
    again = Journal(tmp_path / "calls.jsonl")
    assert again.get("d/1") is None and again.get("d/2") is not None
    again.close()
