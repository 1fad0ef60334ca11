"""The lock of a run in an object store: its holder is one program, not one host."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.storage.lock import RunInUseError, StoreLock
from rldf_ray.storage.object_store import ObjectStore


def test_a_program_of_the_same_host_that_took_over_is_another_holder(tmp_path: Path) -> None:
    """Host and process are those of this test for both: only the token differs."""
    store = ObjectStore(tmp_path.as_uri())
    first, second = StoreLock(store, beat_s=0.0), StoreLock(store, beat_s=0.0)
    first.take()
    first.check()
    second.take()  # the first has given no sign of life
    second.check()
    with pytest.raises(RunInUseError, match="in use by another rldf program"):
        first.check()
    assert first.lost and not second.lost


def test_a_lock_that_was_given_back_is_nobodys(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path.as_uri())
    lock = StoreLock(store, beat_s=0.0)
    lock.take()
    lock.give_back()
    with pytest.raises(RunInUseError):
        lock.check()
