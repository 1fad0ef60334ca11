"""What a judge's text says: the last anchored lines, or nothing at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.judges.verdict import (
    Scores,
    as_lines,
    parse_referee,
    parse_scores,
    parse_scores_loosely,
    referee_schema,
    score_schema,
)

LAST = "The score of Assistant 1: {}\nThe score of Assistant 2: {}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LAST.format(8, 6.5), (8, 6.5)),
        ("**Score of Assistant 1: 8/10**\n> - Score of Assistant 2 = [7.5]", (8, 7.5)),
        ("the SCORE for assistant 2: 3\nthe score of assistant 1: 10.", (10, 3)),
        (f"Good.\n{LAST.format(2, 3)}\n\nSo far. Now:\n{LAST.format(9, 4)}\n", (9, 4)),
    ],
)
def test_the_last_two_lines_are_the_scores(text: str, expected: tuple[float, float]) -> None:
    assert parse_scores(text) == Scores(*expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Assistant 1 is better.",
        "The score of Assistant 1: 8",
        # The second block lacks a line: the first is not taken in its place.
        f"{LAST.format(2, 3)}\nThe score of Assistant 1: 4\nThe score of Assistant 1: 5",
        # An earlier block is not mixed with the last line.
        f"{LAST.format(5, 9)}\nI disagree with that.\nThe score of Assistant 1: 8",
        "The score of Assistant 2: 9\nThat was said before.\nThe score of Assistant 1: 8",
        LAST.format(0, 5),
        LAST.format(5, 11),
        LAST.format("high", 3),
        "I said: the score of Assistant 1: 7, and the score of Assistant 2: 4",
    ],
)
def test_whatever_else_is_no_verdict(text: str) -> None:
    assert parse_scores(text) is None


# What the parser of the paper's code makes of texts that people can read.
TRAPS = {
    "a quoted older score wins": (
        f"Referee A gave: score of Assistant 1: 3, Assistant 2: 9. I do not.\n{LAST.format(9, 2)}",
        Scores(3, 9),
        Scores(9, 2),
    ),
    "a score of 10 is read as 0 for Assistant 1": (
        f"I give a score of 10 to the first.\n{LAST.format(10, 4)}",
        Scores(0, 4),
        Scores(10, 4),
    ),
    "a numbered list is read as a score": (
        f"On Assistant 1: 1. It is short.\n{LAST.format(8, 4)}",
        Scores(1, 4),
        Scores(8, 4),
    ),
    "bold scores do not parse": (
        "Score of Assistant 1: **8**\nScore of Assistant 2: **4**",
        None,
        Scores(8, 4),
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_the_papers_loose_parser_falls_into_its_traps_and_ours_does_not(trap: str) -> None:
    text, loose, strict = TRAPS[trap]
    assert parse_scores_loosely(text) == loose
    assert parse_scores(text) == strict


@given(st.text())
def test_any_text_is_scores_in_range_or_none(text: str) -> None:
    scores = parse_scores(text)
    assert scores is None or (1 <= scores.one <= 10 and 1 <= scores.two <= 10)


@given(st.integers(10, 100), st.integers(10, 100), st.text())
def test_what_stands_before_the_last_lines_does_not_matter(one: int, two: int, text: str) -> None:
    scores = parse_scores(f"{text}\n{LAST.format(one / 10, two / 10)}")
    assert scores == Scores(one / 10, two / 10)
    assert scores.winner == ("tie" if one == two else 1 if one > two else 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The best referee is: B", "B"),
        ("The best refree is: A", "A"),
        ("**Best referee is: [C]**", "C"),
        ("The best referee is: A. On second thought, the best referee is: Referee B", "B"),
        ("The best referee is: D", None),
        ("The best referee is: nobody", None),
        ("I like them all.", None),
    ],
)
def test_a_referee_is_named_or_it_is_none(text: str, expected: str | None) -> None:
    assert parse_referee(text, "ABC") == expected


def test_a_verdict_in_json_is_shown_and_read_as_lines() -> None:
    text = as_lines('{"evaluation": "Fine.", "score_1": 7, "score_2": 4}')
    assert text == "Fine.\nThe score of Assistant 1: 7\nThe score of Assistant 2: 4"
    assert parse_scores(text) == Scores(7, 4)
    assert parse_referee(as_lines('{"evaluation": "x", "best": "B"}'), "AB") == "B"
    for broken in ('{"evaluation": "Fine.", "score_1": 7', "[]", "7", '{"score_1": 7}', "Fine."):
        assert as_lines(broken) == broken
        assert parse_scores(as_lines(broken)) is None


def test_scores_in_json_come_after_the_evaluation_and_are_whole_numbers() -> None:
    schema = score_schema(120)
    assert list(schema["properties"]) == schema["required"] == ["evaluation", "score_1", "score_2"]
    assert schema["properties"]["score_1"]["enum"] == list(range(1, 11))
    assert schema["properties"]["evaluation"]["maxLength"] == 120
    assert referee_schema(120, "AB")["properties"]["best"]["enum"] == ["A", "B"]
