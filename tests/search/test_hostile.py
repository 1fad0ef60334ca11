"""Ten thousand hostile queries: none raises, none writes; and nothing opens an address."""

from __future__ import annotations

import hashlib
import json
import random
import socket
from pathlib import Path

import pytest

from rldf_ray.search.backend import opened
from rldf_ray.search.corpus import Corpus, build
from rldf_ray.search.journaled import JournaledSearch
from rldf_ray.search.texts import Passage
from rldf_ray.storage.journal import Journal
from tests.protocols.mabrf.script import ITEM, STEPS, Given, Script, held, hit, outcome, verdict

PIECES = [
    *"\"'`*()[]{}:;^+-~%$\\/\0\t\n\r",
    *(
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "NEAR/2",
        "MATCH",
        "passages",
        "title:",
        "rowid",
        "rank",
        "NULL",
    ),
    *("'; DROP TABLE passages; --", "/*", "*/", "--", "?", "?1", ":x", "@x", "x'00'", "1e999"),
    *(
        "☕",
        "🍵",
        "👨‍👩‍👧",
        "\u202e",
        "\ufeff",
        "\u0301",
        "ß",
        "İ",
        "ﬁ",
        "\ud800",
        "\udfff",
        "\x7f",
    ),
    *("tea", "Tea", "TEA*", "te\0a", "http://127.0.0.1:9/secret", "file:///etc/passwd"),
]
NUMBER = 10_000


def hostile(seed: int) -> list[str]:
    chance = random.Random(seed)
    queries = ["".join(chance.choices(PIECES, k=chance.randint(0, 30))) for _ in range(NUMBER)]
    for place in range(0, NUMBER, 500):
        # About 10 kB.
        queries[place] = "".join(chance.choices(PIECES, k=4_000))
    for place in range(1, NUMBER, 3):
        queries[place] = " ".join(chance.choices(PIECES, k=chance.randint(1, 20)))
    return queries


def state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def test_ten_thousand_hostile_queries_neither_raise_nor_write(tmp_path: Path) -> None:
    build([Passage("Tea", f"Tea {n} and OR not near title.") for n in range(40)], tmp_path / "c")
    before, corpus = state(tmp_path), Corpus(tmp_path / "c")
    queries = hostile(7)
    assert max(len(query.encode("utf-8", "replace")) for query in queries) > 10_000
    found = [len(corpus.find(query, 3)) for query in queries]
    # Most hold a known word somewhere: it is found among whatever stands around it.
    assert max(found) <= 3 and sum(map(bool, found)) > NUMBER / 2
    assert state(tmp_path) == before
    # The same is found as before: nothing was left behind inside, either.
    assert corpus.find("tea 7", 1)[0].text.startswith("Tea 7 ")


async def test_hostile_queries_are_remembered_and_replayed(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    build([Passage("Tea", "Tea is drunk hot.")], tmp_path / "c")
    path, queries = tmp_path / "calls.jsonl", sorted(set(hostile(8)[:200]))
    journal = Journal(path)
    search = JournaledSearch(opened(f"local:{tmp_path / 'c'}"), journal)
    found = {query: await search.search(query, 2) for query in queries}
    journal.close()
    assert len(path.read_bytes().splitlines()) == len(queries)
    replay = opened(f"replay:{path}")
    assert {query: await replay.search(query, 2) for query in queries} == found


async def test_no_address_is_opened_whatever_is_asked_or_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened_: list[object] = []

    def refuse(self: object, address: object) -> None:
        opened_.append(address)
        raise AssertionError(address)

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: refuse(None, given))
    address = "http://127.0.0.1:9/secret"
    said = {
        "solver/steps": f"1. See {address}.\n{STEPS}",
        "solver/answer": "0",
        "first/judge": verdict(7, reason=f"Read {address}"),
        "groups": json.dumps({"groups": ["old"]}),
        "given/1/queries": json.dumps({"queries": [address, "file:///etc/passwd"]}),
        "given/1/summary": f"Facts: {address}",
        "given/1/rephrase": f"1. {address}",
        "given/1/judge": verdict(1),
    }
    search = Given({address: [hit("T", f"Ask {address} or https://example.org.")]})
    found = await held(Script(said, lambda place: "2"), ITEM, search)
    row = outcome(found, "given")
    assert (row["stop"], row["searches"], row["hits"]) == ("clean", 2, 1)
    assert not opened_
