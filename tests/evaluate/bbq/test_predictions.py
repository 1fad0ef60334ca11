"""A file of predictions: what is right is scored, what is wrong is named by its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.predictions import read_predictions
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError
from rldf_ray.sets.bbq.subset import read_subset
from rldf_ray.storage.json_lines import LinesError

AGE = load_bbq(SCENES, ["Age"]).items


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "given.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def row(prediction: Any, example_id: Any = 0, category: str = "Age") -> dict[str, Any]:
    return {"category": category, "example_id": example_id, "prediction": prediction}


def test_indices_and_texts_are_predictions_and_the_rest_is_missing(tmp_path: Path) -> None:
    said = f"  {AGE[1].options[2].upper()}. "
    path = write(tmp_path, row(2), "", row(said, 1), row("the nearest of them", 2), row(None, 3))
    given = read_predictions(path, SCENES)
    assert {item.category for item in given.items.items} == {"Age"}
    assert [given.predictions["Age", n] for n in range(5)] == [2, 2, None, None, None]
    assert given.missing == len(AGE) - 4
    assert given.texts == {("Age", 1): said, ("Age", 2): "the nearest of them"}


def test_indices_may_be_written_as_floats_or_texts(tmp_path: Path) -> None:
    """As tables write whole numbers that have gaps beside them."""
    written = (0.0, 1.0, "2.0", " 1.0", "0.00")
    path = write(tmp_path, *(row(index, float(n)) for n, index in enumerate(written)))
    given = read_predictions(path, SCENES)
    assert [given.predictions["Age", n] for n in range(5)] == [0, 1, 2, 1, 0]
    assert given.texts == {}


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        (row(3), ["prediction", "less than or equal to 2", "found 3"]),
        (row(-1), ["prediction", "found -1"]),
        (row(True), ["prediction"]),
        (row(1.5), ["prediction", "found 1.5"]),
        (row(3.0), ["prediction", "less than or equal to 2"]),
        (row("1.5"), ["prediction", "0, 1 or 2", "found '1.5'"]),
        (row("3.0"), ["prediction", "0, 1 or 2", "found '3.0'"]),
        (row(0, 4.5), ["example_id", "found 4.5"]),
        ({"category": "Age", "example_id": 4}, ["prediction", "Field required"]),
        (row(0, "4"), ["example_id", "found '4'"]),
        ("{", ["Invalid JSON"]),
        ("[1]", ["Input should be"]),
        (row(0, 10_000), ["Age has no example_id 10000"]),
        (row(0, 4, "Ages"), ["category is 'Ages'", "Age, Beauty"]),
        (row(0, 0), ["a second line about Age 0"]),
    ],
    ids=str,
)
def test_a_wrong_line_is_named_by_its_number(tmp_path: Path, wrong: Any, parts: list[str]) -> None:
    path = write(tmp_path, row(2), "", wrong, row(1, 1))
    with pytest.raises(LinesError) as error:
        read_predictions(path, SCENES)
    message = str(error.value)
    assert message.startswith(f"{path}, line 3: ")
    assert [part for part in parts if part not in message] == []


def test_many_wrong_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(LinesError, match=r"line 10: .*\nand 15 more lines"):
        read_predictions(write(tmp_path, *[row(7, n) for n in range(25)]), SCENES)


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BBQError, match="no line in it"):
        read_predictions(write(tmp_path), SCENES)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_wild_bytes_are_read_or_refused_with_a_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wild.jsonl"
    path.write_bytes(content)
    with pytest.raises((BBQError, LinesError), match=r"wild\.jsonl"):
        read_predictions(path, SCENES)


def test_a_subset_names_items_once(tmp_path: Path) -> None:
    items = load_bbq(SCENES)
    path = write(tmp_path, row(None, 3) | {"why": ["wrong"]}, row(1, 2, "Beauty"), row(1, 3))
    assert read_subset(path, items) == [("Age", 3), ("Beauty", 2)]
    with pytest.raises(LinesError, match="line 1: Age has no example_id 99"):
        read_subset(write(tmp_path, row(1, 99)), items)


def test_a_subset_without_a_stereotyped_answer_says_so(tmp_path: Path) -> None:
    items = load_bbq(SCENES)
    first = replace(items.items[0], target_loc=None)
    whole = replace(items, items=(first, *items.items[1:]), contradictory=frozenset({first.key}))
    assert whole.why_no_bias_scores is None
    without = whole.only({first.key})
    assert without.items == (first,) and len(without.contradictory) == 1
    assert without.why_no_bias_scores == "none of these 1 items has a target_loc"
    others = whole.only({item.key for item in items.items[1:]})
    assert (others.contradictory, others.why_no_bias_scores) == (frozenset(), None)
