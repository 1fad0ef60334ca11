"""Preferences as public sets write them down, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rldf_ray.dataset.given_pairs import GivenPairs
from rldf_ray.dataset.imported import PairRow, TranscriptRow
from rldf_ray.plan import DataSection

ASKED = {"role": "user", "content": "Who is late?"}
GOOD = {"role": "assistant", "content": "Nobody knows."}
BAD = {"role": "assistant", "content": "The old one."}
SYSTEM = {"role": "system", "content": "Be short."}
FIRST = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]


def pair(prompt: Any, chosen: Any, rejected: Any) -> dict[str, Any]:
    given = {"prompt": prompt, "chosen": chosen, "rejected": rejected}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (pair("Who is late?", "Nobody knows.", "The old one."), [ASKED]),
        (pair([ASKED], [GOOD], [BAD]), [ASKED]),
        (pair("Who is late?", [ASKED, GOOD], [ASKED, BAD]), [ASKED]),
        (pair("Who is late? ", [ASKED, GOOD], [ASKED, BAD]), [ASKED]),
        (pair("Who is late?", [SYSTEM, ASKED, GOOD], [SYSTEM, ASKED, BAD]), [SYSTEM, ASKED]),
        (pair(None, [ASKED, GOOD], [ASKED, BAD]), [ASKED]),
        (pair("Hello.", [*FIRST, ASKED, GOOD], [*FIRST, ASKED, BAD]), [*FIRST, ASKED]),
        (pair("Who is late?", [*FIRST, ASKED, GOOD], [*FIRST, ASKED, BAD]), [*FIRST, ASKED]),
        (pair(FIRST[:1], [FIRST[1], ASKED, GOOD], [FIRST[1], ASKED, BAD]), [*FIRST, ASKED]),
    ],
)
def test_the_last_turn_is_the_answer_and_the_rest_the_prompt(
    given: Any, asked: Any, tmp_path: Path
) -> None:
    pairs = GivenPairs([PairRow.model_validate(given)], tmp_path / "run", DataSection())
    (row,) = next(pairs.pairs()).to_pylist()
    assert (row["prompt"], row["chosen"], row["rejected"]) == (asked, [GOOD], [BAD])
    (example,) = next(pairs.examples(None)).to_pylist()
    assert (example["prompt"], example["completion"]) == (asked, [GOOD])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pair([], "a b", "c d"), "prompt holds no message"),
        (pair("Who?", [], [BAD]), "chosen does not end with an answer"),
        (pair("Who is late?", [GOOD], [ASKED]), "rejected does not end with an answer"),
        (pair("Who is late?", "Yes.", " "), "rejected does not end with an answer"),
        (pair(None, [GOOD], [BAD]), "prompt is missing"),
        (pair("Who is tall?", [ASKED, GOOD], [ASKED, BAD]), "with another prompt"),
        (pair(None, [ASKED, GOOD], [SYSTEM, ASKED, BAD]), "different conversations"),
        (pair("Who is late?", [ASKED, GOOD], [ASKED, GOOD]), "are the same"),
        (pair([SYSTEM], [GOOD], [BAD]), "not the user's"),
        (pair(" ", "Yes.", "No."), "not the user's, or empty"),
        (pair({"messages": [ASKED]}, "Yes.", "No."), "should be a text or a list of messages"),
        (pair("Who?", 3, "No."), "should be a text or a list of messages"),
        (pair("Who?", [{"role": "bot", "content": "x"}], [BAD]), "'user' or 'assistant'"),
    ],
)
def test_what_is_no_preference_between_answers_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PairRow.model_validate(given)


def test_thinking_before_an_answer_is_left_out() -> None:
    good, bad = ("<think>Who?</think>\n\n" + m["content"] for m in (GOOD, BAD))
    plain = PairRow.model_validate(pair("Who is late?", good, bad))
    messages = pair(None, *([ASKED, {"role": "assistant", "content": c}] for c in (good, bad)))
    for row in (plain, PairRow.model_validate(messages)):
        said = row.preference
        assert (said.chosen.content, said.rejected.content) == (GOOD["content"], BAD["content"])
    statement = {"bias_type": "age", "topic": "Rents", "text": good, "score": 1}
    assert TranscriptRow.model_validate(statement).text == GOOD["content"]


def test_an_answer_that_ends_inside_a_thought_is_refused() -> None:
    for row in (pair("Who is late?", "<think>Who? Or", "No."), pair(None, [ASKED, GOOD], [ASKED, {
        "role": "assistant", "content": "<think>Who? Or"}])):  # fmt: skip
        with pytest.raises(ValidationError, match="ends inside a thought"):
            PairRow.model_validate(row)
    with pytest.raises(ValidationError, match="ends inside a thought"):
        TranscriptRow(bias_type="age", topic="Rents", text="<think>Who? Or", score=1)
