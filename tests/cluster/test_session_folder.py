"""A folder for temporary files that Ray's sockets cannot be in is refused before Ray starts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.cluster.session_folder import SessionFolderError, check_session_folder
from rldf_ray.preflight.checks import check_inputs
from rldf_ray.preflight.doctor import examine
from tests.fakes import plan_with


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_TMPDIR", "TMPDIR", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)


def long(folder: Path, size: int) -> str:
    path = f"{folder}/{'d' * (size - len(str(folder)) - 1)}"
    Path(path).mkdir()
    return path


@pytest.fixture
def short() -> Path:
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("variable", ["RAY_TMPDIR", "TMPDIR"])
def test_a_path_with_room_for_sockets_does(
    short: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    assert check_session_folder() == "/tmp"
    room = 107 - len(f"/ray/session_2030-01-01_00-00-00_000000_{os.getpid()}/sockets/plasma_store")
    monkeypatch.setenv(variable, long(short, room))
    assert check_session_folder() == os.environ[variable]
    monkeypatch.setenv(variable, long(short, room + 1))
    with pytest.raises(SessionFolderError, match=rf"{variable}=.*has {room + 1} bytes.*for {room}"):
        check_session_folder()
    # Of a cluster that is joined, nothing is put there.
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    check_session_folder()


def test_what_ray_has_of_its_own_leaves_the_engines(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    monkeypatch.setenv("TMPDIR", long(short, 80))
    with pytest.raises(SessionFolderError, match=r"^TMPDIR=.*vLLM's sockets"):
        check_session_folder()


def test_it_is_said_before_anything_starts(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", long(short, 90))
    with pytest.raises(SessionFolderError, match="such as /tmp"):
        check_inputs(plan_with(), tmp_path)
    with pytest.raises(SessionFolderError, match="such as /tmp"), ray_cluster(tmp_path):
        pass
    (check,) = [c for c in examine(plan_with(), tmp_path) if c.name == "temporary folder"]
    assert not check.ok and "TMPDIR" in check.found


def test_a_folder_that_is_none_is_named(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (short / "file").touch()
    monkeypatch.setenv("RAY_TMPDIR", str(short / "file"))
    with pytest.raises(SessionFolderError, match="set RAY_TMPDIR to a folder of your own"):
        check_session_folder()
    monkeypatch.setenv("RAY_TMPDIR", str(short / "not-yet"))
    assert check_session_folder().endswith("not-yet")
