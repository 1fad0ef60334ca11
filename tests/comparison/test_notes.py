"""Sentences under the tables."""

from __future__ import annotations

from rldf_ray.comparison.costs import Cost
from rldf_ray.comparison.notes import overlap_notes, unequal_notes
from rldf_ray.records import Split, Topic


def topic(text: str, split: Split, question: str | None = None) -> Topic:
    return Topic(
        topic_id=text,
        bias_type="age",
        kind="judgement",
        text=text,
        origin="seed",
        split=split,
        question=question,
    )


def test_training_topics_are_held_against_the_held_out_prompts_too() -> None:
    question = "Who of the two was confused by the touch screen?"
    topics = [
        topic("A queue at the museum.", "debate", question),
        topic("A queue at the station.", "ppo"),
        topic("The station at a queue", "eval", question),
    ]
    (note,) = overlap_notes(topics, {}, {})
    assert note == (
        "Of 2 training topics 1 have eight words in a row in common with an item of the held-out "
        "topics, and 1 the same words."
    )
    assert list(overlap_notes(topics[:2], {}, {})) == []


def test_rows_that_were_given_more_or_less_are_said() -> None:
    costs = {
        "default": Cost(),
        "sft": Cost(statements=100, sft_rows=50, sft_steps=30, generated_tokens=1000),
        "rldf_teacher": Cost(
            statements=100, sft_rows=50, sft_steps=30, pairs=40, episodes=64, generated_tokens=2000
        ),
        "rlaif": Cost(
            statements=104, sft_rows=60, sft_steps=30, pairs=40, episodes=64, generated_tokens=2080
        ),
    }
    titles = {"default": "Default", "sft": "SFT", "rldf_teacher": "RLDF", "rlaif": "RLAIF"}
    assert list(unequal_notes(costs, titles)) == [
        "SFT differs from RLDF in size, too: 1000 generated tokens (-50 %).",
        "RLAIF differs from RLDF in size, too: 60 SFT rows (+20 %).",
    ]
    assert list(unequal_notes({"default": Cost()}, titles)) == []
