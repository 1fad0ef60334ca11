"""What an engine on another node is sent is there as it was, and nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rldf_ray.cluster import shared_memory
from rldf_ray.engines.sent import Received


def of(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def test_what_came_last_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "SHARED", tmp_path)
    received = Received()
    folder = received.folder({"model.safetensors": of(b"first"), "config.json": of(b"{}")})
    assert folder.parent == tmp_path
    inode = (folder / "model.safetensors").stat().st_ino
    assert received.folder({"model.safetensors": of(b"other")}) == folder
    assert (folder / "model.safetensors").read_bytes() == b"other"
    # The same pages: an earlier file may still be mapped.
    assert (folder / "model.safetensors").stat().st_ino == inode
    received.folder({"model.safetensors": of(b"longer than before")})
    assert (folder / "model.safetensors").read_bytes() == b"longer than before"
    received.close()
    assert not list(tmp_path.iterdir())


def test_the_memory_of_an_engine_that_was_killed_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED", tmp_path)
    left = tmp_path / f"{shared_memory.PREFIX}left"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"weights")
    received = Received()
    folder = received.folder({"model.safetensors": of(b"new")})
    assert list(tmp_path.iterdir()) == [folder]
    received.close()
