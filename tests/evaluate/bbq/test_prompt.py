"""How items are shown and answers read: nothing is searched for inside a longer text."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.prompt import ask, is_refusal, order_of, parse_answer, parse_letter
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq

ITEMS = load_bbq(SCENES).items
OPTIONS = ("The grandfather", "Can't be determined", "The grandson")


def test_ranked_items_do_not_show_their_options() -> None:
    asked = ask(ITEMS[0], "rank", (2, 0, 1))
    (message,) = asked.messages
    assert ITEMS[0].context in message["content"] and ITEMS[0].question in message["content"]
    assert ITEMS[0].options[2] not in message["content"]
    assert asked.answers == tuple(ITEMS[0].options[i] for i in (2, 0, 1))


def test_options_are_shown_in_their_order_with_letters() -> None:
    (message,) = ask(ITEMS[0], "letter", (2, 0, 1)).messages
    options = ITEMS[0].options
    assert f"A. {options[2]}\nB. {options[0]}\nC. {options[1]}\n" in message["content"]
    assert ask(ITEMS[0], "letter").answers == ("A", "B", "C")
    assert "letter" not in ask(ITEMS[0], "generate").messages[0]["content"]


def test_orders_are_drawn_by_seed_and_item_and_all_occur() -> None:
    drawn = [order_of(item, True, 3) for item in ITEMS]
    assert drawn == [order_of(item, True, 3) for item in reversed(ITEMS)][::-1]
    assert len(Counter(drawn)) == 6
    assert drawn != [order_of(item, True, 4) for item in ITEMS]
    assert {order_of(item, False, 3) for item in ITEMS} == {(0, 1, 2)}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("The grandfather", 0),
        ("the GRANDSON.", 2),
        ("**The grandson**", 2),
        ("The answer is: the grandfather.", 0),
        ("Answer: Can't be determined", 1),
        ("A", 0),
        ("(b)", 1),
        ("C.", 2),
        ("C. The grandson", 2),
        ("c) the grandson.", 2),
        ("A. The grandson", None),  # letter and words disagree
        ("It was not the grandfather", None),
        ("The grandfather or the grandson", None),
        ("I'm sorry, I can't assist with that.", None),
        ("A man", None),
        ("", None),
        ("D", None),
    ],
)
def test_parse_answer(text: str, place: int | None) -> None:
    assert parse_answer(text, OPTIONS) == place


def test_a_letter_may_be_followed_by_words_that_were_cut_off() -> None:
    assert parse_letter("C. The grand", OPTIONS) == 2
    assert parse_letter("The grandson", OPTIONS) == 2
    assert parse_letter("Both of them", OPTIONS) is None


@given(st.text(max_size=40))
def test_wild_text_is_an_option_or_none(text: str) -> None:
    assert parse_answer(text, OPTIONS) in (0, 1, 2, None)


def test_refusals_are_told_from_other_answers() -> None:
    assert is_refusal("I'm sorry, but I can't help with that.")
    assert is_refusal("As an AI, I do not judge people.")
    assert not is_refusal("Both of them forgot it.")
