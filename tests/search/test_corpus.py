"""A corpus of one's own texts: built once, searched by many, raised by no query."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rldf_ray.search.backend import SearchError, backend_names, opened
from rldf_ray.search.backends import local
from rldf_ray.search.corpus import Corpus, build
from rldf_ray.search.texts import Passage

TEXTS = [
    Passage("Normans", "The Normans gave their name to Normandy, a region in France."),
    Passage("Ageing", "Ageism is stereotyping of people by their age.", "https://example.org/age"),
    Passage("Tea", "Tea is drunk hot. It's the world's most consumed drink after water."),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    build(TEXTS, tmp_path / "c.sqlite")
    return Corpus(tmp_path / "c.sqlite")


def test_two_builds_of_one_corpus_in_one_process_both_succeed(tmp_path: Path) -> None:
    """The second one begins and ends while the first one reads its passages."""
    out = tmp_path / "c.sqlite"

    def slow() -> Iterator[Passage]:
        yield TEXTS[0]
        assert build(TEXTS[1:], out)[0] == 2
        assert Corpus(out).passages == 2
        yield from TEXTS[1:]

    assert build(slow(), out)[0] == 3
    assert Corpus(out).passages == 3
    assert list(tmp_path.iterdir()) == [out]


def test_the_best_passage_comes_first(corpus: Corpus) -> None:
    (first, *_) = corpus.find("Where do stereotypes of older people come from?", 3)
    assert (first.title, first.url, first.source) == ("Ageing", "https://example.org/age", "local")
    assert corpus.find("the region of the norman", 1)[0].title == "Normans"


def test_words_are_joined_by_or_so_a_long_query_still_finds(corpus: Corpus) -> None:
    found = corpus.find("Which very long question asks about tea and about nothing else at all?", 4)
    assert [hit.title for hit in found] == ["Tea"]
    scores = [hit.score for hit in corpus.find("tea people region", 4)]
    assert scores == sorted(scores, reverse=True)


def test_a_query_without_a_known_word_finds_nothing(corpus: Corpus) -> None:
    for query in ("", "   ", "?!", "zzz", "\0"):
        assert corpus.find(query, 4) == ()
    assert corpus.find("tea", 0) == ()


def test_letters_that_fold_into_several_are_found(tmp_path: Path) -> None:
    passages = [
        Passage("Wege", "Die alte Straße führt am Fluß entlang."),
        Passage("Berge", "Ein Berg hat Höhe, ein Hügel weniger."),
        Passage("Type", "An e\ufb03cient press."),
    ]
    build(passages, tmp_path / "c")
    corpus = Corpus(tmp_path / "c")
    for query in ("Straße", "straße", "Wo ist der Fluß?"):
        assert [hit.title for hit in corpus.find(query, 3)] == ["Wege"]
    assert [hit.title for hit in corpus.find("HÜGEL", 3)] == ["Berge"]
    assert [hit.title for hit in corpus.find("e\ufb03cient", 3)] == ["Type"]


HOSTILE = [
    'tea" OR "1"="1',
    "tea AND NOT tea",
    "NEAR(tea normandy, 2)",
    "title : tea",
    "tea*",
    "-tea +tea ^tea",
    "'; DROP TABLE passages; --",
    "te\0a",
    "☕ 🍵 tea",
    "\ud800 tea",
    "tea " * 2500,
    "(" * 5000,
    '"' * 999,
    "a" * 10_000,
]


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_find_or_find_nothing(corpus: Corpus, query: str) -> None:
    assert len(corpus.find(query, 3)) <= 3


WORDS = st.sampled_from(["tea", "AND", "OR", "NOT", "NEAR", '"', "'", "*", "(", ")", ":", "^", "-"])


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map(" ".join)))
@example("tea\0\0")
def test_no_query_raises_and_none_writes(query: str) -> None:
    ((corpus, path, written),) = _OPEN
    assert len(corpus.find(query, 2)) <= 2
    assert [p.name for p in path.parent.iterdir()] == ["c.sqlite"]
    assert path.stat().st_mtime_ns == written


@pytest.fixture(scope="module", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("shared") / "c.sqlite"
    build(TEXTS, path)
    _OPEN[:] = [(Corpus(path), path, path.stat().st_mtime_ns)]


_OPEN: list[tuple[Corpus, Path, int]] = []
"""One corpus for all examples, its file, and when that was written."""


async def test_a_folder_is_indexed_once_for_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"title": "A", "text": "Tea."}\n', encoding="utf-8")
    first = opened(f"local:{folder}")
    assert [hit.title for hit in await first.search("tea", 3)] == ["A"]
    made: list[object] = []
    monkeypatch.setattr(local, "build", lambda *given: made.append(given))
    assert opened(f"local:{folder}").digest == first.digest
    assert not made
    monkeypatch.undo()
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    (folder / "a.jsonl").write_text('{"title": "A", "text": "Coffee."}\n', encoding="utf-8")
    changed = opened(f"local:{folder}")
    assert changed.digest != first.digest
    assert await changed.search("tea", 3) == ()


def _build(out: str) -> None:
    build((Passage(f"t{n}", f"word{n} tea") for n in range(3000)), Path(out))


def test_two_processes_build_the_same_corpus_at_once(tmp_path: Path) -> None:
    out = tmp_path / "c.sqlite"
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=_build, args=(str(out),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    assert Corpus(out).passages == 3000
    assert Corpus(out).find("word17", 1)[0].title == "t17"
    assert [p.name for p in tmp_path.iterdir()] == ["c.sqlite"]


def test_backends_are_found_by_being_there() -> None:
    assert set(backend_names()) >= {"local", "none", "replay"}
    with pytest.raises(SearchError, match="is no search; allowed: "):
        opened("google")
    with pytest.raises(SearchError, match="no such file or folder"):
        opened("local:/nowhere/at/all")


def test_the_digest_is_of_what_the_passages_say(tmp_path: Path) -> None:
    _, one = build(TEXTS, tmp_path / "a.sqlite")
    _, same = build(TEXTS, tmp_path / "b.sqlite")
    _, other = build(TEXTS[:2], tmp_path / "c.sqlite")
    assert one == same != other
    assert json.dumps(one)


def test_a_word_of_a_small_corpus_counts_however_many_passages_have_it(tmp_path):
    passages = [Passage(f"t{n}", f"The phone of person {n}.") for n in range(8)]
    passages.append(Passage("rare", "Something else."))
    build(passages, tmp_path / "c")
    corpus = Corpus(tmp_path / "c")
    assert {hit.title for hit in corpus.find("phone else", 9)} == {p.title for p in passages}
