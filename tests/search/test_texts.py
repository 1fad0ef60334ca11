"""Texts as passages; what is no text is named by file, place and what to do."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rldf_ray.apps.serve.launch import check_corpora
from rldf_ray.apps.serve.settings import SettingsError, read_settings
from rldf_ray.cli import app
from rldf_ray.errors import UserError
from rldf_ray.search.backend import SearchError, opened
from rldf_ray.search.backends import local
from rldf_ray.search.texts import WORDS, passages_in
from tests.rights import without_rights


def test_folders_of_texts(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"title": "A", "text": "Alpha."}\n', encoding="utf-8")
    with gzip.open(folder / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"text": "Beta.", "link": "https://example.org"}\n')
    (folder / "c.txt").write_text(
        "Gamma.\n\n" + "word " * 190 + "\n\nDelta " * 20, encoding="utf-8"
    )
    (folder / "d.md").write_text("# Epsilon\n", encoding="utf-8")
    pq.write_table(pa.table({"text": ["Zeta.", ""], "title": ["Z", "none"]}), folder / "e.parquet")
    (folder / ".hidden.txt").write_text("no", encoding="utf-8")
    (folder / "f.pdf").write_bytes(b"%PDF")
    (folder / "g.txt").mkdir()
    found = list(passages_in(folder))
    assert [p.title for p in found] == ["A", "", "c", "c", "d", "Z"]
    assert found[1].url == "https://example.org"
    assert all(len(p.text.split()) <= 220 for p in found)


def test_rows_of_lines_and_of_tables_are_read_alike(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": "Alpha.", "title": "A", "url": "https://example.org/a", "link": None},
        {"text": "Beta.", "title": None, "url": None, "link": "https://example.org/b"},
        {"text": "Gamma.", "title": 3, "url": None, "link": None},
    ]
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    table = tmp_path / "a.parquet"
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["title"] = ["A", None, "3"]
    table.write_bytes(parquet(columns))
    found = list(passages_in(lines))
    assert found == list(passages_in(table))
    assert [(p.title, p.url) for p in found] == [
        ("A", "https://example.org/a"),
        ("", "https://example.org/b"),
        ("3", ""),
    ]


@pytest.mark.parametrize("name", ["Dr. Who.txt", "Dr. Who.txt.gz", "Dr. Who.md"])
def test_a_file_is_called_by_its_name_without_its_kind(name: str, tmp_path: Path) -> None:
    data = b"Who?"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert [p.title for p in passages_in(tmp_path)] == ["Dr. Who"]


@given(
    st.lists(
        st.lists(st.sampled_from(["tea", "hot.", "why?", "sure.)"]), min_size=1, max_size=700),
        min_size=1,
        max_size=4,
    )
)
def test_passages_of_a_text_are_all_of_it_in_few_words(paragraphs: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_text("\n\n".join(map(" ".join, paragraphs)), encoding="utf-8")
        found = [p.text for p in passages_in(path)]
    assert " ".join(found).split() == [word for some in paragraphs for word in some]
    assert all(len(text.split()) <= WORDS for text in found)


def test_a_long_paragraph_ends_with_a_sentence_where_it_can(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    sentences = [f"{'word ' * 29}end{n}." for n in range(20)]
    path.write_text(f"{' '.join(sentences)}\n\n{'word ' * 450}", encoding="utf-8")
    found = [p.text for p in passages_in(path)]
    assert [len(text.split()) for text in found] == [180, 180, 180, 60, 200, 200, 50]
    assert all(text.endswith(".") for text in found[:4])


def parquet(table: dict[str, list[object]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(table), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


WHOLE = parquet({"text": ["Some words about tea." * 99] * 50})
SQLITE = b"SQLite format 3\0" + bytes(range(256)) * 40

ODD: dict[str, tuple[str, bytes, str]] = {
    "parquet that is none": ("a.parquet", b"PAR1 no", r"a\.parquet: not a Parquet file, or dama"),
    "parquet cut off": ("a.parquet", WHOLE[:-20], r"a\.parquet: not a Parquet file, or damaged"),
    "parquet with a hole": (
        "a.parquet",
        WHOLE[:8] + bytes(60) + WHOLE[68:],
        r"a\.parquet: not a Parquet file, or damaged",
    ),
    "parquet without text": (
        "a.parquet",
        parquet({"body": ["x"]}),
        r"a\.parquet: no column text; found: body",
    ),
    "parquet of numbers": (
        "a.parquet",
        parquet({"text": [1]}),
        r"a\.parquet: the column 'text' holds int64; allowed: string",
    ),
    "parquet, empty": ("a.parquet", parquet({"text": [None]}), r"no text in .*a\.parquet"),
    "gzip that is none": ("a.txt.gz", b"plain", r"a\.txt\.gz: broken gzip file"),
    "lines, gzip that is none": ("a.jsonl.gz", b"{}", r"a\.jsonl\.gz, after line 0: broken gzip"),
    "lines, gzip cut off": (
        "a.jsonl.gz",
        gzip.compress(b'{"text": "x"}\n')[:-8],
        r"a\.jsonl\.gz, after line \d: broken gzip",
    ),
    "a line that is no object": (
        "a.jsonl",
        b'{"text": "x"}\n["x"]\n',
        r"a\.jsonl, line 2: Input should be an object",
    ),
    "a line that is no JSON": ("a.jsonl", b'{"text": "x"}\n\n{"te', r"a\.jsonl, line 3: Invalid"),
    "a line without text": ("a.jsonl", b'{"title": "x"}', r"a\.jsonl, line 1: text: Field req"),
    "a line of blanks": ("a.jsonl", b'{"text": " "}', r"a\.jsonl, line 1: text: .*nothing in it"),
    "a line of no text": ("a.jsonl", b'{"text": []}', r"a\.jsonl, line 1: text: .*valid string"),
    "half a surrogate": ("a.jsonl", rb'{"text": "\ud800"}', r"a\.jsonl, line 1: Invalid JSON"),
    "lines in Latin-1": (
        "a.jsonl",
        '{"text": "x"}\n{"text": "ä"}'.encode("latin-1"),
        r"a\.jsonl, line 2: .*allowed: UTF-8 text",
    ),
    "text in Latin-1": ("a.txt", "Tee, hä".encode("latin-1"), r"a\.txt: byte 6 is not UTF-8; save"),
    "text in UTF-16": ("a.md", "Tee".encode("utf-16-le"), r"a\.md: byte 1 is NUL"),
    "an empty file": ("a.txt", b"", r"no passage: there is no text in .*a\.txt"),
    "another kind": ("a.pdf", b"%PDF", r"holds none of \.jsonl"),
}


def build_(path: Path) -> None:
    """As the command line does; what is no expected error is a failure of the test."""
    out = path.parent / "made/c.corpus"
    done = CliRunner().invoke(app, ["corpus", "build", str(path), "--out", str(out)])
    assert done.exit_code, done.output
    assert not out.parent.exists() or not list(out.parent.iterdir())
    assert done.exception is not None
    raise done.exception


def search(path: Path) -> None:
    done = CliRunner().invoke(app, ["corpus", "search", str(path), "tea"])
    assert done.exception is not None, done.output
    raise done.exception


def open_for_a_study(path: Path) -> None:
    opened(f"local:{path}")


def serve(path: Path) -> None:
    check_corpora(
        read_settings({"models": {"policy": {"folder": "p"}}, "corpora": {"mine": str(path)}})
    )


WAYS = [build_, search, open_for_a_study, serve]
Way = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("RLDF_CACHE", str(cache))
    return cache


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "data", "words"), ODD.values(), ids=ODD)
def test_what_is_no_text_is_named_and_nothing_half_made_stays(
    tmp_path: Path, name: str, data: bytes, words: str, way: Way
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / name).write_bytes(data)
    with pytest.raises(UserError, match=words) as raised:
        way(folder)
    assert str(folder) in str(raised.value)
    assert way is not serve or isinstance(raised.value, SettingsError)
    assert not list((tmp_path / "cache").rglob("*.sqlite*"))
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize("way", WAYS)
def test_folders_that_are_not_there_or_empty_or_closed(tmp_path: Path, way: Way) -> None:
    with pytest.raises(UserError, match="nowhere: no such file or folder"):
        way(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: holds none of \.jsonl, .*folders of it"):
        way(tmp_path / "empty")


@pytest.mark.parametrize("name", ["closed", "closed.txt"])
@pytest.mark.parametrize("way", [build_, lambda path: local.opened(str(path))])
def test_texts_that_one_has_no_right_to(way: Way, name: str) -> None:
    with (
        without_rights(name) as path,
        pytest.raises(UserError, match=rf"{name}: cannot be read \(Permission denied\); have"),
    ):
        way(path)


@pytest.mark.parametrize("way", [search, open_for_a_study, serve])
def test_a_file_that_is_neither_a_corpus_nor_a_text(tmp_path: Path, way: Way) -> None:
    path = tmp_path / "my.corpus"
    for data in (b"", b"half", b"SQLite format"):
        path.write_bytes(data)
        with pytest.raises(SearchError if way is not serve else UserError, match="neither a corpu"):
            way(path)
    path.write_bytes(SQLITE)
    with pytest.raises(UserError, match=r"my\.corpus is no corpus, or a damaged one \(.*again"):
        way(path)
