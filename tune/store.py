"""What trials share: finished stages and model calls, each under the hash of what it depends on.

A store is a folder or an object store's address (`s3://bucket/sweeps`). Objects are written whole
and their manifest last, and nothing is renamed, so an object without a manifest is not there.

    stages/topics-KEY/...   files of a stage as they lie in a run folder
    calls/KEY.jsonl         every call that a run made, keyed by the digest of its request
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.object_store import ObjectStore, is_address
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE
from rldf_ray.storage.whole_files import whole_file


@dataclass(frozen=True)
class Store:
    """Finished work of all trials.

    Attributes:
        folder: where the objects lie, if that is a folder on this machine.
    """

    objects: ObjectStore
    folder: Path | None = None

    @classmethod
    def at(cls, where: str) -> Store:
        """The store in a folder or at an object store's address.

        Raises:
            ObjectStoreError: no such kind of store.
        """
        if is_address(where):
            return cls(ObjectStore(where))
        folder = Path(where).resolve()
        return cls(ObjectStore(folder.as_uri()), folder)

    def keep(self, stage: str, key: str, folder: RunFolder) -> None:
        """Take a finished stage of `folder` in; one that is there already stays as it is."""
        manifest = folder.manifest(stage)
        if manifest is None or self._read(f"stages/{stage}-{key}/manifest.json") is not None:
            return
        for name in PIPELINE[stage].files:
            for path in _files(folder.root / name):
                below = path.relative_to(folder.root)
                self.objects.upload(path, f"stages/{stage}-{key}/files/{below}")
        self._write(f"stages/{stage}-{key}/manifest.json", manifest)

    def fetch(self, stage: str, key: str, folder: RunFolder) -> bool:
        """Make `stage` finished in `folder`, if the store has it; whether it has."""
        manifest = self._read(f"stages/{stage}-{key}/manifest.json")
        if manifest is None:
            return False
        files = f"stages/{stage}-{key}/files/"
        for name in self.objects.list(files.rstrip("/")):
            self.objects.download(name, folder.path(name.removeprefix(files)))
        # Its plan is another trial's.
        folder.write_json(f"stages/{stage}.json", {**manifest, "taken_from": f"{stage}-{key}"})
        return True

    def keep_calls(self, key: str, journal: Path) -> None:
        """Take the calls of a run in, keyed by request instead of address."""
        if not journal.exists() or self._read(f"calls/{key}.json") is not None:
            return
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "calls.jsonl"
            calls = _by_request(journal, path)
            if calls:
                self.objects.upload(path, f"calls/{key}.jsonl")
                self._write(f"calls/{key}.json", {"calls": calls})

    def calls(self, cache: Path) -> KnownCalls:
        """All calls of the store; those of another machine are first copied to `cache`."""
        found = self.objects.list("calls")
        whole = sorted(Path(name).stem for name in found if name.endswith(".json"))
        return KnownCalls([self._segment(key, cache) for key in whole])

    def _segment(self, key: str, cache: Path) -> Path:
        if self.folder is not None:
            return self.folder / f"calls/{key}.jsonl"
        path = cache / f"{key}.jsonl"
        if not path.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as scratch:
                self.objects.download(f"calls/{key}.jsonl", scratch)
        return path

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.objects.read(name))
        except json.JSONDecodeError:
            return None  # not there, or torn by a kill; written again
        return found

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        self.objects.write(name, json_text(value).encode())


class KnownCalls:
    """Calls by the digest of their request: places in memory, answers on disk (`EarlierCalls`)."""

    def __init__(self, segments: Sequence[Path]) -> None:
        self._segments = [Journal(path) for path in segments]

    def samples(self, request: str) -> list[dict[str, Any]] | None:
        for segment in self._segments:
            entry = segment.get(_address(request))
            if entry is not None:
                samples: list[dict[str, Any]] = entry["samples"]
                return samples
        return None

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


def _files(path: Path) -> list[Path]:
    """Those of a folder, or a file itself; none where the stage did not write it."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [path] if path.exists() else []


def generated_tokens(journal: Path) -> int:
    """Tokens that a run's own calls generated; other runs' calls are not in its journal."""
    return sum(
        sample["usage"]["generated"] for entry in _entries(journal) for sample in entry["samples"]
    )


def _by_request(journal: Path, target: Path) -> int:
    """A journal keyed by request; returns the number of its calls. Nothing here reads token ids."""
    calls = 0
    segment = Journal(target)
    for entry in _entries(journal):
        samples = [{**sample, "prompt_ids": [], "token_ids": []} for sample in entry["samples"]]
        segment.append(_address(entry["request"]), {"samples": samples})
        calls += 1
    segment.close()
    return calls


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    journal = Journal(path)
    yield from journal.entries()
    journal.close()


def _address(request: str) -> str:
    """Digests share their first digits, so that the index is a few dicts and not one for each."""
    return f"{request[:2]}/{request[2:]}"
