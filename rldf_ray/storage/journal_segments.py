"""The journal of a run in an object store: segments, each named by the byte at which it begins.

An object cannot be appended to, so what is new goes up as one more.

    journal/calls.jsonl/0000000000000000
    journal/calls.jsonl/0000000000004711
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rldf_ray.storage.copied_files import discard
from rldf_ray.storage.object_store import ObjectStore, ObjectStoreError

JOURNAL = "journal/calls.jsonl"


def is_segment(name: str) -> bool:
    """Whether an object is a part of the run's journal."""
    return name.startswith(f"{JOURNAL}/")


def join_segments(store: ObjectStore, names: Iterable[str], path: Path) -> int:
    """Write the segments among the objects `names` to the file `path`; returns its bytes.

    Without segments there is no file afterwards.

    Raises:
        ObjectStoreError: a segment is missing.
    """
    discard(path)
    segments = sorted(filter(is_segment, names))
    if not segments:
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("wb") as file:
        for segment in segments:
            if segment != f"{JOURNAL}/{written:016d}":
                raise ObjectStoreError(
                    f"{store.address}: {JOURNAL} has no segment at byte {written}, the next is "
                    f"{segment}: two programs wrote it; delete the segments from there"
                )
            written += file.write(store.read(segment))
    return written


def send_segment(store: ObjectStore, path: Path, sent: int) -> int:
    """Upload the whole lines of the file after its first `sent` bytes; returns how many are sent.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as file:
        file.seek(sent)
        new = file.read()
    new = new[: new.rfind(b"\n") + 1]
    if new:
        store.write(f"{JOURNAL}/{sent:016d}", new)
    return sent + len(new)
