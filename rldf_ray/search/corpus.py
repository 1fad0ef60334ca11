"""A corpus: passages of one's own texts in one SQLite file with a full-text index (FTS5).

    passages (texts.py) --> FILE, built once for what the texts say --> hits of many queries

Many may read a file at once, and nothing writes to it again. A query's words are quoted and joined
by OR: bare, they would all have to occur, and punctuation would be a syntax error.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from rldf_ray.search.backend import Hit, SearchError
from rldf_ray.search.texts import Passage
from rldf_ray.storage.whole_files import whole_file

FORMAT = "rldf corpus 1"
MOST_WORDS, MOST_TERMS = 1000, 48
"""Different words of a query that are looked at, and of those that count, the rarest first."""
COMMON, RARE = 0.1, 20
"""A word in a greater share of the passages says nothing about any of them; one in so few does."""
TITLE_WEIGHT = 2.0
TOKENIZE = "porter unicode61 remove_diacritics 2"
_WORD = re.compile(r"\w+")


def build(passages: Iterable[Passage], out: Path) -> tuple[int, str]:
    """Index passages into a file; returns how many there are, and the digest of what they say.

    The file is written beside its place and moved there whole, so that several may build it.

    Raises:
        SearchError: there is no passage, something else lies at `out`, or it cannot be written.
    """
    _check_place(out)
    rest = iter(passages)
    first = next(rest, None)
    if first is None:
        raise SearchError("no passage: the texts are empty")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out) as path, closing(sqlite3.connect(path)) as db:
            return _write(chain([first], rest), db)
    except (sqlite3.Error, OSError) as error:
        raise SearchError(f"{out}: the corpus cannot be written ({error})") from error


def _check_place(out: Path) -> None:
    """Nothing where `out` is free, or a corpus that may be built anew.

    Raises:
        SearchError: something else lies there, which would be lost.
    """
    if out.is_dir():
        raise SearchError(f"{out}: is a folder; name a file for the corpus")
    if out.exists():
        try:
            with closing(_connected(out)) as db:
                known = _facts(db).get("format", "").startswith(FORMAT.rpartition(" ")[0])
        except (sqlite3.Error, AttributeError):
            known = False
        if not known:
            raise SearchError(f"{out}: there is a file that is no corpus; name another place")


def _write(passages: Iterable[Passage], db: sqlite3.Connection) -> tuple[int, str]:
    """Fill an empty database."""
    # A corpus that is not finished is built anew: nothing has to survive a crash.
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute(
        "CREATE VIRTUAL TABLE passages USING fts5("
        f"title, text, url UNINDEXED, tokenize = '{TOKENIZE}')"
    )
    rows = (tuple(map(_cleaned, (one.title, one.text, one.url))) for one in passages)
    db.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
    db.execute("INSERT INTO passages(passages) VALUES ('optimize')")
    db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab('passages', 'row')")
    db.execute("CREATE TABLE counts (term TEXT PRIMARY KEY, passages INTEGER) WITHOUT ROWID")
    db.execute("INSERT INTO counts SELECT term, doc FROM terms")
    db.execute("DROP TABLE terms")
    db.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
    number, digest = _content(db)
    facts = {"format": FORMAT, "passages": str(number), "digest": digest}
    db.executemany("INSERT INTO about VALUES (?, ?)", facts.items())
    db.commit()
    return number, digest


def _cleaned(part: str) -> str:
    """What SQLite can hold: no NUL, no half of a surrogate pair (of a file's name, say)."""
    return part.replace("\0", " ").encode("utf-8", "replace").decode()


def _content(db: sqlite3.Connection) -> tuple[int, str]:
    """How many passages there are, and the digest of what they say."""
    hashed, number = hashlib.sha256(), 0
    for title, text, url in db.execute("SELECT title, text, url FROM passages ORDER BY rowid"):
        hashed.update(f"{title}\0{text}\0{url}\n".encode())
        number += 1
    return number, hashed.hexdigest()[:16]


def _facts(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, value FROM about"))


def _connected(path: Path) -> sqlite3.Connection:
    """Nothing writes to a corpus: no lock, no journal, no file beside it."""
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


class Corpus:
    """An open corpus; several threads may search it.

    It is read through once when it is opened, so that its digest is of what it says now.

    Attributes:
        passages: how many there are.

    Raises:
        SearchError: the file is no corpus, or not what was built.
    """

    def __init__(self, path: Path, name: str = "local") -> None:
        self._path, self._name = path, name
        self._lock = threading.Lock()
        try:
            self._db = _connected(path)
        except sqlite3.Error as error:
            raise self._damaged(error) from None
        try:
            self.passages, self.digest = self._checked()
        except BaseException:
            self._db.close()
            raise
        self._stems = sqlite3.connect(":memory:", check_same_thread=False)
        self._stems.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize = '{TOKENIZE}')")
        self._stems.execute("CREATE VIRTUAL TABLE stems USING fts5vocab('words', 'instance')")

    def _checked(self) -> tuple[int, str]:
        try:
            facts = _facts(self._db)
            if facts.get("format") != FORMAT:
                raise SearchError(
                    f"{self._path} is a corpus of another version than {FORMAT!r} (it says "
                    f"{facts.get('format')!r}): build it again with `rldf corpus build`"
                )
            self._db.execute("SELECT passages FROM counts WHERE term = ''")
            number, digest = _content(self._db)
        except sqlite3.Error as error:
            raise self._damaged(error) from None
        # SQLite reads zeros where its last page is cut off.
        (pages,), (size,) = (
            self._db.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size")
        )
        if facts.get("digest") != digest or self._path.stat().st_size != pages * size:
            raise SearchError(
                f"{self._path} was changed or cut off after it was built (digest {digest}, "
                f"of {facts.get('digest')}): build it again with `rldf "
                "corpus build`"
            )
        return number, digest

    def _damaged(self, error: sqlite3.Error) -> SearchError:
        return SearchError(
            f"{self._path} is no corpus, or a damaged one ({error}): build it again with `rldf "
            "corpus build`"
        )

    @property
    def name(self) -> str:
        return self._name

    def find(self, query: str, k: int) -> tuple[Hit, ...]:
        """The `k` best passages at most, best first; none for a query without a known word.

        Raises:
            SearchError: the index is damaged.
        """
        if k < 1:
            return ()
        try:
            with self._lock:
                rows = self._ranked(self._telling(query), k)
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return tuple(
            Hit(title=title, text=text, url=url, score=-rank, source=self._name)
            for title, text, url, rank in rows
        )

    def _ranked(self, words: list[str], k: int) -> list[tuple[str, str, str, float]]:
        if not words:
            return []
        return self._db.execute(
            "SELECT title, text, url, bm25(passages, ?, 1.0) AS rank FROM passages "
            "WHERE passages MATCH ? ORDER BY rank, rowid LIMIT ?",
            (TITLE_WEIGHT, " OR ".join(f'"{word}"' for word in words), k),
        ).fetchall()

    def _telling(self, query: str) -> list[str]:
        """The rarest words of a query that the corpus has; common ones where it has no others."""
        # The tokenizer folds the rest; what casefold() makes of ß or a ligature is in no index.
        words = list(dict.fromkeys(_WORD.findall(query.lower())))[:MOST_WORDS]
        counted: dict[str, tuple[int, str]] = {}
        for word, stem in self._stemmed(words):
            row = self._db.execute("SELECT passages FROM counts WHERE term = ?", (stem,)).fetchone()
            if row is not None:
                counted.setdefault(stem, (row[0], word))
        ranked = sorted(counted.values())
        telling = [word for number, word in ranked if number <= max(RARE, COMMON * self.passages)]
        return (telling or [word for _, word in ranked])[:MOST_TERMS]

    def _stemmed(self, words: list[str]) -> list[tuple[str, str]]:
        """Each word with what the index has for it; one that it splits has several."""
        self._stems.execute("DELETE FROM words")
        rows = ((place, word) for place, word in enumerate(words))
        self._stems.executemany("INSERT INTO words(rowid, word) VALUES (?, ?)", rows)
        found = self._stems.execute("SELECT doc, term FROM stems ORDER BY doc").fetchall()
        return [(words[place], stem) for place, stem in found]

    def close(self) -> None:
        self._db.close()
        self._stems.close()
