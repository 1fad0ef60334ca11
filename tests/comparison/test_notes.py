"""Sentences under the tables."""

from __future__ import annotations

import pytest

from rldf_ray.comparison.costs import Answering, Cost
from rldf_ray.comparison.earlier import every_topic, topics_note
from rldf_ray.comparison.notes import (
    cut_off_notes,
    notes_of,
    overlap_notes,
    rewriting_notes,
    unequal_notes,
)
from rldf_ray.comparison.settings import Settings
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.records import Split, Topic
from tests.fakes import plan_with


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


def test_whose_thoughts_were_cut_off_is_said_for_each_way_of_asking() -> None:
    cut = {"rank": Answering(200, 1, 0.25), "letter": Answering(210, 1, 0.5)}
    costs = {
        "default": Cost(answering={"rank": Answering()}),
        "cot": Cost(answering=cut),
        "fair_thinking": Cost(answering={"rank": Answering(9, 1, 0.0)}),
    }
    titles = {"default": "Default", "cot": "CoT", "fair_thinking": "FairThinking"}
    (note,) = cut_off_notes(costs, titles)
    assert note.startswith("CoT: ") and note.endswith("cut off 25 % (rank) and 50 % (letter).")


def test_thoughts_that_an_earlier_version_did_not_count_are_not_known() -> None:
    facts = {"tokens": {"generated": 80}, "think_seconds": 3.0, "answer_seconds": 1.0}
    assert Answering.of(facts, 8).cut_off is None
    counted = facts | {"thoughts": {"replies": 8, "cut_off": 2}}
    assert Answering.of(counted, 8).cut_off == 0.25
    assert Answering.mean([Answering.of(facts, 8), Answering.of(counted, 8)]).cut_off == 0.25


def test_how_often_a_loop_rewrote_is_said() -> None:
    titles = {"mabrf": "MABRF", "cot": "CoT"}
    counts: dict[tuple[str, Mode], dict[str, int]] = {
        ("mabrf", "rank"): {"replies": 99, "loops": 40, "rewritten": 3, "no_verdict": 1},
        ("cot", "rank"): {"replies": 40, "cut_off": 0},
        ("mabrf", "letter"): {},
    }
    (note,) = rewriting_notes(counts, titles)
    assert note == "MABRF (rank): rewritten 3 of 40; verdicts that did not parse: 1."


def test_rows_on_different_topics_are_said_and_on_the_same_are_not() -> None:
    one, other = [topic("A queue.", "debate")], [topic("A bus.", "debate")]
    titles = {"SFT": "debates/a", "RLDF": "debates/a", "RLAIF": "debates/b"}
    (note,) = topics_note(titles, {"debates/a": one, "debates/b": other})
    assert note.startswith("Rows are trained on different topics") and ": SFT, RLDF; RLAIF." in note
    assert topics_note(titles, {"debates/a": one, "debates/b": list(one)}) == []
    assert every_topic({"debates/a": one, "debates/b": other}) == [*one, *other]
    assert every_topic({"debates/a": one, "debates/b": list(one)}) == one
    assert every_topic({}) == topics_note({}, {}) == []


def test_whether_other_seeds_are_spoken_of_is_said() -> None:
    plan = plan_with()
    items = load_items(plan)
    once, thrice = (
        " ".join(notes_of(plan, Settings(repeats=repeats), items, None)) for repeats in (1, 3)
    )
    assert "one trained model of each row is compared" in once and "Over seeds" not in once
    assert "t-interval of the 3 repeats' differences" in thrice
    assert "whose seeds they hold fixed" in once and "whose seeds they hold fixed" in thrice


def test_the_note_on_p_values_says_what_holms_family_is() -> None:
    plan = plan_with()
    text = " ".join(notes_of(plan, Settings(modes=("rank", "letter")), load_items(plan), None))
    assert "all comparisons of one kind of items in one way of asking, or of one measure" in text


@pytest.mark.parametrize("judgements", ["scored", "checked", "matched"])
def test_marks_that_tell_debaters_the_record_are_said(judgements: str) -> None:
    def notes(*changes: str, pairs: int | None = 24) -> str:
        chosen = ["debate.answers=chosen"] if judgements == "matched" else []
        plan = plan_with(f"referee.judgements={judgements}", *chosen, *changes)
        return " ".join(notes_of(plan, Settings(), load_items(plan), pairs))

    told = "read marks that say which answers agree with the record"
    assert (told in notes()) == (judgements != "scored")
    assert told not in notes("debate.rounds=1")
    assert told not in notes("debate.show_marks=false")
    assert told not in notes(pairs=None), "nobody learned from debates"
