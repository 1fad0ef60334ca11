"""Low-bias statements are preferred to high-bias ones on the same prompt, within limits."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.plan import DataSection
from rldf_ray.records import Statement
from rldf_ray.topics.bias_type import bias_type
from tests.dataset.preference_rows import (
    OPINION,
    OTHER,
    SAME_ROLE,
    SAME_TOPIC,
    SCENE,
    TOPICS,
    high,
    low,
    pairs_of,
    quick,
    sections,
    transcripts,
)
from tests.fakes import judgement, opinion, pairs_table, statement


def test_a_pair_is_chosen_low_and_rejected_high_on_one_prompt() -> None:
    rows = pairs_table([high("bad", 8.0), low("good", 1.0)], TOPICS, SAME_TOPIC).to_pylist()
    assert rows == [
        {
            "prompt": prompt_of(OPINION, False),
            "chosen": [{"role": "assistant", "content": "good"}],
            "rejected": [{"role": "assistant", "content": "bad"}],
            "bias_type": "age",
            "topic_id": OPINION.topic_id,
            "kind": "opinion",
            "clue_shown": False,
            "chosen_score": 1.0,
            "rejected_score": 8.0,
        }
    ]


def test_every_low_statement_pairs_with_every_high_one_of_its_topic() -> None:
    rows = [low("l1", 1.0), low("l2", 2.0), high("h1", 6.0), high("h2", 9.0, round=3, role=2)]
    assert sorted(pairs_of(rows)) == sorted(itertools.product(["l1", "l2"], ["h1", "h2"]))


def test_no_pair_crosses_topics_even_of_one_type() -> None:
    assert pairs_of([low("a", topic=OPINION), high("b", topic=OTHER)]) == []


def test_no_pair_crosses_the_clue() -> None:
    shown, hidden = (
        [
            low(f"l{clue}", 1.0, SCENE, clue_shown=clue),
            high(f"h{clue}", 9.0, SCENE, clue_shown=clue),
        ]
        for clue in (True, False)
    )
    assert pairs_of([shown[0], hidden[1]]) == pairs_of([hidden[0], shown[1]]) == []
    table = pairs_table([*shown, *hidden], TOPICS, SAME_TOPIC).to_pylist()
    assert len(table) == 2
    for row in table:
        assert row["prompt"] == prompt_of(SCENE, row["clue_shown"])
        assert row["chosen"][0]["content"] == f"l{row['clue_shown']}"


def test_two_debates_of_one_topic_may_pair() -> None:
    assert pairs_of([low("a", debate_id="d-0"), high("b", debate_id="d-1")]) == [("a", "b")]


def test_statements_without_a_label_are_in_no_pair() -> None:
    failed = statement("failed", None, None, topic=OPINION, failure="did not parse")
    unlabelled = statement("equal", 5.0, None, topic=OPINION, failure="no label")
    assert pairs_of([failed, unlabelled, low("a"), high("b")]) == [("a", "b")]


def test_under_same_role_both_statements_have_the_same_identity() -> None:
    rows = [low("l0", role=0), high("h0", role=0), high("h1", role=1), low("l2", role=2)]
    assert pairs_of(rows, SAME_ROLE) == [("l0", "h0")]


@pytest.mark.parametrize(("min_gap", "kept"), [(0, 3), (3, 2), (3.5, 1), (8, 1), (8.5, 0)])
def test_the_gap_of_a_pair_is_at_least_the_plans(min_gap: float, kept: int) -> None:
    rows = [low("l", 1.0), high("gap 2.5", 3.5), high("gap 3", 4.0), high("gap 8", 9.0)]
    assert len(pairs_of(rows, DataSection(min_gap=min_gap))) == kept


def test_labels_relative_to_their_rounds_pair_only_in_the_order_of_their_scores() -> None:
    """Low in a biased round can score above high in a mild one."""
    expected: dict[str, Any] = {"label_source": "expected"}
    rows = [
        low("low of round 2", 0.0, expected_score=6.0, **expected),
        high("high of round 1", 0.0, expected_score=2.0, **expected),
        high("high of round 2", 0.0, expected_score=8.0, **expected),
        low("equal", 0.0, expected_score=8.0, **expected),
    ]
    assert pairs_of(rows) == [("low of round 2", "high of round 2")]


def _expected(make: Any, text: str, score: float, **changes: Any) -> Statement:
    statement: Statement = make(text, 0.0, expected_score=score, label_source="expected", **changes)
    return statement


def test_said_and_expected_scores_are_never_two_sides_of_a_pair() -> None:
    said = [low("said low", 0.0), high("said high", 9.0)]
    expected = [_expected(low, "expected low", 1.0), _expected(high, "expected high", 4.0)]
    assert pairs_of([said[0], expected[1]]) == pairs_of([expected[0], said[1]]) == []
    assert pairs_of([*said, *expected]) == [
        ("expected low", "expected high"),
        ("said low", "said high"),
    ]


def test_pairs_by_said_scores_come_last_however_wide_their_gaps() -> None:
    scene: dict[str, Any] = {"topic": SCENE, "clue_shown": True}
    rows = [
        low("said low", 0.0),
        high("said high", 10.0),
        *(_expected(low, f"low {i}", i / 10) for i in range(2)),
        _expected(high, "high", 4.0),
    ]
    for limits in (
        {"pairs_per_topic": 2},
        {"max_pairs": 2},
        {"pairs_per_topic": 2, "max_pairs": 3},
    ):
        assert pairs_of(rows, DataSection(**limits)) == [("low 0", "high"), ("low 1", "high")]
    # One limit is of a scene with its clue and without.
    told = [
        low("l", 0.0, **scene),
        high("h", 10.0, **scene),
        _expected(low, "low", 0.0, topic=SCENE),
        _expected(high, "high", 4.0, topic=SCENE),
    ]
    assert pairs_of(told, DataSection(pairs_per_topic=1)) == [("low", "high")]


def test_a_text_is_not_preferred_to_itself() -> None:
    assert pairs_of([low("same"), high("same"), high("other")]) == [("same", "other")]


def test_of_each_topic_the_widest_pairs_are_kept() -> None:
    rows = [
        *(low(f"l{i}", float(i)) for i in range(3)),
        high("h5", 5.0),
        high("h9", 9.0),
        low("other low", 2.0, OTHER),
        high("other high", 4.0, OTHER),
    ]
    found = pairs_of(rows, DataSection(pairs_per_topic=2))
    assert found == [("l0", "h9"), ("l1", "h9"), ("other low", "other high")]


def test_a_topic_with_its_clue_and_without_has_one_limit_on_pairs() -> None:
    rows = [
        make(f"{make.__name__} {clue}", topic=SCENE, clue_shown=clue)
        for make in (low, high)
        for clue in (True, False)
    ]
    assert len(pairs_of(rows)) == 2
    assert len(pairs_of(rows, DataSection(pairs_per_topic=1))) == 1


@quick
@given(transcripts(), sections)
def test_every_pair_keeps_all_rules_at_once(rows: list[Statement], section: DataSection) -> None:
    found = pairs_table(rows, TOPICS, section).to_pylist()
    for pair in found:
        assert pair["chosen"] != pair["rejected"]
        assert pair["rejected_score"] - pair["chosen_score"] >= max(section.min_gap, 1)
        assert pair["chosen_score"] <= 3 < pair["rejected_score"]

        def spoke(text: str, label: str, score: float, pair: dict[str, Any] = pair) -> set[int]:
            return {
                s.role
                for s in rows
                if (s.text, s.label, s.score) == (text, label, score)
                and (s.topic_id, s.clue_shown) == (pair["topic_id"], pair["clue_shown"])
            }

        chosen = spoke(pair["chosen"][0]["content"], "low", pair["chosen_score"])
        rejected = spoke(pair["rejected"][0]["content"], "high", pair["rejected_score"])
        assert chosen and rejected
        assert section.pairing == "same_topic" or chosen & rejected
        topic = TOPICS[pair["topic_id"]]
        prompts = [prompt_of(topic, pair["clue_shown"])]
        if section.pairing == "same_role":
            identities = bias_type(topic.bias_type).identities
            both = sorted(chosen & rejected)
            prompts = [prompt_of(topic, pair["clue_shown"], identities[i]) for i in both]
        assert pair["prompt"] in prompts
    if section.pairs_per_topic is not None:
        most = Counter(pair["topic_id"] for pair in found)
        assert max(most.values(), default=0) <= section.pairs_per_topic


@quick
@given(transcripts(), sections, st.integers(1, 12))
def test_max_pairs_takes_as_many_of_each_kind_as_there_are(
    rows: list[Statement], section: DataSection, most: int
) -> None:
    def kinds(pairs: list[dict[str, Any]]) -> Counter[tuple[str, bool]]:
        return Counter((pair["kind"], pair["clue_shown"]) for pair in pairs)

    whole = pairs_table(rows, TOPICS, section).to_pylist()
    limited = section.model_copy(update={"max_pairs": most})
    found = pairs_table(rows, TOPICS, limited).to_pylist()
    assert len(found) == min(most, len(whole))
    assert all(pair in whole for pair in found)
    taken, there = kinds(found), kinds(whole)
    assert all(taken[kind] >= min(there[kind], max(taken.values()) - 1) for kind in there)


@quick
@given(transcripts())
def test_without_limits_every_allowed_pair_is_there(rows: list[Statement]) -> None:
    expected = [
        (one.text, other.text)
        for one, other in itertools.product(rows, rows)
        if (one.label, other.label) == ("low", "high")
        and (one.topic_id, one.clue_shown) == (other.topic_id, other.clue_shown)
        and one.text != other.text
    ]
    assert sorted(pairs_of(rows)) == sorted(expected)


def test_max_pairs_takes_topics_in_turn_and_the_widest_gaps_first() -> None:
    topics = {t.topic_id: t for t in (opinion(1), opinion(2))}
    one, other = topics.values()
    statements = [
        *(statement(f"low {i}", float(i), "low", topic=one) for i in range(3)),
        *(statement(f"high {i}", 7.0 + i, "high", topic=one) for i in range(3)),
        statement("calm", 1.0, "low", topic=other),
        statement("loud", 5.0, "high", topic=other),
    ]
    section = DataSection(filters=(), max_pairs=3)
    rows = pairs_table(statements, topics, section).to_pylist()
    assert [row["topic_id"] for row in rows] == [one.topic_id, one.topic_id, other.topic_id]
    whole = pairs_table(statements, topics, DataSection(filters=())).to_pylist()
    assert len(whole) == 10
    assert [row for row in whole if row in rows] == rows
    assert rows[0]["rejected_score"] - rows[0]["chosen_score"] == 9.0
    assert pairs_table(statements, topics, DataSection(filters=(), max_pairs=99)).num_rows == 10


def test_max_pairs_takes_as_many_with_the_clue_as_without_from_however_few_scenes() -> None:
    scenes = {scene.topic_id: scene for scene in (judgement(i) for i in range(3))}
    statements = [
        statement(f"{name} {i}", score, label, topic=scene, clue_shown=shown)
        for place, scene in enumerate(scenes.values())
        for shown in ((False, True) if place == 0 else (False,))
        for name, score, label in (("chosen", 0.0, "low"), ("rejected", 9.0, "high"))
        for i in range(3)
    ]
    section = DataSection(filters=(), max_pairs=12)
    table = pairs_table(statements, scenes, section)
    assert Counter(table["clue_shown"].to_pylist()) == {False: 6, True: 6}


def test_max_pairs_takes_scenes_with_and_without_their_clue_in_turn() -> None:
    scene = judgement(0)
    statements = [
        statement(f"{name} {i}", score, label, topic=scene, clue_shown=shown)
        for shown, gap in ((False, 9.0), (True, 2.0))
        for name, score, label in (("chosen", 0.0, "low"), ("rejected", gap, "high"))
        for i in range(3)
    ]
    section = DataSection(filters=(), max_pairs=4)
    table = pairs_table(statements, {scene.topic_id: scene}, section)
    assert Counter(table["clue_shown"].to_pylist()) == {False: 2, True: 2}
