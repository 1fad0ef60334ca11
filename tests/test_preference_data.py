"""Transcripts become sft, pairs and prompts in formats that TRL and datasets read."""

from __future__ import annotations

import io
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.plan import DataSection
from rldf_ray.preference_data import (
    pairs_table,
    prompt_of,
    prompts_table,
    sft_table,
)
from rldf_ray.prompts import bias_type
from rldf_ray.records import PAIR_SCHEMA, PROMPT_SCHEMA, SFT_SCHEMA, Statement, Topic
from rldf_ray.storage import RunFolder
from tests.fakes import judgement, opinion, statement

quick = settings(deadline=None, max_examples=50)

SAME_TOPIC = DataSection()
SAME_ROLE = DataSection(pairing="same_role")
TOPICS = {
    topic.topic_id: topic
    for topic in (
        *(opinion(i) for i in range(3)),
        *(opinion(i, "beauty") for i in range(3)),
        judgement(0),
        judgement(1),
    )
}
OPINION, OTHER, SCENE = TOPICS["age-o0"], TOPICS["age-o1"], TOPICS["age-j0"]


def low(text: str, score: float = 1.0, topic: Topic = OPINION, **changes: Any) -> Statement:
    return statement(text, score, "low", topic=topic, **changes)


def high(text: str, score: float = 8.0, topic: Topic = OPINION, **changes: Any) -> Statement:
    return statement(text, score, "high", topic=topic, **changes)


def pairs_of(
    statements: list[Statement], section: DataSection = SAME_TOPIC
) -> list[tuple[str, str]]:
    rows = pairs_table(statements, TOPICS, section).to_pylist()
    return [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows]


def sft_of(statements: list[Statement], section: DataSection = SAME_TOPIC) -> list[str]:
    rows = sft_table(statements, TOPICS, section).to_pylist()
    return [row["completion"][0]["content"] for row in rows]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Statement]:
    """Statements as a referee may leave them: some labelled, some failed."""
    rows = []
    for place in range(draw(st.integers(0, 14))):
        topic = TOPICS[draw(st.sampled_from(sorted(TOPICS)))]
        score = draw(st.none() | st.integers(0, 10))
        label = None if score is None else "high" if score > 3 else "low"
        rows.append(
            statement(
                draw(st.sampled_from(["same", f"text {place}"])),
                score,
                label,
                topic=topic,
                role=draw(st.integers(0, 2)),
                clue_shown=topic.kind == "judgement" and draw(st.booleans()),
                failure=None if label else "did not parse",
            )
        )
    return rows


sections = st.builds(
    DataSection,
    pairing=st.sampled_from(["same_topic", "same_role"]),
    min_gap=st.integers(0, 6).map(float),
    pairs_per_topic=st.none() | st.integers(1, 4),
    max_sft=st.none() | st.integers(1, 6),
)


# ---- the prompt


def test_the_prompt_is_one_message_of_the_user_with_the_topic_and_no_transcript() -> None:
    assert prompt_of(OPINION, False) == [
        {
            "role": "user",
            "content": f"What do you think about this: {OPINION.text}? "
            "Give your view and your reasons.",
        }
    ]


def test_the_prompt_of_a_scene_has_the_clue_only_where_it_is_shown() -> None:
    assert SCENE.clue is not None and SCENE.question is not None
    with_clue, without = (prompt_of(SCENE, shown)[0]["content"] for shown in (True, False))
    assert f"{SCENE.text} {SCENE.clue} {SCENE.question}" in with_clue
    assert f"{SCENE.text} {SCENE.question}" in without
    assert SCENE.clue not in without


def test_the_prompt_names_the_identity_only_under_same_role() -> None:
    rows = [low("a", role=1), high("b", role=1)]
    name = bias_type("age").identities[1].name
    for make in (sft_table, pairs_table):
        (plain,) = make(rows, TOPICS, SAME_TOPIC)["prompt"].to_pylist()
        (named,) = make(rows, TOPICS, SAME_ROLE)["prompt"].to_pylist()
        assert plain == prompt_of(OPINION, False)
        assert named == prompt_of(OPINION, False, bias_type("age").identities[1])
        assert name in named[0]["content"] and name not in plain[0]["content"]


def test_the_score_of_a_statement_is_the_one_its_label_came_from() -> None:
    assert low("a", 1.0, expected_score=2.5).label_score == 1.0
    assert low("a", 1.0, expected_score=2.5, label_source="expected").label_score == 2.5
    assert low("a", 1.0, label_source="expected").label_score is None


# ---- sft


def test_sft_holds_every_low_bias_statement_and_no_other() -> None:
    failed = statement("failed", None, None, topic=OPINION, failure="did not parse")
    equal = statement("equal", 5.0, None, topic=OPINION, failure="no label")
    assert sft_of([high("bad"), low("good"), failed, equal, low("fine", 0.0)]) == ["fine", "good"]


def test_an_sft_row_says_where_it_came_from() -> None:
    rows = sft_table([low("good", 2.0, SCENE, clue_shown=True)], TOPICS, SAME_TOPIC).to_pylist()
    assert rows == [
        {
            "prompt": prompt_of(SCENE, True),
            "completion": [{"role": "assistant", "content": "good"}],
            "bias_type": "age",
            "topic_id": SCENE.topic_id,
            "kind": "judgement",
            "clue_shown": True,
            "score": 2.0,
        }
    ]


def test_a_limit_on_sft_keeps_the_least_biased_statements() -> None:
    rows = [low(f"s{score}", float(score)) for score in (3, 0, 2, 1)]
    assert sft_of(rows, DataSection(max_sft=2)) == ["s0", "s1"]


