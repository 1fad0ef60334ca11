"""PPO that was cut off goes on with the reward functions it began with, whichever machine asks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.stages.ppo import REWARDS, _settle_rewards
from rldf_ray.stages.run import StageError
from rldf_ray.storage.run_folder import RunFolder
from tests.s3_server import as_environment, s3_server


def settled(folder: RunFolder, text: str) -> None:
    run: Any = SimpleNamespace(folder=folder)
    _settle_rewards(run, {"mine.py:score": text})


def test_a_changed_function_is_refused_where_another_machine_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server("bucket") as (url, buckets):
        for name, value in (as_environment(url) | {"RLDF_CACHE": str(tmp_path / "a")}).items():
            monkeypatch.setenv(name, value)
        first = RunFolder.at("s3://bucket/run")
        with first.locked():
            settled(first, "A")
            # A kill leaves what is in the store by now.
            assert f"run/{REWARDS}" in buckets.objects["bucket"]
        for cache in ("a", "b"):
            monkeypatch.setenv("RLDF_CACHE", str(tmp_path / cache))
            again = RunFolder.at("s3://bucket/run")
            with again.locked():
                with pytest.raises(StageError, match=r"mine\.py:score has changed since this PPO"):
                    settled(again, "B")
                settled(again, "A")


def test_a_changed_function_is_refused_in_a_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    settled(folder, "A")
    with pytest.raises(StageError, match="begin again with"):
        settled(folder, "B")
    settled(folder, "A")
