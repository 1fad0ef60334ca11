"""The lock's file: made, held, never written to, and never another one's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldf_ray.apps.serve.keys import add_key
from rldf_ray.errors import UserError
from rldf_ray.storage.file_lock import LockFileError, file_lock
from rldf_ray.storage.run_folder import RunFolder


def test_a_file_that_is_there_keeps_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("somebody's", encoding="utf-8")
    with (
        file_lock(tmp_path / "lock", wait=True),
        pytest.raises(BlockingIOError),
        file_lock(tmp_path / "lock", wait=False),
    ):
        pytest.fail("locked twice")
    assert (tmp_path / "lock").read_text(encoding="utf-8") == "somebody's"


def run_folder(folder: Path) -> None:
    with RunFolder(folder).locked():
        pass


def keys(folder: Path) -> None:
    add_key(folder / "keys.json", "a", None, None)


@pytest.mark.parametrize(("use", "name"), [(run_folder, ".lock"), (keys, ".keys.json.lock")])
def test_a_link_in_place_of_a_lock_is_refused_and_what_it_leads_to_is_kept(
    use: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    folder, target = tmp_path / "run", tmp_path / "thesis.tex"
    folder.mkdir()
    target.write_text("years of work", encoding="utf-8")
    (folder / name).symlink_to(target)
    with pytest.raises(UserError, match=rf"{name} is to be a lock, and is a link.*remove it"):
        use(folder)
    assert target.read_text(encoding="utf-8") == "years of work"


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockFileError), file_lock(tmp_path / "lock", wait=True):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(LockFileError, match="remove it"), file_lock(tmp_path / "lock", wait=True):
        pass