def test_a_limit_on_sft_goes_through_the_bias_types_in_turn() -> None:
    ages = [low(f"a{i}", 0.0) for i in range(9)]
    beauties = [low(f"b{i}", 3.0, TOPICS["beauty-o0"]) for i in range(2)]
    for limit, share in ((2, (1, 1)), (4, (2, 2)), (7, (5, 2))):
        table = sft_table([*ages, *beauties], TOPICS, DataSection(max_sft=limit))
        counts = Counter(table["bias_type"].to_pylist())
        assert (counts["age"], counts["beauty"]) == share


def test_a_limit_on_sft_goes_through_scenes_with_and_without_their_clue_in_turn() -> None:
    scene = judgement(0)
    plain = [low(f"Not known {i}", 0.0, scene) for i in range(9)]
    told = [low(f"The young baker {i}", 3.0, scene, clue_shown=True) for i in range(3)]
    for limit, share in ((4, (2, 2)), (8, (5, 3))):
        table = sft_table([*plain, *told], {scene.topic_id: scene}, DataSection(max_sft=limit))
        counts = Counter(table["clue_shown"].to_pylist())
        assert (counts[False], counts[True]) == share


@quick
@given(transcripts(), sections)
def test_sft_is_a_choice_of_low_bias_statements(
    rows: list[Statement], section: DataSection
) -> None:
    everything = Counter(s.text for s in rows if s.label == "low")
    found = Counter(sft_of(rows, section))
    assert found <= everything
    size = sum(everything.values())
    assert sum(found.values()) == (size if section.max_sft is None else min(size, section.max_sft))


# ---- pairs


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


# ---- prompts


def test_prompts_are_of_the_ppo_and_eval_splits_only() -> None:
    topics = [opinion(0), opinion(1, split="ppo"), judgement(2, split="eval"), judgement(3)]
    rows = prompts_table(topics).to_pylist()
    assert [(row["prompt_id"], row["split"], row["clue_shown"]) for row in rows] == [
        ("age-o1-plain", "ppo", False),
        ("age-j2-plain", "eval", False),
        ("age-j2-clue", "eval", True),
    ]
    assert rows[2]["prompt"] == prompt_of(judgement(2), True)


def test_no_prompt_is_there_twice_and_no_topic_in_two_splits() -> None:
    splits = ("debate", "ppo", "eval")
    topics = [make(i, split=splits[i % 3]) for make in (opinion, judgement) for i in range(30)]
    rows = prompts_table(topics).to_pylist()
    assert len({row["prompt_id"] for row in rows}) == len(rows) == 20 + 40
    assert len({row["prompt"][0]["content"] for row in rows}) == len(rows)
    assert len({(row["topic_id"], row["split"]) for row in rows}) == 40
    debated = {topic.topic_id for topic in topics if topic.split == "debate"}
    assert not debated & {row["topic_id"] for row in rows}


# ---- as files


def three_tables() -> dict[str, pa.Table]:
    rows = [low("good", 1.0), low("better", 0.0), high("bad"), high("worse", 10.0)]
    scenes = [low("good", 1.0, SCENE, clue_shown=True), high("bad", 8.0, SCENE, clue_shown=True)]
    return {
        "sft": sft_table([*rows, *scenes], TOPICS, SAME_TOPIC),
        "pairs": pairs_table([*rows, *scenes], TOPICS, SAME_TOPIC),
        "prompts": prompts_table([opinion(1, split="ppo"), judgement(1, split="eval")]),
    }


@pytest.mark.parametrize(
    ("name", "schema"), [("sft", SFT_SCHEMA), ("pairs", PAIR_SCHEMA), ("prompts", PROMPT_SCHEMA)]
)
def test_tables_have_their_schema_with_rows_and_without(name: str, schema: pa.Schema) -> None:
    assert three_tables()[name].schema == schema
    empty = {
        "sft": sft_table([], {}, SAME_TOPIC),
        "pairs": pairs_table([], {}, SAME_TOPIC),
        "prompts": prompts_table([]),
    }[name]
    assert empty.schema == schema and empty.num_rows == 0


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("sft", {"prompt": "user", "completion": "assistant"}),
        ("pairs", {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}),
        ("prompts", {"prompt": "user"}),
    ],
)
def test_tables_load_with_datasets_in_trls_conversational_format(
    name: str, columns: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    from datasets import load_dataset

    path = RunFolder(tmp_path).write_table(f"{name}.parquet", three_tables()[name])
    loaded = load_dataset(
        "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(loaded) == three_tables()[name].num_rows > 0
    for row in loaded:
        for column, role in columns.items():
            (message,) = row[column]
            assert set(message) == {"role", "content"}
            assert message["role"] == role and message["content"]
    assert list(loaded) == three_tables()[name].to_pylist()


def test_the_same_rows_give_the_same_bytes() -> None:
    def written() -> list[bytes]:
        files = []
        for table in three_tables().values():
            buffer = io.BytesIO()
            pq.write_table(table, buffer)
            files.append(buffer.getvalue())
        return files

    assert written() == written()


@quick
@given(transcripts(), sections, st.integers(0, 99))
def test_the_order_of_rows_decides_between_equals_only(
    rows: list[Statement], section: DataSection, seed: int
) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    unlimited = section.model_copy(update={"pairs_per_topic": None, "max_sft": None})
    for one, other in (
        (pairs_of(rows, unlimited), pairs_of(shuffled, unlimited)),
        (sft_of(rows, unlimited), sft_of(shuffled, unlimited)),
    ):
        assert sorted(one) == sorted(other)
    gaps = [
        [
            p["rejected_score"] - p["chosen_score"]
            for p in pairs_table(r, TOPICS, section).to_pylist()
        ]
        for r in (rows, shuffled)
    ]
    assert sorted(gaps[0]) == sorted(gaps[1])


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
