"""The multi-role debate set: read as published, balanced, shuffled, never quietly wrong."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.evaluate.bbq.prompt import ask, order_of
from rldf_ray.evaluate.multirole.data import (
    BIAS_TYPES,
    KIND_AT,
    KINDS,
    MultiroleError,
    load_multirole,
)
from rldf_ray.storage.given_text import TextError

REAL = Path(__file__).resolve().parents[3].parent / "shared/data/subtler_biases"
COLUMNS = (
    "bias_type",
    "target_gender",
    "context",
    "anti_stereotype",
    "stereotype",
    "unrelated",
    "item_category",
    "type_category",
)


def row(number: int, **changes: str) -> dict[str, str]:
    """A made-up row; every combination of direction, polarity and gender comes in turn."""
    fields = {
        "bias_type": "ageism",
        "target_gender": ("male", "female", "not_spacified")[number % 3],
        "context": f"On day {number} the old clerk was BLANK",
        "anti_stereotype": f"quick {number // 4}",
        "stereotype": f"slow {number // 4}",
        "unrelated": f"tall {number // 4}",
        "item_category": ("negative", "positive")[number // 3 % 2],
        "type_category": ("type1", "type2")[number // 6 % 2],
    }
    return fields | changes


def written(folder: Path, rows: list[dict[str, str]], columns: Any = COLUMNS) -> Path:
    with (folder / "dataset.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_a_row_becomes_an_item_with_the_kinds_in_known_places(tmp_path: Path) -> None:
    folder = written(tmp_path, [row(0, context=" He was BLANK, I hear ", stereotype="slow 0 ")])
    (query,) = load_multirole(folder).queries
    item = query.item
    assert item.key == ("age", 1) and item.context == "He was ____, I hear."
    assert item.options == ("quick 0", "slow 0", "tall 0")
    assert KIND_AT[item.label] == "impartial" and item.target_loc is not None
    assert KIND_AT[item.target_loc] == "biased" and set(KIND_AT) == set(KINDS)
    assert (query.gender, query.direction, item.polarity) == ("male", "type1", "neg")


def test_every_bias_type_has_the_papers_name(tmp_path: Path) -> None:
    rows = [row(i, bias_type=name) for i, name in enumerate(BIAS_TYPES)]
    found = load_multirole(written(tmp_path, rows))
    assert set(found.available) == {"age", "nationality", "institution", "beauty", "profession"}


def test_a_sample_is_balanced_seeded_and_independent_of_other_bias_types(tmp_path: Path) -> None:
    rows = [row(i) for i in range(240)]
    rows += [row(i, bias_type="beauty") for i in range(240)]
    folder = written(tmp_path, rows)
    one = load_multirole(folder, 60, seed=1)
    strata = Counter(query.stratum for query in one.queries if query.item.category == "age")
    assert len(strata) == 12 and set(strata.values()) == {5}
    keys = [query.item.key for query in one.queries]
    assert keys == [query.item.key for query in load_multirole(folder, 60, seed=1).queries]
    assert keys != [query.item.key for query in load_multirole(folder, 60, seed=2).queries]
    alone = load_multirole(folder, 60, seed=1, bias_types=["age"])
    assert [query.item.key for query in alone.queries] == keys[:60]
    assert len(load_multirole(folder, 10_000).queries) == 480


def test_a_repeated_query_is_asked_once(tmp_path: Path) -> None:
    rows = [row(0), row(0, target_gender="female"), row(1)]
    found = load_multirole(written(tmp_path, rows))
    assert len(found.queries) == 2 and found.repetitions == 1 and found.available == {"age": 2}


def test_options_are_shuffled_by_seed(tmp_path: Path) -> None:
    items = load_multirole(written(tmp_path, [row(i) for i in range(300)])).items
    orders = Counter(order_of(item, permute=True, seed=0) for item in items)
    assert len(orders) == 6 and min(orders.values()) > 25
    assert [order_of(item, True, 0) for item in items] == [order_of(i, True, 0) for i in items]


def test_letters_show_the_options_and_ranking_does_not(tmp_path: Path) -> None:
    (item,) = load_multirole(written(tmp_path, [row(0)])).items
    shown = ask(item, "letter", (1, 2, 0)).messages[0]["content"]
    assert "____" in shown and "A. slow 0" in shown and "C. quick 0" in shown
    ranked = ask(item, "rank", (1, 2, 0))
    assert "slow 0" not in ranked.messages[0]["content"] and ranked.answers[0] == "slow 0"


def test_a_missing_file_says_what_is_needed_and_where_it_is_published(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(MultiroleError, match=r"dataset\.csv.*Kamruzzaman.*--data DIR"):
            load_multirole(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bias_type": "height"}, "row 2: bias_type.*'height'"),
        ({"context": "no place for a word"}, "row 2: context.*one BLANK"),
        ({"context": "BLANK and BLANK"}, "row 2: context.*one BLANK"),
        ({"unrelated": " "}, "row 2: unrelated"),
        ({"unrelated": "SLOW 0"}, "row 2: the fillers"),
        ({"target_gender": "x"}, "row 2: target_gender"),
    ],
)
def test_a_wrong_row_is_named(change: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(MultiroleError, match=said):
        load_multirole(written(tmp_path, [row(0), row(1, **change)]))


def test_a_missing_column_an_empty_and_a_broken_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(MultiroleError, match="no column unrelated"):
        load_multirole(written(tmp_path, [row(0)], [c for c in COLUMNS if c != "unrelated"]))
    with pytest.raises(MultiroleError, match="no row in it"):
        load_multirole(written(tmp_path, []))
    (tmp_path / "dataset.csv").unlink()
    (tmp_path / "dataset.csv.gz").write_bytes(gzip.compress(b"a,b\n")[:-4])
    with pytest.raises(TextError, match="broken gzip"):
        load_multirole(tmp_path)


def test_unknown_bias_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MultiroleError, match="allowed: age"):
        load_multirole(written(tmp_path, [row(0)]), bias_types=["height"])


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not there")
def test_the_published_file_gives_about_2000_queries_of_each_type() -> None:
    found = load_multirole(REAL)
    counts = Counter(query.item.category for query in found.queries)
    assert sum(found.available.values()) + found.repetitions == 11_940
    assert {counts[name] for name in ("age", "nationality", "institution", "beauty")} == {2000}
    assert 1600 < counts["profession"] == found.available["profession"] <= 1668
    whole = load_multirole(REAL, None)
    assert len(whole.queries) == sum(found.available.values())
