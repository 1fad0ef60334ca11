"""Records and their Arrow schemas: what is written reads back."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.records import (
    PAIR_SCHEMA,
    PROMPT_SCHEMA,
    SFT_SCHEMA,
    STATEMENT_SCHEMA,
    TOPIC_SCHEMA,
    Statement,
    Topic,
    statements_of,
    table_of,
    topic_id,
    topics_of,
)
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import judgement, opinion, statement


@pytest.mark.parametrize(
    ("record", "schema"), [(Topic, TOPIC_SCHEMA), (Statement, STATEMENT_SCHEMA)]
)
def test_a_schema_has_the_records_fields_in_their_order(
    record: type[Topic] | type[Statement], schema: pa.Schema
) -> None:
    assert schema.names == [field.name for field in fields(record)]


def test_a_transcript_row_says_who_spoke_who_judged_and_from_which_weights() -> None:
    assert {
        "run_id", "topic_id", "kind", "clue_shown", "bias_type", "round", "role", "identity",
        "text", "score", "expected_score", "rank", "label", "label_source", "referee_kind",
        "debater_model", "debater_revision", "referee_model", "referee_revision",
        "prompt_tokens", "cached_tokens", "generated_tokens", "seed", "failure",
    } <= set(STATEMENT_SCHEMA.names)  # fmt: skip


@pytest.mark.parametrize("schema", [SFT_SCHEMA, PAIR_SCHEMA, PROMPT_SCHEMA])
def test_messages_are_lists_of_role_and_content(schema: pa.Schema) -> None:
    messages = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    columns = {"prompt", "completion", "chosen", "rejected"} & set(schema.names)
    assert all(schema.field(name).type == messages for name in columns)


def test_topics_come_back_as_they_were() -> None:
    topics = [opinion(1), judgement(1), opinion(2, split="eval", origin="written")]
    assert topics_of(table_of(topics, TOPIC_SCHEMA)) == topics


def test_statements_come_back_as_they_were_from_parquet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    failed = replace(statement("b", None, None, topic=judgement(1)), failure="said 'x'", rank=2)
    statements = [statement("a", 3.0, "low", topic=opinion(1)), failed]
    folder.write_table("t.parquet", table_of(statements, STATEMENT_SCHEMA))
    assert statements_of(folder.read_table("t.parquet")) == statements


@given(
    text=st.text(),
    score=st.none() | st.floats(0, 10),
    expected=st.none() | st.floats(0, 10),
    rank=st.none() | st.integers(1, 5),
    seed=st.integers(0, 2**31 - 1),
)
@settings(deadline=None, max_examples=50)
def test_any_statement_survives_arrow(
    text: str, score: float | None, expected: float | None, rank: int | None, seed: int
) -> None:
    one = statement(
        text, score, None, topic=opinion(1), expected_score=expected, rank=rank, seed=seed
    )
    assert statements_of(table_of([one], STATEMENT_SCHEMA)) == [one]


def test_a_missing_score_stays_missing_and_does_not_become_zero() -> None:
    one = statement("a", None, None, topic=opinion(1))
    row = table_of([one], STATEMENT_SCHEMA).to_pylist()[0]
    assert row["score"] is None and row["expected_score"] is None and row["label"] is None


def test_no_records_make_an_empty_table_with_all_columns() -> None:
    table = table_of([], TOPIC_SCHEMA)
    assert table.num_rows == 0 and table.schema == TOPIC_SCHEMA


def test_a_topics_id_depends_on_its_type_and_text_alone_and_never_changes() -> None:
    assert topic_id("age", "Should cats vote") == "age-2bb9870c6f16"
    assert topic_id("age", "Should cats vote") != topic_id("beauty", "Should cats vote")
    assert topic_id("age", "Should cats vote") != topic_id("age", "Should dogs vote")


def test_asdict_of_a_topic_has_no_column_the_schema_lacks() -> None:
    assert set(asdict(judgement(1))) == set(TOPIC_SCHEMA.names)


def test_the_id_of_a_topic_does_not_depend_on_where_its_types_file_lies() -> None:
    assert topic_id("/home/a/mine.yaml", "T") == topic_id("types/mine.yaml", "T")
    assert topic_id("types/age.yaml", "T") == topic_id("age", "T")
