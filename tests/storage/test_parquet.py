"""Parquet files that people give."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.storage.parquet import ParquetError, given_batches, given_table


def test_a_table_keeps_columns_that_nobody_asked_for(tmp_path: Path) -> None:
    table = pa.table({"method": ["RLDF"], "note": ["mine"]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert given_table(tmp_path / "a.parquet", ["method"]).equals(table)


def test_missing_columns_are_named_beside_those_that_are_there(tmp_path: Path) -> None:
    pq.write_table(pa.table({"method": ["RLDF"]}), tmp_path / "a.parquet")
    with pytest.raises(ParquetError, match=r"a\.parquet: no column n, value; found: method$"):
        given_table(tmp_path / "a.parquet", ["value", "method", "n"])


def test_another_kind_of_file_and_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("method,value\n", encoding="utf-8")
    with pytest.raises(ParquetError, match=r"a\.parquet: not a Parquet file"):
        given_table(tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError, match=r"b\.parquet"):
        given_table(tmp_path / "b.parquet")


def test_batches_have_the_columns_that_are_wanted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "other": [1], "url": ["u"]}), tmp_path / "a.parquet")
    (batch,) = given_batches(tmp_path / "a.parquet", ["text"], also=["title", "url"])
    assert batch.to_pylist() == [{"text": "a", "url": "u"}]
    (whole,) = given_batches(tmp_path / "a.parquet")
    assert whole.schema.names == ["text", "other", "url"]
    with pytest.raises(ParquetError, match=r"no column body; found: text, other, url"):
        list(given_batches(tmp_path / "a.parquet", ["body"]))
