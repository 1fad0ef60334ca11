"""Parquet files that people give; an error names the file and its columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.errors import UserError

BATCH = 16_384
"""Rows that are looked at together."""


class ParquetError(UserError):
    """A file is not the Parquet file it should be; the message names it and what is missing."""


def given_table(path: Path, columns: Collection[str] = ()) -> pa.Table:
    """The table in `path`, with all its columns.

    Raises:
        OSError: the file cannot be read.
        ParquetError: it is not a Parquet file, is damaged, or lacks some of `columns`.
    """
    with _opened(path, columns) as file:
        table = file.read()
        table.validate(full=True)
    return table


def given_batches(
    path: Path, columns: Collection[str] = (), also: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of the table in `path`, some at a time.

    Args:
        also: columns that may be missing. Where these or `columns` are given, no others are read.

    Raises:
        OSError, ParquetError: as `given_table`; what is damaged further down is met there.
    """
    with _opened(path, columns) as file:
        wanted = {*columns, *also}
        read = [name for name in file.schema_arrow.names if name in wanted] if wanted else None
        batches = file.iter_batches(batch_size=BATCH, columns=read)
        while (batch := _next(path, batches)) is not None:
            yield batch


def _next(path: Path, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    with _naming(path):
        batch = next(batches, None)
        if batch is not None:
            # Texts that are not UTF-8 are found out here.
            batch.validate(full=True)
        return batch


@contextmanager
def _opened(path: Path, columns: Collection[str]) -> Iterator[pq.ParquetFile]:
    with path.open("rb") as content, _naming(path):
        file = pq.ParquetFile(content)
        names = file.schema_arrow.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ParquetError(f"{path}: more than one column {', '.join(twice)}; allowed: one")
        if missing := sorted(set(columns) - set(names)):
            raise ParquetError(f"{path}: no column {', '.join(missing)}; found: {', '.join(names)}")
        yield file


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What the library says of a file's content, with the file's name and on one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise ParquetError(f"{path}: not a Parquet file, or damaged ({why})") from error
