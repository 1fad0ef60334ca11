"""The quote checker: word for word, but for punctuation, case and blank space."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.persuasion.quotes import (
    bare_quotes,
    check,
    checked_quote,
    cut,
    normalised,
    word_count,
)

STORY = "“Come in,” said Korvin.\n\nThe Tr'en obey   the Ruler; they always did — always."


@pytest.mark.parametrize(
    "quote",
    [
        "Come in, said Korvin",
        "the tren OBEY the ruler they always did",
        "said Korvin.\nThe Tr’en obey",
        "  obey\tthe ",
        "Ruler",
    ],
)
def test_what_stands_in_the_story_is_verified_across_lines_too(quote):
    found = checked_quote(quote, STORY)
    assert found.verified and found.similarity == 1
    assert found.at is not None
    assert normalised(STORY[found.at : found.end]) == normalised(quote)


@pytest.mark.parametrize("quote", ["", "  ", "...", "“”", "Korvin said", "the Ruler obeys"])
def test_what_does_not_or_is_nothing_is_unverified(quote):
    found = checked_quote(quote, STORY)
    assert not found.verified
    assert found.at is None


def test_similarity_is_the_share_of_runs_of_three_words():
    assert checked_quote("the Tren obey the king", STORY).similarity == pytest.approx(2 / 3)
    assert checked_quote("two words", STORY).similarity == 0


def test_quotes_are_marked_and_a_debater_s_own_marks_are_undone():
    own = "<v_quote>never did</v_quote>. <u_quote>Ruler</u_quote>"
    text = f"He <quote>obey the Ruler</quote> and {own}"
    found = check(text, STORY)
    assert found.text == (
        "He <v_quote>obey the Ruler</v_quote> and <u_quote>never did</u_quote>. "
        "<v_quote>Ruler</v_quote>"
    )
    assert [q.verified for q in found.quotes] == [True, False, True]
    assert [q.short for q in found.quotes] == [False, True, True]


@given(st.text(max_size=200))
def test_nothing_that_a_debater_writes_verifies_itself(text):
    found = check(text, STORY)
    for quote in found.quotes:
        assert quote.verified == (
            bool(normalised(quote.text)) and normalised(quote.text) in normalised(STORY)
        )
    assert found.text.count("<v_quote>") == sum(q.verified for q in found.quotes)
    # What is checked twice is what it was.
    assert check(found.text, STORY) == found


@given(st.text(alphabet="ab <quote>/.\n", max_size=120), st.integers(1, 12))
def test_a_cut_text_is_no_longer_and_leaves_no_quote_open(text, words):
    short, was_cut = cut(text, words)
    assert word_count(short.removesuffix(" [cut]")) <= words
    assert short.count("<quote>") <= short.count("</quote>")
    assert was_cut == short.endswith(" [cut]")


def test_an_open_quote_is_closed_where_the_text_is_cut():
    short, was_cut = cut("one two <quote>three four five</quote> six", 4)
    assert (short, was_cut) == ("one two <quote>three four</quote> [cut]", True)
    assert cut("one <quote>two", 9) == ("one <quote>two</quote>", False)


def test_bare_quotation_marks_are_counted():
    text = (
        'He "was never seen again" and <v_quote>"obey the Ruler"</v_quote>, "the right one here".'
    )
    assert bare_quotes(text, "Which is the right one here?") == 1
    assert bare_quotes("“two words”", "") == 0


@pytest.mark.parametrize("tag", ["v-quote", "V_QUOTE", "v_quote class=x", "vquote", "v quote"])
def test_no_form_of_a_mark_survives(tag):
    end = tag.split()[0] if "class" in tag else tag
    checked = check(f"<{tag}>never said</{end}>", STORY)
    assert checked.text == "<u_quote>never said</u_quote>"
