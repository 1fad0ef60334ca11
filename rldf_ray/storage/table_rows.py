"""Rows of tables as people save them: CSV or TSV, gzipped or not, with a byte order mark or not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from rldf_ray.errors import UserError
from rldf_ray.storage.given_text import given_text

# A whole article in a cell is longer than the 128 KiB that csv allows.
csv.field_size_limit(16 * 2**20)


class RowsError(UserError):
    """A file is no table with the columns it should have; the message names both."""


def read_rows(
    file: Path, needed: Sequence[str], delimiter: str = ","
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by line, each a cell by column; missing cells are empty.

    Raises:
        OSError, TextError: the file cannot be read, or is no text.
        RowsError: it lacks one of the columns `needed`.
    """
    text = given_text(file)
    head = text.partition("\n")[0]
    if delimiter == "," and "," not in head and ";" in head:
        # As spreadsheets save CSV where the comma is the decimal sign.
        delimiter = ";"
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    lacking = [name for name in needed if name not in (reader.fieldnames or ())]
    if lacking:
        raise RowsError(
            f"{file}: no column {lacking[0]!r}; it has {', '.join(reader.fieldnames or ['none'])}"
        )
    for row in reader:
        yield reader.line_num, {k: v or "" for k, v in row.items() if isinstance(k, str)}
