"""Rows that wait on disk until all of their file have been read, so that any number fits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

BATCH = 4096
"""Rows that are in memory at a time, as the objects they were checked as."""


class Aside:
    """Batches of rows in a file without a name: it is gone when the program is, however it ends.

    Args:
        near: a place, which need not exist, of the file system where the rows will be written.

    Raises:
        OSError: nothing can be written there.
    """

    def __init__(self, schema: pa.Schema, near: Path) -> None:
        place = near.absolute()
        folder = next(path for path in (place, *place.parents) if path.is_dir())
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as this object
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All that was added, in its order; nothing can be added afterwards."""
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
