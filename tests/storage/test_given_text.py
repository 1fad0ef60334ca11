"""Text files that people give."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rldf_ray.storage.given_text import TextError, given_text

TEXT = "Ein Satz: äöü.\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", TEXT.encode()),
        ("a.txt", TEXT.encode("utf-8-sig")),
        ("a.txt.gz", gzip.compress(TEXT.encode())),
        ("a.txt", gzip.compress(TEXT.encode())),
    ],
    ids=["plain", "marked", "gzip", "gzip by content"],
)
def test_the_text_of_a_file(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert given_text(tmp_path / name) == TEXT


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", TEXT.encode("latin-1"), r"a\.txt: byte 10 is not UTF-8; save it as UTF-8"),
        ("a.txt", TEXT.encode("utf-16"), r"a\.txt: byte 0 is not UTF-8"),
        ("a.txt", b"t\0e\0a\0", r"a\.txt: byte 1 is NUL"),
        ("a.txt.gz", TEXT.encode(), r"a\.txt\.gz: broken gzip file \(Not a gzipped"),
        ("a.txt.gz", gzip.compress(TEXT.encode())[:-9], r"a\.txt\.gz: broken gzip file"),
        ("a.txt", b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff", r"a\.txt: broken gzip file"),
    ],
    ids=["latin", "utf-16 with its mark", "utf-16", "no gzip", "truncated", "garbage"],
)
def test_what_is_no_text_is_named_with_the_place(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TextError, match=words):
        given_text(tmp_path / name)
