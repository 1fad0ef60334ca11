"""Whether a reply is one of the choices, before it has their probabilities."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Message
from tests.endpoint import completed, with_top

REQUEST = ChatRequest(messages=(Message("user", "Which?"),), max_tokens=4, address="a")
LETTERS = replace(REQUEST, choices=("A", "B", "C"), choice_probabilities=True)
FAINT = {"B": 2e-6, "A": 1e-6, "C": 1e-6}
"""What is left for the letters where a reply begins with something else."""


def probabilities(
    text: str, top: dict[str, float], request: ChatRequest = LETTERS
) -> dict[str, float] | None:
    return completed(with_top(text, top), request).choice_probabilities


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("I'm sorry, I", "I"),
        ("As an AI", "As"),
        ("Answer: C", "Answer"),
        ("Because", "Because"),
        ("Both", "Both"),
        ("B2", "B2"),
        ("b", "b"),
        ("**B**", "**"),
        ("(B)", "("),
        ("", ""),
    ],
)
def test_a_reply_that_begins_with_no_choice_has_no_distribution(text: str, first: str) -> None:
    assert probabilities(text, {first: 0.9999} | FAINT) is None


@pytest.mark.parametrize("text", ["B", " B", "\nB\n", "B.", "B)", "B: the", "B The old", "B, as"])
def test_a_reply_that_begins_with_a_choice_has_one_whatever_the_mass(text: str) -> None:
    for top in ({"B": 0.6, "A": 0.3, "C": 0.1}, FAINT):
        whole = sum(top.values())
        expected = {letter: top[letter] / whole for letter in "ABC"}
        assert probabilities(text, top) == pytest.approx(expected)


def test_a_number_does_not_begin_with_another() -> None:
    scores = replace(LETTERS, choices=("1", "2"))
    top = {"1": 0.7, "2": 0.3}
    assert probabilities("10", top, scores) is None
    assert probabilities("1", top, scores) == pytest.approx(top)


@given(st.text("ABCabc1 .*-\n", max_size=6) | st.text(max_size=6))
def test_no_other_text_has_a_distribution(text: str) -> None:
    found = probabilities(text, {"B": 0.6, "A": 0.3, "C": 0.1})
    assert (found is not None) == bool(re.match(r"[ABC](?![^\W_])", text.strip()))
