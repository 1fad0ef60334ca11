"""Items of BBQ and of one's own; evidence as it is ordered and counted."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.errors import UserError
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.protocols.mabrf.agents import step_count
from rldf_ray.protocols.mabrf.evidence import (
    LEAD,
    ordered,
    overlaps,
    present,
    same_passage,
    same_title,
    snippet,
)
from rldf_ray.protocols.mabrf.reading import NOT_DRAWN, read_items
from tests.protocols.mabrf.script import hit, settings

SHARED = Path(__file__).parents[4] / "shared/data/bbq"


def read(path, **changes):
    return read_items(settings(data=str(path), **changes), 1)


def lines(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.skipif(not SHARED.is_dir(), reason="BBQ is not there")
def test_bbq_s_files():
    items = read(SHARED, per_category=12)
    assert len(items) % 12 == 0 and len({item.item_id for item in items}) == len(items)
    assert {item.condition for item in items} == {"ambig", "disambig"}
    assert all(len(item.options) == 3 and item.label in range(3) for item in items)
    assert any(item.target is not None for item in items)


def test_one_s_own_items(tmp_path):
    path = lines(
        tmp_path / "own.jsonl",
        {"question": "Q?", "options": ["a", "b"], "label": 1, "category": "x"},
        {"question": "R?", "options": ["a", "b", "c"], "id": "r"},
    )
    one, two = read(path, kind="choices", per_category=None)
    assert (one.item_id, one.options, one.label) == ("own-1", ("a", "b"), 1)
    assert (two.item_id, two.label) == ("r", None)
    free = read(path, kind="questions", per_category=None)
    assert [(item.options, item.label) for item in free] == [((), None), ((), None)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "Q?"}, "options: fewer than two"),
        ({"question": "Q?", "options": ["a", "b"], "label": 2}, "label: there are 2 options"),
        ({"question": "", "options": ["a", "b"]}, "question"),
    ],
)
def test_what_is_no_item_is_refused(tmp_path, row, words):
    with pytest.raises(UserError, match=words):
        read(lines(tmp_path / "own.jsonl", row), kind="choices")


def test_files_that_are_not_there_or_have_an_id_twice(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        read(tmp_path / "none", kind="choices")
    path = lines(tmp_path / "own.jsonl", *[{"id": "a", "question": "Q?"}] * 2)
    with pytest.raises(UserError, match="'a' is given to two items"):
        read(path, kind="questions")


def test_a_larger_sample_holds_a_smaller(tmp_path):
    rows = [{"id": f"{n}", "question": "Q?", "category": f"c{n % 2}"} for n in range(20)]
    path = lines(tmp_path / "own.jsonl", *rows)
    few = {i.item_id for i in read(path, kind="questions", per_category=3)}
    more = {i.item_id for i in read(path, kind="questions", per_category=6)}
    assert len(few) == 6 and few < more
    assert len(read(path, kind="questions", items=5)) == 5


def test_items_that_are_not_drawn_are_counted(tmp_path):
    rows = [
        {"id": f"{n}", "question": "Q?", "options": ["a", "b"], "category": f"c{n % 2}"}
        for n in range(40)
    ]
    path = lines(tmp_path / "own.jsonl", *rows)
    for kind in ("choices", "questions"):
        found = read(path, kind=kind)
        assert (len(found), found.left_out) == (24, {NOT_DRAWN: 16})
        fewer = read(path, kind=kind, items=5)
        assert (len(fewer), fewer.left_out) == (5, {NOT_DRAWN: 35})
        assert read(path, kind=kind, per_category=None).left_out == {}
    assert "settings.per_category" in NOT_DRAWN


def test_items_of_bbq_that_are_not_drawn_are_counted():
    every = read(SCENES, per_category=None)
    few = read(SCENES, per_category=4)
    assert every.left_out == {}
    assert 0 < len(few) < len(every) and few.left_out == {NOT_DRAWN: len(every) - len(few)}


def test_an_arm_needs_a_name():
    with pytest.raises(ValueError, match="is no name for an arm"):
        settings(searches={"a/b": "none"})
    with pytest.raises(ValueError, match="name at least one arm"):
        settings(searches={})


def test_queries_that_name_a_group_come_first_and_short_ones_are_left_out():
    queries = ["phones today", "old people and phones", "age", "the elderly"]
    assert ordered(queries, ["old", "elderly man"]) == [
        "old people and phones",
        "the elderly",
        "phones today",
    ]


def test_only_groups_that_stand_in_the_text_count():
    assert present(["old man", "women"], "The OLD man waited.") == ["old", "man"]


def test_a_hit_overlaps_where_it_shares_eight_words_running():
    text = "one two three four five six seven eight nine"
    assert overlaps(hit("t", "zero ONE, two three four five six seven eight"), text)
    assert not overlaps(hit("t", "one two three four five six seven nine"), text)
    assert not overlaps(hit("t", "short"), text)


def test_steps_are_counted():
    assert step_count("1. a\n2) b\n  Step 3: c\n4 people came") == 3


def test_one_passage_is_cut_in_other_places_by_a_corpus():
    paragraph = "Tea is drunk hot.  It is\nold."
    assert same_passage("Tea is drunk hot. It is old.", paragraph)
    assert same_passage("Of drinks. Tea is drunk hot. It is old. So is milk.", paragraph)
    assert same_passage(" It is old. ", paragraph)
    assert not same_passage("Tea is drunk cold.", paragraph)
    assert not same_passage(" ", paragraph) and not same_passage("Tea", "")


def test_titles_of_one_article():
    assert same_title("Steam_engine", "steam  Engine")
    assert not same_title("Steam", "Steam engine")


def test_a_snippet_is_the_part_that_speaks_of_the_query():
    text = "Filler words go on. " * 60 + "Tea is drunk hot in Tibet. " + "More of the same. " * 60
    found = snippet(text, "how is tea drunk in Tibet", 200)
    assert "Tea is drunk hot in Tibet." in found
    assert found.startswith("\u2026 ") and len(found) <= 202
    assert snippet("Tea is hot.", "milk", 200) == "Tea is hot."
    assert snippet(text, "milk", 50) == text[:50]


def plain_snippet(text, query, most):
    """The same, with every word behind a place looked at."""
    wanted = set(re.findall(r"\w+", query.casefold()))
    words = [(m.start(), m[0].casefold()) for m in re.finditer(r"\w+", text)]
    places = [(at, word) for at, word in words if word in wanted]
    best, start = 0, 0
    for number, (place, _) in enumerate(places):
        held = {word for at, word in places[number:] if at + len(word) <= place + most - LEAD}
        if len(held) > best:
            best, start = len(held), place
    if len(text) <= most or start <= LEAD:
        return text[:most]
    begin = text.rfind(" ", 0, start - LEAD) + 1
    return f"\u2026 {text[begin : begin + most]}"


@given(
    st.lists(st.sampled_from(["tea", "Tibet", "milk", "straße", "a", "long" * 9]), max_size=200),
    st.integers(1, 300),
)
def test_a_snippet_is_that_of_the_plain_form(words, most):
    text = " ".join(words)
    assert snippet(text, "tea tibet STRASSE straße", most) == plain_snippet(
        text, "tea tibet STRASSE straße", most
    )


def test_a_snippet_of_a_long_text_of_nothing_but_the_query():
    assert snippet("tea " * 100_000, "tea", 200) == ("tea " * 50)


@given(st.text(max_size=400), st.text(max_size=60), st.integers(16, 200))
def test_a_snippet_is_of_its_text_and_no_longer_than_allowed(text, query, most):
    found = snippet(text, query, most)
    assert found.removeprefix("\u2026 ") in text or found in text
    assert len(found) <= most + 2
