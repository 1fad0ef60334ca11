"""A corpus: passages of one's own texts in one SQLite file with a full-text index (FTS5).

    DIR of .jsonl, .txt, .md, .parquet --> passages --> FILE, built once for what the texts say

Many may read a file at once, and nothing writes to it again. A query's words are quoted and joined
by OR: bare, they would all have to occur, and punctuation would be a syntax error.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rldf_ray.search.backend import Hit, SearchError
from rldf_ray.storage.folders import visible
from rldf_ray.storage.json_lines import parsed_lines, refuse
from rldf_ray.storage.whole_files import whole_file

FORMAT = "rldf corpus 1"
WORDS = 200
"""A passage of a text file has about so many at most; it ends where a paragraph does."""
MOST_WORDS, MOST_TERMS = 1000, 48
"""Different words of a query that are looked at, and of those that count, the rarest first."""
COMMON, RARE = 0.1, 20
"""A word in a greater share of the passages says nothing about any of them; one in so few does."""
TITLE_WEIGHT = 2.0
TOKENIZE = "porter unicode61 remove_diacritics 2"
_WORD = re.compile(r"\w+")
KINDS = (".jsonl", ".txt", ".md", ".parquet")


@dataclass(frozen=True, slots=True)
class Passage:
    title: str
    text: str
    url: str = ""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    text: str = Field(min_length=1)
    title: str = ""
    url: str = Field("", validation_alias=AliasChoices("url", "link"))


def passages_in(folder: Path) -> Iterator[Passage]:
    """The passages of a folder's files, or of one file, by name.

    Raises:
        SearchError, LinesError: there are none, or a file is not what its name says.
    """
    files = [folder] if folder.is_file() else [f for f in visible(folder) if _kind(f)]
    if not files:
        raise SearchError(f"{folder}: holds none of {', '.join(KINDS)} (.gz too)")
    for file in files:
        yield from _passages(file)


def _kind(file: Path) -> str | None:
    suffixes = [s for s in file.suffixes if s != ".gz"]
    return suffixes[-1] if suffixes and suffixes[-1] in KINDS else None


def _passages(file: Path) -> Iterator[Passage]:
    kind = _kind(file)
    if kind == ".jsonl":
        rows, problems = parsed_lines(file, _Line)
        refuse(file, problems)
        yield from (Passage(row.title, row.text, row.url) for row in rows.values())
    elif kind == ".parquet":
        yield from _parquet(file)
    elif kind is not None:
        yield from _text(file)
    else:
        raise SearchError(f"{file}: its name ends in none of {', '.join(KINDS)}")


def _parquet(file: Path) -> Iterator[Passage]:
    table = pq.ParquetFile(file)
    there = set(table.schema_arrow.names)
    if "text" not in there:
        raise SearchError(f"{file}: no column 'text'; it has {', '.join(sorted(there))}")
    columns = [name for name in ("title", "text", "url") if name in there]
    for batch in table.iter_batches(columns=columns):
        for row in batch.to_pylist():
            if row["text"]:
                yield Passage(str(row.get("title") or ""), row["text"], str(row.get("url") or ""))


def _text(file: Path) -> Iterator[Passage]:
    data = file.read_bytes()
    if file.suffix == ".gz":
        data = gzip.decompress(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SearchError(f"{file}: byte {error.start} is not UTF-8") from None
    title = file.name.partition(".")[0]
    held: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        words = len(" ".join(held).split()) + len(paragraph.split())
        if held and words > WORDS:
            yield Passage(title, "\n\n".join(held))
            held = []
        if paragraph.strip():
            held.append(paragraph.strip())
    if held:
        yield Passage(title, "\n\n".join(held))


def build(passages: Iterable[Passage], out: Path) -> tuple[int, str]:
    """Index passages into a file; returns how many there are, and the digest of what they say.

    The file is written beside its place and moved there whole, so that several may build it.

    Raises:
        SearchError: there is no passage.
    """
    hashed, number = hashlib.sha256(), 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as path, closing(sqlite3.connect(path)) as db:
        # A corpus that is not finished is built anew: nothing has to survive a crash.
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute(
            "CREATE VIRTUAL TABLE passages USING fts5("
            f"title, text, url UNINDEXED, tokenize = '{TOKENIZE}')"
        )
        for one in passages:
            cleaned = [part.replace("\0", " ") for part in (one.title, one.text, one.url)]
            db.execute("INSERT INTO passages VALUES (?, ?, ?)", cleaned)
            hashed.update("\0".join(cleaned).encode() + b"\n")
            number += 1
        if not number:
            raise SearchError("no passage: the texts are empty")
        db.execute("INSERT INTO passages(passages) VALUES ('optimize')")
        db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab('passages', 'row')")
        db.execute("CREATE TABLE counts (term TEXT PRIMARY KEY, passages INTEGER) WITHOUT ROWID")
        db.execute("INSERT INTO counts SELECT term, doc FROM terms")
        db.execute("DROP TABLE terms")
        db.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
        digest = hashed.hexdigest()[:16]
        facts = {"format": FORMAT, "passages": str(number), "digest": digest}
        db.executemany("INSERT INTO about VALUES (?, ?)", facts.items())
        db.commit()
    return number, digest


class Corpus:
    """An open corpus; several threads may search it.

    Raises:
        SearchError: the file is no corpus.
    """

    def __init__(self, path: Path, name: str = "local") -> None:
        self._path, self._name = path, name
        self._lock = threading.Lock()
        try:
            # Nothing writes to it: no lock, no journal, no file beside it.
            address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
            self._db = sqlite3.connect(address, uri=True, check_same_thread=False)
            facts = dict(self._db.execute("SELECT name, value FROM about"))
        except sqlite3.Error as error:
            raise SearchError(
                f"{path} is no corpus ({error}): `rldf corpus build` makes one"
            ) from None
        if facts.get("format") != FORMAT:
            raise SearchError(f"{path} is a corpus of another version: build it again")
        self.digest: str = facts["digest"]
        self.passages = int(facts["passages"])
        self._stems = sqlite3.connect(":memory:", check_same_thread=False)
        self._stems.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize = '{TOKENIZE}')")
        self._stems.execute("CREATE VIRTUAL TABLE stems USING fts5vocab('words', 'instance')")

    @property
    def name(self) -> str:
        return self._name

    def find(self, query: str, k: int) -> tuple[Hit, ...]:
        """The `k` best passages at most, best first; none for a query without a known word."""
        if k < 1:
            return ()
        with self._lock:
            words = self._telling(query)
            if not words:
                return ()
            rows = self._db.execute(
                "SELECT title, text, url, bm25(passages, ?, 1.0) AS rank FROM passages "
                "WHERE passages MATCH ? ORDER BY rank, rowid LIMIT ?",
                (TITLE_WEIGHT, " OR ".join(f'"{word}"' for word in words), k),
            ).fetchall()
        return tuple(
            Hit(title=title, text=text, url=url, score=-rank, source=self._name)
            for title, text, url, rank in rows
        )

    def _telling(self, query: str) -> list[str]:
        """The rarest words of a query that the corpus has; common ones where it has no others."""
        words = list(dict.fromkeys(_WORD.findall(query.casefold())))[:MOST_WORDS]
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
