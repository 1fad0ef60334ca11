"""Transcripts become sft, pairs and prompts in formats that TRL and datasets read."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.dataset.preference_data import prompt_of, prompts_table
from rldf_ray.plan import DataSection
from rldf_ray.records import PAIR_SCHEMA, PROMPT_SCHEMA, SFT_SCHEMA, Statement
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.bias_type import bias_type
from tests.dataset.preference_rows import (
    OPINION,
    SAME_ROLE,
    SAME_TOPIC,
    SCENE,
    TOPICS,
    high,
    low,
    pairs_of,
    quick,
    sections,
    sft_of,
    transcripts,
)
from tests.fakes import judgement, opinion, pairs_table, sft_table, statement

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


def test_sft_takes_statements_with_expected_scores_before_those_with_said_ones() -> None:
    expected = [low(f"e{i}", 9.0, expected_score=i / 10, label_source="expected") for i in (25, 5)]
    rows = [low("s0", 0.0), *expected, low("s1", 1.0)]
    assert sft_of(rows) == ["e5", "e25", "s0", "s1"]
    assert sft_of(rows, DataSection(max_sft=3)) == ["e5", "e25", "s0"]


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
