"""Libraries get a home where the user has none that can be written, and only there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rldf_ray.cluster.home import FOLDERS, writable_home

MOVED = ("RAY_AUTH_TOKEN", *FOLDERS)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*MOVED, "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in MOVED if name in os.environ}


def test_a_home_that_can_be_written_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with writable_home():
        assert variables() == {}


def test_otherwise_what_libraries_write_goes_elsewhere_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_HOME", "mine")
    with writable_home():
        moved = variables()
        assert moved.keys() == {*MOVED} and moved["TRITON_HOME"] == "mine"
        assert len(moved["RAY_AUTH_TOKEN"]) == 32
        scratch = Path(moved["MPLCONFIGDIR"]).parent
        assert scratch.is_dir() and not scratch.stat().st_mode & 0o077
    assert variables() == {"TRITON_HOME": "mine"} and not scratch.exists()


def test_a_token_that_lies_elsewhere_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "missing/home"))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "token")
    with writable_home():
        assert "RAY_AUTH_TOKEN" not in os.environ
