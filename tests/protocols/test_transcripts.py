"""Transcripts on disk: debates end in any order, the table is in the plan's."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from rldf_ray.protocols import transcripts
from rldf_ray.protocols.transcripts import StatementCounts, Transcripts
from rldf_ray.records import STATEMENT_SCHEMA, Statement, statements_of
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import opinion, statement


def debate(number: int) -> list[Statement]:
    topic = opinion(number)
    return [statement(f"é {number}", 1.0, "low", topic=topic, role=role) for role in (0, 1, 2)]


def test_the_table_has_the_plans_order_whatever_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "ROWS_AT_ONCE", 7)
    order = list(range(20))
    random.Random(3).shuffle(order)
    with closing(Transcripts(tmp_path / "debates.jsonl", 20)) as kept:
        for place in order:
            kept.keep(place, debate(place))
        path = RunFolder(tmp_path).write_batches("t.parquet", STATEMENT_SCHEMA, kept.batches())
    table = RunFolder(tmp_path).read_table("t.parquet")
    assert statements_of(table) == [s for number in range(20) for s in debate(number)]
    assert path.exists() and not (tmp_path / "debates.jsonl").exists()


def test_debates_that_were_not_kept_have_no_rows(tmp_path: Path) -> None:
    with closing(Transcripts(tmp_path / "debates.jsonl", 5)) as kept:
        kept.keep(3, debate(3))
        table = pa.Table.from_batches(kept.batches())
    assert table.to_pylist() == [asdict(s) for s in debate(3)]


def test_no_debates_make_an_empty_table_of_the_right_columns(tmp_path: Path) -> None:
    with closing(Transcripts(tmp_path / "debates.jsonl", 0)) as kept:
        table = pa.Table.from_batches(kept.batches())
    assert table.num_rows == 0 and table.schema.equals(STATEMENT_SCHEMA)


def test_failures_and_label_sources_are_counted_by_kind() -> None:
    counts = StatementCounts()
    topic = opinion(1)
    counts.add(
        [
            statement("a", 1.0, "low", topic=topic, rank=1),
            statement("b", None, None, topic=topic, failure="did not parse: 'x'"),
            statement("c", None, None, topic=topic, failure="did not parse: 'y'", rank=2),
        ]
    )
    assert counts.statements == 3
    assert counts.failures == {"did not parse": 2, "not ranked": 1}
    assert counts.label_sources == {"said": 3}
