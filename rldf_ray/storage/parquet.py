"""Parquet files that people give; an error names the file and its columns."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.errors import UserError


class ParquetError(UserError):
    """A file is not the Parquet file it should be; the message names it and what is missing."""


def given_table(path: Path, columns: Collection[str] = ()) -> pa.Table:
    """The table in `path`, with all its columns.

    Raises:
        OSError: the file cannot be read.
        ParquetError: it is not a Parquet file, or lacks some of `columns`.
    """
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise ParquetError(f"{path}: not a Parquet file ({error})") from error
    if missing := sorted(set(columns) - set(table.column_names)):
        raise ParquetError(
            f"{path}: no column {', '.join(missing)}; found: {', '.join(table.column_names)}"
        )
    return table
