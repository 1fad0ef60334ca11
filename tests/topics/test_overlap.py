"""Topics that repeat evaluation texts: eight words in a row, or the same words."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.plan import load_plan
from rldf_ray.records import Topic
from rldf_ray.topics.overlap import NOTHING_EVALUATED, EvaluationTexts, overlap_counts, topic_texts
from rldf_ray.topics.writer import TopicCounts, TopicWriter, by_split, without_held_out
from tests.fakes import RecordingModel, opinion, plan_with

ITEM = (
    "At the town museum the grandfather and the grandson each tried to hire an audio guide.",
    "Who was confused by the touch screen?",
)
EVALUATED = EvaluationTexts.of([ITEM])


def topic(text: str, clue: str | None = None, question: str | None = None) -> Topic:
    return Topic(
        topic_id="t",
        bias_type="age",
        kind="judgement",
        text=text,
        origin="seed",
        split="debate",
        clue=clue,
        question=question,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Grandfather and the grandson each tried to BUY, quietly, a boat", None),
        ("There the grandfather and the grandson each tried to hire a boat", "ngram"),
        ("THE GRANDFATHER and - the grandson; each tried to hire!", "ngram"),
        ("Who, by the touch screen, was confused", "same_words"),
        ("Who was confused?", None),
        ("", None),
    ],
)
def test_overlap(text: str, found: str | None) -> None:
    assert EVALUATED.overlap(topic(text)) == found


def test_clue_and_question_count_and_runs_do_not_cross_them() -> None:
    scene = "The two of them stood there"
    clue = "In the town museum the grandfather and the neighbour met."
    assert EVALUATED.overlap(topic(scene, clue=clue)) is None
    clue = "Later, at the town museum the grandfather and the grandson met."
    assert EVALUATED.overlap(topic(scene, clue=clue)) == "ngram"
    # Four words end the clue and four begin the question: together they would be eight.
    split = topic(scene, clue="At the town museum", question="the grandfather and the?")
    assert EVALUATED.overlap(split) is None


def test_the_same_words_count_in_any_of_several_texts_and_not_in_details() -> None:
    asked = "By the touch screen: who was confused?"
    assert EVALUATED.overlap_of("You are kind.", asked) == "same_words"
    assert EVALUATED.overlap_of(asked, "Why?", "Because.") == "same_words"
    assert EVALUATED.overlap_of("You are kind.", details=(asked, None)) is None


@given(st.lists(st.text(max_size=60), max_size=4))
def test_nothing_overlaps_with_nothing_and_everything_with_itself(texts: list[str]) -> None:
    assert overlap_counts(map(topic, texts), NOTHING_EVALUATED) == {"ngram": 0, "same_words": 0}
    own = EvaluationTexts.of([texts])
    assert all(own.overlap(topic(text)) for text in texts)


async def test_what_overlaps_is_dropped_and_counted() -> None:
    plan = plan_with()
    free, _ = await TopicWriter(plan, RecordingModel()).gather()
    seeds = [found for found in free if found.origin == "seed" and found.kind == "judgement"]
    evaluated = EvaluationTexts.of([(seeds[0].text,), (seeds[1].question or "",)])
    kept, counts = await TopicWriter(plan, RecordingModel(), evaluated).gather()
    assert seeds[0].text not in {found.text for found in kept}
    dropped = counts[seeds[0].bias_type].overlaps_dropped
    assert sum(dropped.values()) >= 1
    assert overlap_counts(kept, evaluated)["ngram"] == 0


def test_a_topic_for_training_that_repeats_a_held_out_prompt_is_dropped() -> None:
    asked = "Should police officers live in the district that they serve"
    topics = [
        opinion(1, text=asked, split="eval"),
        opinion(2, "profession", text=f"{asked.replace('serve', 'patrol')}"),
        opinion(3, "profession", text="Should police officers live where they work", split="ppo"),
        opinion(4, "profession", text=asked, split="eval"),
        opinion(5, origin="written", split="ppo", text=" ".join(reversed(asked.split()))),
    ]
    counts = {"age": TopicCounts(seed=1, written=1), "profession": TopicCounts(seed=3)}
    assert without_held_out(topics, counts) == [topics[0], topics[2], topics[3]]
    assert counts == {
        "age": TopicCounts(seed=1, written=0, overlaps_dropped=Counter(same_words=1)),
        "profession": TopicCounts(seed=2, overlaps_dropped=Counter(ngram=1)),
    }


async def test_no_topic_for_training_repeats_one_that_is_held_out() -> None:
    """Two of the seeds do, in different bias types, where they are split as `opinions` splits."""
    plan = load_plan("opinions", ["topics.per_bias_type=60", "topics.seeds_per_bias_type=null"])
    topics, counts = await TopicWriter(plan, RecordingModel()).gather()
    trained = [topic for topic in topics if topic.split != "eval"]
    found = overlap_counts(trained, topic_texts(by_split(topics, "eval")))
    assert found == {"ngram": 0, "same_words": 0}
    assert counts["profession"].overlaps_dropped == {"ngram": 1}
