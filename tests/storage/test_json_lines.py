"""Files of one JSON object a line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pydantic import BaseModel

from rldf_ray.storage.json_lines import LISTED, LinesError, numbered_lines, parsed_lines, refuse


class Row(BaseModel):
    text: str


def written(folder: Path, content: bytes, name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_blank_lines_count_and_are_no_rows(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"text": "a"}\r\n\n  \n{"text": "b"}')
    rows, problems = parsed_lines(path, Row)
    assert {number: row.text for number, row in rows.items()} == {1: "a", 4: "b"}
    assert not problems


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_what_only_unicode_calls_a_new_line_is_part_of_a_text(sign: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'{{"text": "a{sign}b"}}\n'.replace("\x0c", "\\f").encode())
    rows, _ = parsed_lines(path, Row)
    assert [row.text for row in rows.values()] == [f"a{sign}b"]


def test_what_is_compressed_is_read_as_well(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"text": "a"}\n')
    assert list(numbered_lines(written(tmp_path, whole, "x.jsonl.gz"))) == [(1, '{"text": "a"}')]
    for broken in (whole[:-9], b"no gzip"):
        with pytest.raises(LinesError, match=r"x\.jsonl\.gz, after line \d: broken gzip file"):
            list(numbered_lines(written(tmp_path, broken, "x.jsonl.gz")))


def test_other_encodings_are_refused_by_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "a"}\n{"text": "é"}\n'.encode("latin-1"))
    with pytest.raises(LinesError, match=r"mine\.jsonl, line 2: .*; allowed: UTF-8 text"):
        parsed_lines(path, Row)


def test_wrong_lines_are_named_with_what_they_hold_and_the_many_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"text": "a"}\n' + b'{"text": 1}\n' * (LISTED + 2) + b"{\n")
    rows, problems = parsed_lines(path, Row)
    assert list(rows) == [1] and problems[2].startswith("text: ") and "found 1" in problems[2]
    assert "Invalid JSON" in problems[LISTED + 4] and "line 1" not in problems[LISTED + 4]
    with pytest.raises(LinesError) as error:
        refuse(path, problems)
    lines = str(error.value).splitlines()
    assert lines[0].startswith(f"{path}, line 2: text: ")
    assert len(lines) == LISTED + 1 and lines[-1] == "and 3 more lines"
    refuse(path, {})
