"""The figures of a data set, on numbers worked out by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.dataset.card import dataset_card
from rldf_ray.dataset.statistics import AUC, Measured, MeasuredPairs, clustered_auc, quality_of
from rldf_ray.plan import DataSection
from rldf_ray.records import Statement
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


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from("abcd")), max_size=30))
def test_the_auc_is_the_share_of_ordered_pairs(rows: list[tuple[bool, int, str]]) -> None:
    positive = [row for row in rows if row[0]]
    negative = [row for row in rows if not row[0]]
    found = clustered_auc(
        [value for _, value, _ in positive],
        [value for _, value, _ in negative],
        [name for _, _, name in positive],
        [name for _, _, name in negative],
    )
    if not positive or not negative:
        assert found is None
        return
    wins = sum((p[1] > n[1]) + 0.5 * (p[1] == n[1]) for p in positive for n in negative)
    assert found is not None
    assert found.value == pytest.approx(wins / (len(positive) * len(negative)))
    assert found.low is None or found.high is None or found.low <= found.value <= found.high


def test_the_interval_covers_one_half_about_as_often_as_it_says() -> None:
    """200 draws of unrelated values; 95 % of the intervals should hold one half."""
    chance = random.Random(0)
    held = 0
    for _ in range(200):
        sides = [[chance.gauss(0, 1) for _ in range(30)] for _ in range(2)]
        clusters = [[str(chance.randrange(20)) for _ in side] for side in sides]
        found = clustered_auc(sides[0], sides[1], clusters[0], clusters[1])
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 0.5 <= found.high
    assert 180 <= held <= 200


@pytest.mark.parametrize(("clusters", "tells"), [(1, False), (2, False), (30, True)])
def test_complete_separation_tells_where_there_are_clusters_enough(
    clusters: int, tells: bool
) -> None:
    names = [str(i % clusters) for i in range(30)]
    for sides in (([2.0] * 30, [1.0] * 30), ([1.0] * 30, [2.0] * 30)):
        found = clustered_auc(*sides, names, names)
        assert found is not None and found.value in (0.0, 1.0) and found.tells is tells


def test_values_that_repeat_within_a_cluster_do_not_make_the_interval_narrower() -> None:
    chance = random.Random(1)
    x, y = ([chance.gauss(0, 1) for _ in range(20)] for _ in range(2))
    xs, ys = ([f"{side}{i}" for i in range(20)] for side in "xy")
    alone = clustered_auc(x, y, xs, ys)
    copied = clustered_auc(x * 10, y * 10, xs * 10, ys * 10)
    assert alone is not None and copied is not None
    assert copied.value == pytest.approx(alone.value)
    assert copied.low == pytest.approx(alone.low) and copied.high == pytest.approx(alone.high)


@pytest.mark.parametrize(
    ("auc", "tells"),
    [
        (AUC(0.72, 0.65, 0.79, 100), True),
        (AUC(0.30, 0.20, 0.40, 100), True),
        (AUC(0.58, 0.52, 0.64, 900), False),
        (AUC(0.72, 0.45, 0.99, 6), False),
        (AUC(1.0, None, None, 2), False),
    ],
)
def test_length_tells_where_it_is_far_from_one_half_and_not_by_chance(
    auc: AUC, tells: bool
) -> None:
    assert auc.tells is tells


def test_data_whose_label_is_in_the_length_come_with_a_warning() -> None:
    long_high = [said("high", 20 + i % 7, topic=i) for i in range(30)]
    kept = long_high + [said("low", 18 + i % 7, topic=i) for i in range(30)]
    (warning,) = quality(kept).warnings()
    assert "high-bias statements are longer" in warning and "0." in warning
    assert (
        quality(long_high + [said("low", 20 + i % 7, topic=i) for i in range(30)]).warnings() == []
    )


def test_the_card_has_every_table_figure_and_warning_and_loads_as_configs() -> None:
    kept = [said("high", 20 + i % 7, topic=i) for i in range(30)]
    kept += [said("low", 9, topic=i) for i in range(30)] + [said("low", 9), said(None, 9)]
    found = quality(kept, refusal=2, near_duplicate=41)
    card = dataset_card({"topics": 3, "pairs": 31}, found, plan_with("name=mine"))
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
    card = DatasetCard(dataset_card({"topics": rows}, quality([said("high", 9)]), plan))
    check_card(card, "the card")
    data = card.data.to_dict()
    assert data["pretty_name"] == "Multi-role debates, scored and paired (a: b)"
    assert (data["language"], data["size_categories"]) == ("de", size)
    assert data["configs"] == [{"config_name": "topics", "data_files": "topics.parquet"}]
    assert "license" not in data and "No licence is given" in card.text
