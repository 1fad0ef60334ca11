"""The figures of a data set, on numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard

from rldf_ray.dataset.card import dataset_card
from rldf_ray.dataset.origin import Origin
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, length_tells, quality_of
from rldf_ray.plan import DataSection
from rldf_ray.records import Statement
from rldf_ray.stats import Estimate
from rldf_ray.storage.hub_card import check_card
from tests.fakes import opinion, pairs_table, plan_with, statement

TOPICS = {topic.topic_id: topic for topic in (*(opinion(i) for i in range(40)),)}


def said(label: str | None, words: int, topic: int = 0, **changes: Any) -> Statement:
    score = {"high": 8.0, "low": 1.5, None: None}[label]
    text = " ".join(["word"] * words)
    return statement(text, score, label, topic=TOPICS[f"age-o{topic}"], **changes)


def quality(kept: list[Statement], **dropped: int) -> Any:
    pairs = pairs_table(kept, TOPICS, DataSection())
    number = len(kept) + sum(dropped.values())
    measured = MeasuredPairs(pairs.to_batches())
    return quality_of(number, dropped, Measured(kept), measured)  # type: ignore[arg-type]


def test_labels_scores_lengths_and_topics_are_counted() -> None:
    kept = [
        said("high", 4, topic=0),
        said("low", 2, topic=0),
        said("low", 6, topic=0),
        said("low", 6, topic=1),
        said(None, 9, topic=2),
    ]
    found = quality(kept, refusal=2)
    assert found.statements == 7 and found.dropped == {"refusal": 2}
    assert found.labels == {"age": {"high": 1, "low": 3, "unlabelled": 1}}
    assert found.scores["high"] == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert found.scores["low"] == [0, 3, 0, 0, 0, 0, 0, 0, 0, 0]
    assert (found.lengths["low"].mean, found.lengths["low"].n) == (pytest.approx(14 / 3), 3)
    assert (found.lengths["chosen"].n, found.lengths["rejected"].mean) == (2, 4)
    assert found.topics == {"high_only": 0, "low_only": 1, "both": 1}
    assert found.chosen_longer == 0.5
    # One of three low statements is shorter than the high one.
    assert found.length_auc.value == pytest.approx(1 / 3)


def test_the_highest_score_is_in_the_last_bin() -> None:
    worst = statement("a b", 10.0, "high", topic=TOPICS["age-o0"])
    assert quality([worst]).scores["high"] == [0] * 9 + [1]


def test_nothing_gives_no_figures_and_no_warning() -> None:
    found = quality([])
    assert found.length_auc is None and found.chosen_longer is None and found.warnings() == []
    assert set(found.lengths.values()) == {None}


@pytest.mark.parametrize(("topics", "tells"), [(2, False), (8, True)])
def test_the_auc_of_length_draws_topics(topics: int, tells: bool) -> None:
    """However many statements are on two topics, they do not show that length tells."""
    rows = [
        said(label, words, topic=topic)
        for topic in range(topics)
        for label, words in (("high", 9), ("low", 4))
        for _ in range(20)
    ]
    found = quality(rows).length_auc
    assert found is not None and found.value == 1.0 and length_tells(found) is tells


@pytest.mark.parametrize(
    ("auc", "tells"),
    [
        (Estimate(0.72, 0.65, 0.79, 100), True),
        (Estimate(0.30, 0.20, 0.40, 100), True),
        (Estimate(0.58, 0.52, 0.64, 900), False),
        (Estimate(0.72, 0.45, 0.99, 6), False),
        (Estimate(1.0, None, None, 2), False),
    ],
)
def test_length_tells_where_it_is_far_from_one_half_and_not_by_chance(
    auc: Estimate, tells: bool
) -> None:
    assert length_tells(auc) is tells


def test_figures_that_pool_said_and_expected_scores_say_so() -> None:
    expected: dict[str, Any] = {"expected_score": 2.5, "label_source": "expected"}
    kept = [said("high", 4), said("low", 4), said("low", 5, **expected), said(None, 9, **expected)]
    found = quality(kept)
    assert found.as_dict()["label_sources"] == {"said": 2, "expected": 1}
    (warning,) = found.as_dict()["warnings"]
    assert warning.startswith("2 of 3 labelled statements have their labels from the score the")
    assert warning in dataset_card({"pairs": 1}, found, plan_with(), Origin())
    # Of one kind of score nothing needs to be said.
    assert "label_sources" not in quality(kept[:2]).as_dict() and quality(kept[2:]).warnings() == []


def test_data_whose_label_is_in_the_length_come_with_a_warning() -> None:
    long_high = [said("high", 20 + i % 7, topic=i) for i in range(30)]
    kept = long_high + [said("low", 18 + i % 7, topic=i) for i in range(30)]
    (warning,) = quality(kept).warnings()
    assert "high-bias statements are longer" in warning and "0." in warning
    assert (
        quality(long_high + [said("low", 20 + i % 7, topic=i) for i in range(30)]).warnings() == []
    )


def test_a_warning_of_pairs_is_of_their_sides() -> None:
    rows = [said("high", 20 + i % 7, topic=i) for i in range(30)]
    kept = rows + [said("low", 9 + i % 3, topic=i) for i in range(30)]
    of_sides = quality_of(60, {}, Measured(kept), MeasuredPairs(), sides=True)
    (warning,) = of_sides.warnings()
    assert "rejected texts are longer than chosen ones" in warning and "bias" not in warning
    assert of_sides.as_dict()["sides"] is True
    # Of debates it is as earlier versions wrote it.
    assert "sides" not in quality(kept).as_dict()


def test_the_card_has_every_table_figure_and_warning_and_loads_as_configs() -> None:
    kept = [said("high", 20 + i % 7, topic=i) for i in range(30)]
    kept += [said("low", 9, topic=i) for i in range(30)] + [said("low", 9), said(None, 9)]
    found = quality(kept, refusal=2, near_duplicate=41)
    card = dataset_card({"topics": 3, "pairs": 31}, found, plan_with("name=mine"), Origin())
    _, header, body = card.split("---\n", 2)
    head = yaml.safe_load(header)
    assert {c["config_name"]: c["data_files"] for c in head["configs"]} == {
        "topics": "topics.parquet",
        "pairs": "pairs.parquet",
    }
    assert "not-for-all-audiences" in head["tags"] and "Content warning" in body
    for line in (
        "| pairs | 31 | prompt, chosen (low bias), rejected (high bias) |",
        "| refusal | 2 |",
        "| near_duplicate | 41 |",
        "| age | 30 | 31 | 1 |",
        "| high bias | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 30 | 0 |",
        "| chosen | 31 | 9.0 | 9 | 9 |",
    ):
        assert line in body.splitlines(), line
    assert found.warnings()[0] in body and "The chosen side is the longer one in 0 %" in body


@pytest.mark.parametrize(
    ("rows", "size"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M")],
)
def test_the_head_of_the_card_is_what_the_hub_takes(rows: int, size: str) -> None:
    plan = plan_with('name="a: b"', "data.language=de")
    card = DatasetCard(dataset_card({"topics": rows}, quality([said("high", 9)]), plan, Origin()))
    check_card(card, "the card")
    data = card.data.to_dict()
    assert data["pretty_name"] == "Multi-role debates, scored and paired (a: b)"
    assert (data["language"], data["size_categories"]) == ("de", size)
    assert data["configs"] == [{"config_name": "topics", "data_files": "topics.parquet"}]
    assert "license" not in data and "No licence is given" in card.text
