"""Where a run's data come from, by what its stages recorded; and the card that says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard

from rldf_ray.dataset.card import dataset_card
from rldf_ray.dataset.origin import Origin, is_self_reflection, listed, models_of, origin_of
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, quality_of
from rldf_ray.storage.hub_card import check_card
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import opinion, plan_with, statement

HELD = {"debates": 7, "statements": 42, "failures": {}, "label_sources": {}}
TOKENS = {"tokens": {"prompt": 1, "cached": 0, "generated": 1}}
SIZES = {"topics": 3, "sft": 4, "pairs": 5, "prompts": 6}
SEATS = "debate={seats: ['openai:calm', 'openai:loud', 'openai:calm'], debaters: 3}"


def run_of(path: Path, debates: dict[str, Any], written: int = 1, **data: Any) -> RunFolder:
    folder = RunFolder(path)
    topics = {"age": {"opinion": 3, "judgement": 0, "written": written}}
    folder.finish("topics", "key", {"topics": topics})
    folder.finish("debates", "key", {**HELD, **debates})
    if data:
        folder.finish("data", "key", data)
    return folder


@pytest.mark.parametrize(
    ("debates", "data", "expected"),
    [
        (TOKENS, {}, Origin(items=7)),
        ({**TOKENS, "source": "mabrf"}, {}, Origin(kind="source", source="mabrf", items=7)),
        ({}, {}, Origin(kind="transcripts", items=7)),
        ({"debates": 0}, {"imported": "hh.jsonl"}, Origin(kind="pairs", file="hh.jsonl")),
    ],
)
def test_the_origin_is_what_the_stages_recorded(
    debates: dict[str, Any], data: dict[str, Any], expected: Origin, tmp_path: Path
) -> None:
    assert origin_of(run_of(tmp_path, debates, **data)) == expected


def test_a_file_that_is_being_imported_is_the_origin_before_it_is_recorded(tmp_path: Path) -> None:
    folder = run_of(tmp_path, {"debates": 0}, written=0)
    assert origin_of(folder, "mine.jsonl") == Origin(
        kind="pairs", file="mine.jsonl", writes_topics=False
    )


@pytest.mark.parametrize(
    ("overrides", "models", "by_itself"),
    [
        (
            [],
            "debaters: embedded; referee: embedded; topics: embedded",
            True,
        ),
        (
            ["referee.kind=trained"],
            "debaters: embedded; referee: a model fitted from embedded; topics: embedded",
            True,
        ),
        (
            ["teacher=openai:wise"],
            "debaters: openai:wise; referee: openai:wise; topics: openai:wise",
            False,
        ),
        (
            ["debate.model=vllm:/models/big"],
            "debaters: big; referee: embedded; topics: embedded",
            False,
        ),
        (
            [SEATS, "referee.model=openai:judge"],
            "debaters: openai:calm, openai:loud; referee: openai:judge; topics: embedded",
            False,
        ),
        (
            ["topics.model=openai:writer"],
            "debaters: embedded; referee: embedded; topics: openai:writer",
            False,
        ),
    ],
)
def test_everybody_who_took_part_is_named(
    overrides: list[str], models: str, by_itself: bool
) -> None:
    plan = plan_with(*overrides)
    assert listed(models_of(plan, Origin())) == models
    assert is_self_reflection(plan, Origin()) is by_itself


def test_nobody_is_named_for_what_was_given_and_no_writer_of_topics_that_were() -> None:
    plan = plan_with("teacher=openai:wise", "topics.model=openai:writer")
    assert (
        models_of(plan, Origin(kind="pairs")) == models_of(plan, Origin(kind="transcripts")) == {}
    )
    assert "topics" not in models_of(plan, Origin(writes_topics=False))
    assert not is_self_reflection(plan_with(), Origin(kind="pairs"))


def test_of_a_source_those_are_named_who_take_part_in_it() -> None:
    origin = Origin(kind="source", source="mabrf")
    plan = plan_with("debate.protocol=mabrf", "teacher=openai:wise", "referee.model=openai:judge")
    assert listed(models_of(plan, origin)) == (
        "debate: openai:wise; judge: openai:judge; topics: openai:wise"
    )
    # Settings of another version are nobody's reason to have no card.
    other = plan_with("debate={protocol: mabrf, settings: {gone: 1}}")
    assert models_of(other, origin) == {}


def card_of(origin: Origin, *overrides: str) -> DatasetCard:
    kept = [
        statement("Some do.", 1.0, "low", topic=opinion(0)),
        statement("All of them do.", 8.0, "high", topic=opinion(0)),
    ]
    made_of_sides = origin.kind in ("source", "pairs")
    quality = quality_of(2, {}, Measured(kept), MeasuredPairs(), sides=made_of_sides)
    sizes = {**SIZES, **({} if made_of_sides else {"transcripts": 2})}
    card = DatasetCard(dataset_card(sizes, quality, plan_with("name=mine", *overrides), origin))
    check_card(card, "the card")
    return card


OF_DEBATES = ("Multi-role", "debated", "low bias", "high bias", "low-bias", "referee's scores")


def test_the_card_of_debates_is_of_debates() -> None:
    card = card_of(Origin(items=7), SEATS, "referee.model=openai:judge")
    for words in (*OF_DEBATES, "language models', written while they played people"):
        assert words in card.text
    assert "debaters: openai:calm, openai:loud; referee: openai:judge" in card.text
    assert card.data.annotations_creators == card.data.language_creators == "machine-generated"


@pytest.mark.parametrize("source", ["mabrf", "evince", "persuasion"])
def test_the_card_of_a_source_is_of_its_protocol(source: str) -> None:
    plan = [f"debate.protocol={source}", "topics.judgement_share=1", "teacher=openai:wise"]
    card = card_of(Origin(kind="source", source=source), *plan)
    assert f"# Preference data of the protocol {source}" in card.text
    assert "rejected, each once" in card.text and "openai:wise" in card.text
    assert not [words for words in (*OF_DEBATES, "score |") if words in str(card)]
    assert card.data.language_creators == "machine-generated"


def test_the_card_of_given_pairs_says_nothing_of_who_made_them() -> None:
    card = card_of(Origin(kind="pairs", file="hh.jsonl"), "teacher=openai:wise")
    assert (
        "as hh.jsonl" in card.text and "prompt, chosen, rejected, as they were given" in card.text
    )
    wrong = (*OF_DEBATES, "score |", "wise", "language model", "machine-generated", "debiasing")
    assert not [words for words in wrong if words in str(card)]
    assert {"annotations_creators", "language_creators"}.isdisjoint(card.data.to_dict())


def test_the_card_of_given_statements_says_nothing_of_who_made_them() -> None:
    card = card_of(Origin(kind="transcripts", items=7), "teacher=openai:wise")
    assert "with the score that was given" in card.text and "| high bias |" in card.text
    wrong = ("Multi-role", "debated", "referee", "wise", "language model", "machine-generated")
    assert not [words for words in wrong if words in str(card)]
