"""A run folder: whole objects, the manifest last, and a journal of every model call.

A stage is finished when its manifest exists; the manifest is written after everything it lists.
Nothing is ever half there: files are written beside their place and moved into it. A run at an
address of an object store is worked on in a local copy (mirror.py).
"""

from __future__ import annotations

import fnmatch
import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.errors import UserError
from rldf_ray.storage.copied_files import discard
from rldf_ray.storage.file_lock import file_lock
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.lock import LOCK, RunInUseError
from rldf_ray.storage.mirror import Mirror
from rldf_ray.storage.object_store import is_address
from rldf_ray.storage.stages import redo_advice
from rldf_ray.storage.whole_files import whole_file


class RunFolderError(UserError):
    """The run folder cannot be used as asked; the message says what to do."""


class UnreadableFileError(RunFolderError):
    """A file of the run is torn, empty or of another kind; the message says how to make it anew."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run (layout: docs/run-folder.md).

    Attributes:
        root: where this machine has it.
        mirror: between `root` and the store that has the run, if one has.
    """

    root: Path
    mirror: Mirror | None = None

    @classmethod
    def at(cls, where: str | Path) -> RunFolder:
        """The run at a folder's path, or at an address such as s3://bucket/runs/one."""
        if is_address(where):
            mirror = Mirror(str(where))
            return cls(mirror.root, mirror)
        # Absolute, as workers of the cluster have working directories of their own.
        return cls(Path(where).resolve())

    @property
    def where(self) -> str:
        """What people call it: its address, or its path."""
        return self.address("").rstrip("/") if self.mirror else str(self.root)

    def address(self, name: str) -> str:
        """Where all machines of a cluster find `name`: an address, or a path they share."""
        return self.mirror.store.address_of(name) if self.mirror else str(self.root / name)

    def shared(self, name: str) -> str:
        """The address of `name`, where all machines find what has been written there so far."""
        if self.mirror:
            self.mirror.publish(name)
        return self.address(name)

    def fetched(self, name: str) -> Path:
        """Where `name` lies on this machine, as the store has it now."""
        return self.mirror.fetch(name) if self.mirror else self.root / name

    def path(self, name: str) -> Path:
        """Where `name` lies (or will lie); its parent folder exists afterwards."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, name: str, text: str) -> Path:
        path = self.path(name)
        with whole_file(path) as scratch:
            scratch.write_text(text, encoding="utf-8")
        return path

    def write_json(self, name: str, value: object) -> Path:
        return self.write_text(name, json_text(value, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """The value in a JSON file.

        Raises:
            FileNotFoundError: there is none.
            UnreadableFileError: it is not JSON.
        """
        try:
            return json.loads((self.root / name).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise self.unreadable(name, f"not JSON: {error}") from error

    def read_object(self, name: str, needed: Collection[str] = ()) -> dict[str, Any]:
        """The JSON object in a file, which has the members `needed`.

        Raises:
            FileNotFoundError: there is none.
            UnreadableFileError: it is something else, or lacks a member.
        """
        value = self.read_json(name)
        if not isinstance(value, dict):
            raise self.unreadable(name, f"expected an object, not {type(value).__name__}")
        if lacking := [member for member in needed if member not in value]:
            raise self.unreadable(name, f"without {', '.join(map(repr, lacking))}")
        return value

    def unreadable(self, name: str, why: str) -> UnreadableFileError:
        """What to raise about a file that is not what its stage wrote."""
        return UnreadableFileError(
            f"{self.root / name} cannot be read ({why}): {redo_advice(name)}"
        )

    def write_table(self, name: str, table: pa.Table) -> Path:
        path = self.path(name)
        with whole_file(path) as scratch:
            pq.write_table(table, scratch)
        return path

    def write_batches(
        self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Path:
        """A table that need not fit in memory."""
        path = self.path(name)
        with whole_file(path) as scratch, pq.ParquetWriter(scratch, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return path

    def read_table(
        self, name: str, schema: pa.Schema | None = None, later: Collection[str] = ()
    ) -> pa.Table:
        """The table in a Parquet file.

        Args:
            schema: the columns to read, which it has to have; None is all.
            later: columns of `schema` that earlier versions did not write; null where they lack.

        Raises:
            RunFolderError: there is none.
            UnreadableFileError: it is not Parquet, or lacks a column or its type.
        """
        path = self._table(name)
        try:
            table = pq.read_table(path) if schema is None else _columns(path, schema, later)
        except (pa.ArrowException, OSError) as error:
            raise self.unreadable(name, " ".join(str(error).split())) from error
        return table

    def read_batches(
        self, name: str, schema: pa.Schema | None = None, size: int = 16_384
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a Parquet file, `size` at a time; a table that need not fit in memory.

        Args:
            schema: as for `read_table`.

        Raises:
            RunFolderError, UnreadableFileError: as `read_table`, when the rows are met.
        """
        path = self._table(name)
        try:
            with pq.ParquetFile(path) as file:
                if schema is not None:
                    _check_columns(file.schema_arrow, schema)
                names = None if schema is None else schema.names
                for batch in file.iter_batches(batch_size=size, columns=names):
                    yield batch if schema is None else batch.select(names).cast(schema)
        except (pa.ArrowException, OSError) as error:
            raise self.unreadable(name, " ".join(str(error).split())) from error

    def read_rows(
        self, name: str, places: Sequence[int], schema: pa.Schema | None = None
    ) -> pa.Table:
        """Some rows of a Parquet file, of which the rest is not kept in memory.

        Args:
            places: of the rows, from 0, ascending.
            schema: as for `read_table`.

        Raises:
            RunFolderError, UnreadableFileError: as `read_table`.
        """
        wanted = np.asarray(places, dtype=np.int64)
        last = places[-1] if len(places) else -1
        taken: list[pa.Table] = []
        begin = 0
        for batch in self.read_batches(name, schema):
            if taken and begin > last:
                break
            end = begin + batch.num_rows
            here = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, end)]
            if len(here) or not taken:
                taken.append(pa.Table.from_batches([batch]).take(here - begin))
            begin = end
        return pa.concat_tables(taken) if taken else self.read_table(name, schema)

    def table_metadata(self, name: str) -> pq.FileMetaData:
        """What a Parquet file says of itself, without reading its rows.

        Raises:
            RunFolderError, UnreadableFileError: as `read_table`.
        """
        path = self._table(name)
        try:
            return pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise self.unreadable(name, " ".join(str(error).split())) from error

    def _table(self, name: str) -> Path:
        path = self.root / name
        if not path.exists():
            raise RunFolderError(f"{path} does not exist: run the stage that writes it first")
        return path

    def manifest(self, stage: str) -> dict[str, Any] | None:
        """What `finish` recorded of a stage, or None if it has not finished.

        Raises:
            UnreadableFileError: the file is no manifest.
        """
        name = f"stages/{stage}.json"
        return self.read_object(name) if (self.root / name).exists() else None

    def finish(self, stage: str, key: str, facts: Mapping[str, object]) -> None:
        """Mark a stage as finished under `key`, the hash of everything it depended on."""
        if self.mirror:
            self.mirror.publish()
        finished_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write_json(
            f"stages/{stage}.json",
            {"stage": stage, "key": key, "finished_at": finished_at, **facts},
        )
        if self.mirror:
            self.mirror.publish()

    def fresh_folder(self, name: str, kept: str = "") -> Path:
        """An empty folder `name`, whatever an interrupted stage left there.

        Args:
            kept: pattern of the names directly in it that stay.
        """
        path = self.root / name
        inside = [one.name for one in path.iterdir()] if path.is_dir() else []
        if self.mirror:
            stored = self.mirror.store.list(name)
            inside += [PurePosixPath(one).relative_to(name).parts[0] for one in stored]
        staying = fnmatch.filter(inside, kept)
        if not staying:
            self.remove(name)
        for other in {*inside} - {*staying} if staying else ():
            self.remove(f"{name}/{other}")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def remove(self, name: str) -> None:
        """Remove a file or folder, if there is one."""
        if self.mirror:
            self.mirror.remove(name)
        else:
            discard(self.root / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one program; the lock goes with the program, however it ends.

        Raises:
            RunInUseError: another program holds it.
        """
        if self.mirror:
            self.mirror.claim()
        self.root.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            try:
                held.enter_context(file_lock(self.root / LOCK, wait=False))
            except BlockingIOError:
                raise RunInUseError(
                    f"{self.where} is in use by another rldf program: wait for it or give "
                    "another --out"
                ) from None
            if self.mirror:
                held.enter_context(self.mirror.held())
            yield


def local_copy(where: str | Path, *names: str) -> Path:
    """A run's folder on this machine, with these files of it if `where` is an address."""
    if not is_address(where):
        return Path(where)
    folder = RunFolder.at(where)
    for name in names:
        folder.fetched(name)
    return folder.root


def _columns(path: Path, schema: pa.Schema, later: Collection[str]) -> pa.Table:
    """The columns of `schema` in a Parquet file, and no others; those of `later` may be missing.

    Raises:
        ArrowException: one is missing, or holds something else.
    """
    present = pq.read_schema(path)
    lacking = [name for name in later if name not in present.names]
    there = pa.schema([field for field in schema if field.name not in lacking])
    _check_columns(present, there)
    table = pq.read_table(path, columns=there.names).cast(there)
    for field in map(schema.field, lacking):
        table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names)


def _check_columns(present: pa.Schema, needed: pa.Schema) -> None:
    if missing := [name for name in needed.names if name not in present.names]:
        raise pa.ArrowInvalid(f"no column {', '.join(missing)}")
