"""Thinking is split off from what a model says, wherever the text comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.thinking import BEGINS, ENDS, answer_begins, split_thinking

WORDS = st.text("ab <>/\n", max_size=12)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from([BEGINS, ENDS])), max_size=6).map("".join)


@pytest.mark.parametrize(
    ("text", "begun", "apart", "thinking", "answer", "ended"),
    [
        ("Plain. \n", False, "", "", "Plain. \n", True),
        ("<think>\nWho?\n</think>\n\nMe.", False, "", "Who?", "Me.", True),
        ("\n<think>\n\n</think>\n\nMe.", False, "", "", "Me.", True),
        ("Who?\n</think>\nMe.", False, "", "Who?", "Me.", True),
        ("Who?\n</think>\nMe.", True, "", "Who?", "Me.", True),
        ("<think>Who? Or", False, "", "Who? Or", "", False),
        ("Who? Or", True, "", "Who? Or", "", False),
        ("", True, "", "", "", False),
        ("<think>a</think>b<think>c</think>d", False, "", "abc", "d", True),
        ("<think>a</think>b<think>c", False, "", "abc", "", False),
        ("<think>a</think>", False, "", "a", "", True),
        ("Me.", False, "Who?\n", "Who?", "Me.", True),
        ("", False, "Who? Or", "Who? Or", "", False),
        ("So</think>Me.", False, "Who?", "Who?\n\nSo", "Me.", True),
    ],
)
def test_thinking_and_answer(
    text: str, begun: bool, apart: str, thinking: str, answer: str, ended: bool
) -> None:
    spoken = split_thinking(text, begun=begun, apart=apart)
    assert (spoken.thinking, spoken.answer, spoken.ended) == (thinking, answer, ended)


@given(TEXTS, st.booleans(), WORDS)
def test_an_answer_holds_no_tag_and_nothing_of_a_thought(
    text: str, begun: bool, apart: str
) -> None:
    spoken = split_thinking(text, begun=begun, apart=apart)
    assert BEGINS not in spoken.answer and ENDS not in spoken.answer
    assert text.endswith(spoken.answer)
    assert spoken.ended or not spoken.answer
    # An answer that is given again, as in a transcript, stays as it is.
    assert split_thinking(spoken.answer).answer == spoken.answer
    if BEGINS not in text and ENDS not in text and not begun:
        assert spoken.answer == (text if spoken.ended else "")
        assert spoken.ended or not text.strip()


@given(WORDS, WORDS)
def test_a_whole_thought_is_cut_where_it_ends(thought: str, answer: str) -> None:
    spoken = split_thinking(f"{BEGINS}{thought}{ENDS}{answer}")
    assert (spoken.thinking, spoken.answer) == (thought.strip(), answer.lstrip())
    assert spoken == split_thinking(f"{thought}{ENDS}{answer}")
    assert not split_thinking(f"{BEGINS}{thought}").ended


@pytest.mark.parametrize(
    ("tokens", "text", "apart", "index"),
    [
        (["B"], "B", "", 0),
        ([" B", "<|end|>"], " B", "", 0),
        (["<think>", "A", "?", "</think>", "\n\n", "B"], "<think>A?</think>\n\nB", "", 5),
        (["A", "?</thi", "nk>\n", " B", "."], "B.", "A?", 3),
        (["B"], "B", "A?", 0),
        (["A", "?", "B"], "B", "A?", None),
        (["<think>", "A"], "<think>A", "", None),
        ([], "B", "", None),
    ],
)
def test_the_token_that_an_answer_begins_with(
    tokens: list[str], text: str, apart: str, index: int | None
) -> None:
    assert answer_begins(tokens, split_thinking(text, apart=apart)) == index
