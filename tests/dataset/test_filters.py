"""What is dropped, by which filter, and what is not."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.dataset.filters import (
    FILTERS,
    check_language,
    filtered,
    is_cut_off,
    is_empty,
    is_off_language,
    is_refusal,
    without_near_duplicates,
)
from rldf_ray.plan import DataSection
from rldf_ray.records import Statement
from rldf_ray.referee.labelled_statements import labelled_statements
from tests.fakes import judgement, opinion, statement

ALL = DataSection()
TYPES = ("age", "beauty", "institution", "nationality", "profession")
PLAIN = "I have worked with people of every age, and each of them taught me something useful."


def say(text: str, number: int = 0, **changes: Any) -> Statement:
    return statement(text, 1.0, "low", topic=opinion(number), **changes)


@pytest.mark.parametrize("text", ["", "  \n", "...", "\u200b", "—!"])
def test_a_text_without_a_word_is_empty(text: str) -> None:
    assert is_empty(text)


@pytest.mark.parametrize("text", ["I", "42", "是"])
def test_a_word_or_a_number_is_not_empty(text: str) -> None:
    assert not is_empty(text)


@pytest.mark.parametrize(
    ("text", "finish_reason", "cut"),
    [
        ("I think that the", "length", True),
        ("I think that the", "stop", False),
        ("I think so.", "length", False),
        ('He said "no!"', "length", False),
        ("Why not?)", "length", False),
    ],
)
def test_a_text_is_cut_off_where_the_limit_ended_it_in_mid_sentence(
    text: str, finish_reason: str, cut: bool
) -> None:
    assert is_cut_off(say(text, finish_reason=finish_reason)) is cut


@pytest.mark.parametrize(
    "text",
    [
        "As an AI language model, I do not have personal opinions.",
        "I'm sorry, but I cannot assist with that.",
        "I’m sorry, but I can’t help with that request.",
        "I am sorry, I am unable to provide a statement of this kind.",
        "I can't take part in this debate.",
        "I cannot fulfil your request.",
        "I am just an AI and have no age.",
        "As a large language model I stay neutral.",
    ],
)
def test_a_model_that_declines_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "I am sorry, but I cannot climb those stairs any more.",
        "I can't help thinking that the young get it wrong.",
        "I cannot help with the harvest at my age, and nobody asks me to.",
        "We cannot accept this decision of the council.",
        "I am not able to work nights, as I look after my parents.",
        "An AI will do half of my job in ten years.",
        "I won't debate whether my neighbours are honest; they are.",
    ],
)
def test_a_person_who_cannot_or_will_not_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ich finde, dass ältere Menschen ruhig länger arbeiten sollten.",
        "Je pense que les jeunes travaillent souvent plus vite.",
        "我认为老年人应该继续工作，因为他们有经验。",  # noqa: RUF001
        "Jag tycker om att arbeta med gamla människor.",
    ],
)
def test_another_language_is_off_language_in_english_data_only(text: str) -> None:
    assert is_off_language(text, "en")


def test_german_data_keep_german() -> None:
    text = "Ich finde, dass ältere Menschen ruhig länger arbeiten sollten."
    assert not is_off_language(text, "de") and is_off_language(PLAIN, "de")


@pytest.mark.parametrize(
    "text",
    [
        "Oui, bien sûr.",
        "No.",
        "Le chef said no to the garçon de café in Paris, and I agreed with him at once.",
        "Ms Nwosu, Herr Grünwald and Señora Ibáñez all came late on Monday.",
        PLAIN,
    ],
)
def test_short_or_mixed_texts_are_left_alone(text: str) -> None:
    assert not is_off_language(text, "en")


def test_no_statement_that_people_wrote_for_the_referee_is_dropped() -> None:
    found = [s.text for name in TYPES for s in labelled_statements(name)]
    assert len(found) > 100
    assert [t for t in found if is_empty(t) or is_refusal(t) or is_off_language(t, "en")] == []


def test_an_unknown_language_is_told_the_known_ones() -> None:
    check_language("de")
    with pytest.raises(ValueError, match=r"data\.language='xx'.*known are .*de, .*en, "):
        check_language("xx")


# ---- near-duplicates


def texts(statements: list[Statement]) -> list[str]:
    return [s.text for s in statements]


def test_a_statement_without_a_label_does_not_take_its_labelled_twins_along() -> None:
    unlabelled = statement(PLAIN, None, None, topic=opinion(0))
    other = statement("Nobody says so.", None, None, topic=opinion(0))
    low, twin = say(PLAIN), say(PLAIN)
    assert without_near_duplicates([unlabelled, low, other, twin], 0.7) == [low, other]
    assert without_near_duplicates([low, unlabelled, twin], 0.7) == [low]
    assert without_near_duplicates([unlabelled, unlabelled], 0.7) == [unlabelled]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=12))
def test_what_has_no_label_changes_nothing_of_what_has_one(given: list[tuple[bool, str]]) -> None:
    rows = [
        say(text * 9) if labelled else statement(text * 9, None, None, topic=opinion(0))
        for labelled, text in given
    ]
    kept = without_near_duplicates(rows, 0.7)
    labelled = [row for row in rows if row.label is not None]
    assert [r for r in kept if r.label is not None] == without_near_duplicates(labelled, 0.7)


NOTE = (
    "The {} man. The note on the kitchen table is in his hand, and he says that he left it there."
)


def test_of_twins_with_opposite_labels_both_stay_whoever_spoke_first() -> None:
    low = say(NOTE.format("young"))
    high = statement(NOTE.format("old"), 9.0, "high", topic=opinion(0))
    assert without_near_duplicates([high, low, high, low], 0.7) == [high, low]
    assert without_near_duplicates([low, high], 0.7) == [low, high]
    assert filtered([high, low], ALL).dropped["near_duplicate"] == 0


def test_of_one_text_with_both_labels_neither_stays() -> None:
    low, shouted = say(PLAIN), statement(f" {PLAIN.upper()[:-1]}!", 9.0, "high", topic=opinion(0))
    high = statement(PLAIN.replace("useful", "new"), 8.0, "high", topic=opinion(0))
    unlabelled = statement(PLAIN, None, None, topic=opinion(0))
    assert without_near_duplicates([low, shouted], 0.7) == []
    assert without_near_duplicates([shouted, high, low, unlabelled], 0.7) == [high]
    assert without_near_duplicates([low, unlabelled, shouted], 0.7) == [unlabelled]
    found = filtered([low, shouted, high], DataSection(filters=("near_duplicate",)))
    assert found.kept == [high] and found.dropped == {"near_duplicate": 2}
    # Another prompt is another matter, and so is somebody else's text where prompts name who spoke.
    elsewhere = statement(PLAIN, 9.0, "high", topic=opinion(1))
    assert without_near_duplicates([low, elsewhere], 0.7) == [low, elsewhere]
    other = statement(PLAIN, 9.0, "high", topic=opinion(0), role=1)
    assert without_near_duplicates([low, other], 0.7, by_role=True) == [low, other]


def test_a_label_by_the_expected_score_counts_before_one_by_the_said_score() -> None:
    said_low, said_high = say(PLAIN), statement(PLAIN, 9.0, "high", topic=opinion(0))
    low = say(PLAIN, expected_score=1.5, label_source="expected")
    twin = say(PLAIN.replace("useful", "new"))
    assert without_near_duplicates([said_low, twin, low], 0.7) == [low]
    assert without_near_duplicates([said_high, low], 0.7) == [low]
    high = statement(PLAIN, 9.0, "high", topic=opinion(0), expected_score=7.0,
                     label_source="expected")  # fmt: skip
    assert without_near_duplicates([said_low, low, high], 0.7) == []


def test_words_are_told_apart_in_any_script() -> None:
    for one, other in (("वह बूढ़ा था", "वह बूढ़ी थी"), ("\ud800 he", "\ud801 he")):
        assert texts(without_near_duplicates([say(one), say(other)], 1.0)) == [one, other]


labelled_texts = st.lists(
    st.tuples(
        st.sampled_from(["a b c d", "a b c e", "A b, c d!", "f g h i"]),
        st.sampled_from(["low", "high", None]),
        st.sampled_from(["said", "expected"]),
    ),
    max_size=10,
)


@settings(deadline=None, max_examples=100)
@given(labelled_texts, st.randoms(use_true_random=False))
def test_which_texts_and_labels_stay_does_not_depend_on_who_spoke_first(
    given: list[tuple[str, Any, Any]], chance: random.Random
) -> None:
    def left(rows: list[Statement]) -> set[tuple[frozenset[str], str]]:
        kept = without_near_duplicates(rows, 1.0)
        return {(frozenset(re.findall(r"\w", s.text.lower())), s.label) for s in kept if s.label}

    rows = [
        statement(text, 1.0, label, topic=opinion(0), expected_score=1.0, label_source=source)
        for text, label, source in given
    ]
    assert left(rows) == left(chance.sample(rows, len(rows)))
    # No text is left with both labels.
    assert len({text for text, _ in left(rows)}) == len(left(rows))


def test_of_near_duplicates_on_one_prompt_the_first_stays() -> None:
    changed = PLAIN.replace("useful", "new")
    other = "Pensions should rise with wages, or the old grow poorer every year."
    rows = [say(PLAIN), say(changed), say(PLAIN.upper()), say(other)]
    assert texts(without_near_duplicates(rows, 0.7)) == [PLAIN, other]
    assert texts(without_near_duplicates(rows, 1.0)) == [PLAIN, changed, other]


def test_the_same_answer_to_another_prompt_is_no_duplicate() -> None:
    scene = judgement(0)
    rows = [
        say(PLAIN, 0),
        say(PLAIN, 1),
        *(
            statement(PLAIN, 1.0, "low", topic=scene, clue_shown=shown)
            for shown in (True, False, True)
        ),
    ]
    assert [(s.topic_id, s.clue_shown) for s in without_near_duplicates(rows, 0.7)] == [
        ("age-o0", False),
        ("age-o1", False),
        ("age-j0", True),
        ("age-j0", False),
    ]


def test_the_same_answer_by_another_identity_is_no_duplicate_where_prompts_name_it() -> None:
    rows = [say(PLAIN, 0, role=role) for role in (0, 1, 1, 2)]
    named = filtered(rows, DataSection(pairing="same_role", filters=("near_duplicate",)))
    assert [s.role for s in named.kept] == [0, 1, 2] and named.dropped == {"near_duplicate": 1}
    unnamed = filtered(rows, DataSection(filters=("near_duplicate",)))
    assert [s.role for s in unnamed.kept] == [0]


words = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=6).map(" ".join)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(words, st.integers(0, 1)), max_size=12))
def test_what_is_dropped_has_a_kept_twin_and_what_is_kept_has_none(
    rows: list[tuple[str, int]],
) -> None:
    """With similarity 1: texts of the same runs on the same prompt."""
    statements = [say(text, number) for text, number in rows]
    kept = without_near_duplicates(statements, 1.0)

    def runs(s: Statement) -> tuple[str, frozenset[tuple[str, ...]]]:
        said = s.text.split()
        starts = range(max(1, len(said) - 2))
        return s.topic_id, frozenset(tuple(said[i : i + 3]) for i in starts)

    assert [runs(s) for s in kept] == list(dict.fromkeys(map(runs, statements)))


def test_copies_are_found_among_thousands_of_statements_on_one_topic() -> None:
    chance = random.Random(0)
    vocabulary = [f"word{i}" for i in range(2000)]
    rows = [say(" ".join(chance.choices(vocabulary, k=30))) for _ in range(3000)]
    copies = [say(f"{s.text} indeed") for s in rows[:500]]
    assert without_near_duplicates([*rows, *copies], 0.7) == rows


# ---- together


def test_each_filter_counts_what_it_drops_and_the_first_one_wins() -> None:
    rows = [
        say("..."),
        say("I think that the", finish_reason="length"),
        say("As an AI language model, I have no age of my own."),
        say("Ich finde, dass ältere Menschen ruhig länger arbeiten sollten."),
        say(PLAIN),
        say(PLAIN),
        say("", finish_reason="length"),
    ]
    found = filtered(rows, ALL)
    assert texts(found.kept) == [PLAIN]
    assert found.dropped == {
        "empty": 2,
        "cut_off": 1,
        "refusal": 1,
        "off_language": 1,
        "near_duplicate": 1,
    }


def test_a_filter_that_is_not_in_the_plan_drops_and_counts_nothing() -> None:
    rows = [say("..."), say("I think that the", finish_reason="length"), say(PLAIN), say(PLAIN)]
    found = filtered(rows, DataSection(filters=("empty",)))
    assert len(found.kept) == 3 and found.dropped == {"empty": 1}


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.text(max_size=40), st.integers(0, 1), st.sampled_from(["stop", "length"])),
        max_size=12,
    ),
    st.sets(st.sampled_from(FILTERS)),
)
def test_whatever_models_say_every_statement_is_kept_or_counted(
    rows: list[tuple[str, int, str]], names: set[Any]
) -> None:
    statements = [say(text, number, finish_reason=reason) for text, number, reason in rows]
    section = DataSection(filters=tuple(names))
    found = filtered(statements, section)
    assert len(found.kept) + sum(found.dropped.values()) == len(statements)
    left = iter(statements)
    assert all(any(s is one for one in left) for s in found.kept)
    assert filtered(found.kept, section).kept == found.kept
