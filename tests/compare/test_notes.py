"""Sentences under the tables."""

from __future__ import annotations

from rldf_ray.compare.notes import overlap_notes
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
