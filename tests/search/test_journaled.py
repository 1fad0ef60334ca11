"""Searches that are remembered, and replayed without a backend."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from rldf_ray.search.backend import Hit, SearchError, opened
from rldf_ray.search.journaled import JournaledSearch
from rldf_ray.storage.journal import Journal


class Counting:
    name, digest = "counting", "d1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fails = False

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        self.asked.append((query, k))
        await asyncio.sleep(0)
        if self.fails:
            raise SearchError("the web is away")
        return (Hit(title=query, text="t", url="u", score=1.5, source="counting"),) * k


async def test_a_search_is_made_once_after_a_restart_too(tmp_path: Path) -> None:
    backend = Counting()
    journal = Journal(tmp_path / "calls.jsonl")
    search = JournaledSearch(backend, journal)
    first, second = await asyncio.gather(search.search("tea", 2), search.search("tea", 2))
    assert first == second == await search.search("tea", 2)
    journal.close()
    again = JournaledSearch(backend, Journal(tmp_path / "calls.jsonl"))
    assert await again.search("tea", 2) == first
    assert backend.asked == [("tea", 2)]
    await again.search("tea", 3)
    backend.digest = "d2"
    await again.search("tea", 2)
    assert backend.asked == [("tea", 2), ("tea", 3), ("tea", 2)]


async def test_a_failed_search_is_not_remembered(tmp_path: Path) -> None:
    backend = Counting()
    search = JournaledSearch(backend, Journal(tmp_path / "calls.jsonl"))
    backend.fails = True
    with pytest.raises(SearchError):
        await search.search("tea", 2)
    backend.fails = False
    assert len(await search.search("tea", 2)) == 2


async def test_a_journal_replays_without_its_backend(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    journal = Journal(path)
    found = await JournaledSearch(Counting(), journal).search("tea", 2)
    journal.close()
    replay = opened(f"replay:{path}")
    assert await replay.search("tea", 2) == found
    with pytest.raises(SearchError, match="no search for 'coffee'"):
        await replay.search("coffee", 2)
    with pytest.raises(SearchError, match="no such file"):
        opened(f"replay:{tmp_path}/none.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"address": "a/b"}\n', encoding="utf-8")
    with pytest.raises(SearchError, match="has no search"):
        opened(f"replay:{empty}")
    # What a kill has torn is not there, as for a journal; what is no call is none.
    empty.write_bytes(b"[1]\n" + path.read_bytes() + b'{"address": "sear')
    assert await opened(f"replay:{empty}").search("tea", 2) == found
    other = path.read_bytes().replace(b"search counting d1", b"search counting d2")
    empty.write_bytes(path.read_bytes() + other.replace(b'"t"', b'"another"'))
    with pytest.raises(SearchError, match="two answers to 'tea'"):
        opened(f"replay:{empty}")
    whole = path.read_bytes()
    for line in (
        b'{"address": "search local d/1"}',
        whole.replace(b'"text"', b'"body"'),
        re.sub(rb'"k": ?2', b'"k": [2]', whole),
        re.sub(rb'"query": ?"tea"', b'"query": ["tea"]', whole),
    ):
        empty.write_bytes(b"{}\n" + line)
        with pytest.raises(SearchError, match=r"empty\.jsonl, line 2: a search without query"):
            opened(f"replay:{empty}")
