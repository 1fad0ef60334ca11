"""One's own texts: `local:FILE` of `rldf corpus build`, or `local:DIR`, indexed once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

from rldf_ray.search.backend import Hit, SearchBackend, SearchError
from rldf_ray.search.corpus import FORMAT, Corpus, build
from rldf_ray.search.texts import CUT, passages_of, text_files, unreadable
from rldf_ray.storage.cache import writable_cache
from rldf_ray.storage.home_path import home_path

SQLITE = b"SQLite format 3"


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
        UserError: a file of texts is not what its name says.
    """
    path = home_path(argument)
    if not argument:
        raise SearchError("local: names no file or folder; allowed: local:FILE_OR_FOLDER")
    try:
        if path.is_file() and _begins_like_a_corpus(path):
            return _Local(Corpus(path))
        files = text_files(path)
        index = writable_cache("corpora") / f"{_digest(files)}.sqlite"
    except OSError as error:
        raise unreadable(path, error) from error
    return _Local(_indexed(files, index))


def _begins_like_a_corpus(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _indexed(files: Sequence[Path], index: Path) -> Corpus:
    """The corpus of files; what lies in the cache damaged is made anew."""
    if index.exists():
        try:
            return Corpus(index)
        except SearchError:
            index.unlink(missing_ok=True)
    build(passages_of(files), index)
    return Corpus(index)


def _digest(files: Sequence[Path]) -> str:
    """Of all files' bytes, and of what is made of them: a changed text is another corpus."""
    hashed = hashlib.sha256(f"{FORMAT}\0{CUT}".encode())
    for file in files:
        hashed.update(f"{file.name}\0{file.stat().st_size}\0".encode("utf-8", "replace"))
        with file.open("rb") as data:
            hashed.update(hashlib.file_digest(data, "sha256").digest())
    return hashed.hexdigest()[:16]
