"""Corpora that are not what was built: of another layout, cut off, changed; and what they spare."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rldf_ray.search.backend import SearchError, opened
from rldf_ray.search.corpus import Corpus, build
from rldf_ray.search.texts import Passage

TEXTS = [Passage(f"Tea {n}", f"Tea number {n} is drunk hot. " * 40) for n in range(60)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    build(TEXTS, tmp_path / "c.corpus")
    return tmp_path / "c.corpus"


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DROP TABLE about"], "no such table: about"),
        (["DELETE FROM about"], "of another version than 'rldf corpus 1'.*None.*build it again"),
        (["UPDATE about SET value = 'rldf corpus 0' WHERE name = 'format'"], "says 'rldf corpus 0"),
        (["DELETE FROM about WHERE name = 'digest'"], "was changed or cut off"),
        (["DROP TABLE counts"], "no such table: counts"),
        (["DROP TABLE passages"], "no such table: passages"),
        (["DELETE FROM passages WHERE rowid > 30"], "was changed or cut off"),
        (["UPDATE passages SET text = 'Coffee.' WHERE rowid = 1"], "was changed or cut off"),
    ],
)
def test_another_layout_or_another_content_is_refused(
    path: Path, statements: list[str], words: str
) -> None:
    with pytest.raises(SearchError, match=rf"c\.corpus .*{words}"):
        Corpus(changed(path, *statements))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_corpus_cut_off_is_refused_or_says_so_when_it_is_searched(
    path: Path, share: float
) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(SearchError, match=r"c\.corpus .*again with `rldf corpus build`"):
        Corpus(path).find("tea number 59", 3)


def test_a_database_of_somebody_else_is_no_corpus(tmp_path: Path) -> None:
    path = changed(tmp_path / "mine.sqlite", "CREATE TABLE about (name TEXT, value BLOB)")
    with pytest.raises(SearchError, match="of another version"):
        Corpus(path)
    with pytest.raises(SearchError, match=r"mine\.sqlite: there is a file that is no corpus"):
        build(TEXTS, path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM about").fetchone() == (0,)
    with pytest.raises(SearchError, match="no corpus"):
        Corpus(tmp_path / "not there")


def test_nothing_but_a_corpus_is_built_over(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    with pytest.raises(SearchError, match=r"notes\.txt: there is a file that is no corpus"):
        build(TEXTS, notes)
    assert notes.read_text(encoding="utf-8") == "mine"
    with pytest.raises(SearchError, match="is a folder; name a file"):
        build(TEXTS, tmp_path)
    build(TEXTS, tmp_path / "c")
    assert build(TEXTS[:3], tmp_path / "c")[0] == 3
    with pytest.raises(SearchError, match="no passage"):
        build([], tmp_path / "new/c")
    assert not (tmp_path / "new").exists()
    with pytest.raises(SearchError, match=r"notes\.txt/c: the corpus cannot be written"):
        build(TEXTS, notes / "c")


async def test_an_index_that_is_damaged_in_the_cache_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("Tea is drunk hot.", encoding="utf-8")
    digest = opened(f"local:{tmp_path}").digest
    (index,) = (tmp_path / "cache/corpora").iterdir()
    for data in (b"", index.read_bytes()[:5000], b"nonsense"):
        index.write_bytes(data)
        again = opened(f"local:{tmp_path}")
        assert again.digest == digest
        assert len(await again.search("tea", 3)) == 1


def test_titles_of_any_kind_of_name_are_held(tmp_path: Path) -> None:
    # As Python reads a file's name that is not UTF-8.
    build([Passage("caf\udce9", "Tea.\0")], tmp_path / "c")
    assert Corpus(tmp_path / "c").find("tea", 1)[0].title == "caf?"
