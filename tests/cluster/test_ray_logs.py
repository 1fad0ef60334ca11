"""Ray's logs are copied without a word of anybody else's, and never in the way of anything."""

from __future__ import annotations

import logging
import os
import resource
import signal
from pathlib import Path

import pytest

from rldf_ray.cluster import ray_logs
from rldf_ray.cluster.ray_logs import keep_logs, link_logs


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "session/logs"
    (folder / "old").mkdir(parents=True)
    folder.chmod(0o777)
    (folder / "raylet.out").write_text("up", encoding="utf-8")
    (folder / "old/worker.err").write_text("down", encoding="utf-8")
    return folder


def copied(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


OURS = {"raylet.out": "up", "old/worker.err": "down"}


def test_our_files_are_copied_into_a_folder_that_is_ours_alone(logs: Path, tmp_path: Path) -> None:
    link_logs(logs, tmp_path / "run/logs/ray")
    assert (tmp_path / "run/logs/ray").resolve() == logs
    keep_logs(logs, tmp_path / "run/logs/ray")
    assert copied(tmp_path / "run/logs/ray") == OURS
    assert not (tmp_path / "run/logs/ray").stat().st_mode & 0o022


def test_links_pipes_and_second_names_are_left_out(logs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "home/id_rsa"
    secret.parent.mkdir()
    secret.write_text("a key", encoding="utf-8")
    (logs / "link").symlink_to(secret)
    (logs / "folder").symlink_to(secret.parent)
    (logs / "hard").hardlink_to(secret)
    os.mkfifo(logs / "pipe")
    keep_logs(logs, tmp_path / "kept")
    assert copied(tmp_path / "kept") == OURS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_others_are_left_out(logs: Path, tmp_path: Path) -> None:
    (logs / "theirs").write_text("x", encoding="utf-8")
    os.chown(logs / "theirs", 12345, 12345)
    keep_logs(logs, tmp_path / "kept")
    assert copied(tmp_path / "kept") == OURS


def test_of_much_a_part_is_kept(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_logs, "FILE_BYTES", 3)
    keep_logs(logs, tmp_path / "ends")
    assert copied(tmp_path / "ends") == {"raylet.out": "up", "old/worker.err": "own"}
    for name, most in (("ALL_BYTES", 1), ("FILES", 1)):
        with monkeypatch.context() as less:
            less.setattr(ray_logs, name, most)
            keep_logs(logs, tmp_path / name)
        assert len(copied(tmp_path / name)) == 1


def test_a_full_disk_is_a_warning(
    logs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with caplog.at_level(logging.WARNING):
            keep_logs(logs, tmp_path / "kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert "were not all copied" in caplog.text


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    keep_logs(tmp_path / "gone", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
