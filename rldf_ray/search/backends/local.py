"""One's own texts: `local:FILE` of `rldf corpus build`, or `local:DIR`, indexed once."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from rldf_ray.search.backend import Hit, SearchBackend, SearchError
from rldf_ray.search.corpus import FORMAT, Corpus, build, passages_in
from rldf_ray.storage.cache import writable_cache
from rldf_ray.storage.folders import visible
from rldf_ray.storage.home_path import home_path


class _Local:
    name = "local"

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    @property
    def digest(self) -> str:
        """Of the passages."""
        return self._corpus.digest

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The `k` best passages at most."""
        return await asyncio.to_thread(self._corpus.find, query, k)


def opened(argument: str) -> SearchBackend:
    """The corpus of a file, or of a folder of texts, whose index lies in the cache.

    Raises:
        SearchError: there is no such file or folder, or it is no corpus.
    """
    path = home_path(argument)
    if not argument or not path.exists():
        raise SearchError(f"search=local:{argument}: no such file or folder")
    if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3":
        return _Local(Corpus(path))
    index = writable_cache("corpora") / f"{_files_digest(path)}.sqlite"
    if not index.exists():
        build(passages_in(path), index)
    return _Local(Corpus(index))


def _files_digest(path: Path) -> str:
    """Of all files' bytes: a changed text is another corpus."""
    hashed = hashlib.sha256(FORMAT.encode())
    for file in [path] if path.is_file() else visible(path):
        if file.is_file():
            hashed.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as data:
                hashed.update(hashlib.file_digest(data, "sha256").digest())
    return hashed.hexdigest()[:16]
