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


def test_of_two_that_write_one_file_in_one_process_the_last_to_finish_wins(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    with whole_file(path) as slow:
        slow.write_text("slow", encoding="utf-8")
        with whole_file(path) as fast:
            assert not fast.exists()
            fast.write_text("fast", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "fast"
        assert slow.read_text(encoding="utf-8") == "slow"
    assert path.read_text(encoding="utf-8") == "slow"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_kill_left_of_a_file_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    with whole_file(path) as scratch:
        left = scratch
        scratch.write_text("left", encoding="utf-8")
    left.write_text("left", encoding="utf-8")
    with whole_file(path) as scratch:
        assert not scratch.exists()
        scratch.write_text("whole", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "whole"


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
