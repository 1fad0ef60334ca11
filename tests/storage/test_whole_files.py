"""Files and folders that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.storage.whole_files import whole_file, whole_folder


def fill_the_disk(scratch: Path) -> None:
    scratch.write_text("half of", encoding="utf-8")
    raise OSError("full")


def test_a_block_that_raises_leaves_the_earlier_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("earlier", encoding="utf-8")
    with pytest.raises(OSError, match="full"), whole_file(path) as scratch:
        fill_the_disk(scratch)
    assert path.read_text(encoding="utf-8") == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_at_the_end_of_its_block(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    with whole_file(path) as scratch:
        scratch.write_text("whole", encoding="utf-8")
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_at_the_end_of_its_block(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "model"
    with whole_folder(path) as scratch:
        (scratch / "weights").write_text("1", encoding="utf-8")
        assert not path.exists()
    assert (path / "weights").read_text(encoding="utf-8") == "1"
    assert list(path.parent.iterdir()) == [path]


def test_of_two_programs_that_make_one_folder_the_first_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with whole_folder(path) as slow:
        (slow / "weights").write_text("slow", encoding="utf-8")
        with whole_folder(path) as fast:
            (fast / "weights").write_text("fast", encoding="utf-8")
    assert (path / "weights").read_text(encoding="utf-8") == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_whose_block_raises_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), whole_folder(tmp_path / "model") as scratch:
        fill_the_disk(scratch / "weights")
    assert list(tmp_path.iterdir()) == []
