"""What trials share: finished stages and model calls, each under the hash of what it depends on.

A store is a folder, or any address pyarrow has a filesystem for (`s3://bucket/sweeps`). Objects are
written whole and their manifest last, and nothing is renamed, so an object without a manifest is
not there.

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

from pyarrow import fs

from rldf_ray.storage import Journal, RunFolder

# Where the files of a stage lie in a run folder. PPO's model stays in its own run folder.
FILES = {
    "topics": ("data/topics.parquet",),
    "debates": ("data/transcripts.parquet",),
    "sft": ("sft",),
    "reward": ("reward",),
}


@dataclass(frozen=True)
class Store:
    """Finished work of all trials, at `root` of `filesystem`."""

    filesystem: Any
    root: str

    @classmethod
    def at(cls, where: str) -> Store:
        """The store in a folder or at a filesystem's address."""
        if "://" in where:
            return cls(*fs.FileSystem.from_uri(where))
        return cls(fs.LocalFileSystem(), str(Path(where).resolve()))

    def keep(self, stage: str, key: str, folder: RunFolder) -> None:
        """Take a finished stage of `folder` in; one that is there already stays as it is."""
        manifest = folder.manifest(stage)
        if manifest is None or self._read(f"stages/{stage}-{key}/manifest.json") is not None:
            return
        for name in FILES[stage]:
            if (folder.root / name).exists():
                self._upload(folder.root / name, f"stages/{stage}-{key}/files/{name}")
        self._write(f"stages/{stage}-{key}/manifest.json", manifest)

    def fetch(self, stage: str, key: str, folder: RunFolder) -> bool:
        """Make `stage` finished in `folder`, if the store has it; whether it has."""
        manifest = self._read(f"stages/{stage}-{key}/manifest.json")
        if manifest is None:
            return False
        for name in FILES[stage]:
            self._download(f"stages/{stage}-{key}/files/{name}", folder.path(name))
        folder.write_json(f"stages/{stage}.json", manifest)
        return True

    def keep_calls(self, key: str, journal: Path) -> None:
        """Take the calls of a run in, keyed by request instead of address."""
        if not journal.exists() or self._read(f"calls/{key}.json") is not None:
            return
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "calls.jsonl"
            calls = _by_request(journal, path)
            if calls:
                self._upload(path, f"calls/{key}.jsonl")
                self._write(f"calls/{key}.json", {"calls": calls})

    def calls(self, cache: Path) -> KnownCalls:
        """All calls of the store; those of another machine are first copied to `cache`."""
        found = self.filesystem.get_file_info(
            fs.FileSelector(f"{self.root}/calls", allow_not_found=True)
        )
        whole = sorted(Path(info.path).stem for info in found if info.path.endswith(".json"))
        return KnownCalls([self._segment(key, cache) for key in whole])

    def _segment(self, key: str, cache: Path) -> Path:
        if isinstance(self.filesystem, fs.LocalFileSystem):
            return Path(self.root) / f"calls/{key}.jsonl"
        path = cache / f"{key}.jsonl"
        if not path.exists():
            scratch = path.with_suffix(".part")
            self._download(f"calls/{key}.jsonl", scratch)
            scratch.replace(path)
        return path

    def _upload(self, source: Path, name: str) -> None:
        target = f"{self.root}/{name}"
        self.filesystem.create_dir(str(Path(target).parent), recursive=True)
        fs.copy_files(str(source), target, fs.LocalFileSystem(), self.filesystem)

    def _download(self, name: str, target: Path) -> None:
        """A file or folder of the store; one that the stage did not write is not there."""
        source = f"{self.root}/{name}"
        if self.filesystem.get_file_info(source).type == fs.FileType.NotFound:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(source, str(target), self.filesystem, fs.LocalFileSystem())

    def _read(self, name: str) -> dict[str, Any] | None:
        path = f"{self.root}/{name}"
        if self.filesystem.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with self.filesystem.open_input_stream(path) as stream:
            text = stream.read()
        try:
            found: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError:
            return None  # torn by a kill; written again
        return found

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "object.json"
            path.write_text(json.dumps(value))
            self._upload(path, name)


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
