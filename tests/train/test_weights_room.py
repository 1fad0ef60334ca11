"""Weights go to the engines through whatever has room for them: 64 MB of shared memory are few."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rldf_ray.cluster import shared_memory
from rldf_ray.cluster.placement import Resources
from rldf_ray.cluster.shared_memory import NoRoomError, place_for
from rldf_ray.preflight.memory import check_shared_memory
from rldf_ray.train.ppo.weight_sync import Policy, shared_memory_sync, write_in_place
from tests.fakes import plan_with

MB = 2**20


class Places:
    """Shared memory and a folder for temporary files, with so many MB free."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free: dict[Path, float] = {folder / "shm": 64, folder / "tmp": 900}
        self.shared, self.temporary = self.free
        for place in self.free:
            place.mkdir()
        monkeypatch.setattr(shared_memory, "places", lambda: list(self.free))
        for module in ("rldf_ray.train.ppo.weight_sync",):
            monkeypatch.setattr(f"{module}.places", lambda: list(self.free))
        monkeypatch.setattr(
            shutil,
            "disk_usage",
            lambda path: SimpleNamespace(free=self.free.get(Path(path), 10**6) * MB),
        )


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    return Places(tmp_path, monkeypatch)


class Pool:
    """Engines that read the weights they are sent."""

    def __init__(self) -> None:
        self.read: list[tuple[Path, float]] = []

    def sync_weights(self, folder: str, revision: str, *, everywhere: bool = True) -> None:
        file = Path(folder) / "model.safetensors"
        self.read.append((file.parent.parent, float(load_file(file)["a"][0])))


def test_the_first_place_with_room_is_taken(places: Places) -> None:
    assert place_for(40 * MB) == places.shared
    assert place_for(60 * MB) == places.temporary
    places.free = dict.fromkeys(places.free, 8)
    with pytest.raises(NoRoomError, match=r"40 MB of weights.*8 MB free.*--shm-size.*TMPDIR"):
        place_for(40 * MB)


@pytest.mark.parametrize(("elements", "number"), [(10, 0), (20 * MB, 1)])
def test_weights_go_where_they_have_room(places: Places, elements: int, number: int) -> None:
    pool: Any = Pool()
    place = list(places.free)[number]
    with shared_memory_sync(pool) as sync:
        for value in (1.0, 2.0):
            sync.sync(Policy({"a": torch.full((elements,), value)}), f"ppo-{value}")
            # What it takes itself does not drive it away.
            places.free[place] = 0
    assert pool.read == [(place, 1.0), (place, 2.0)]
    assert [list(folder.iterdir()) for folder in places.free] == [[], []]


def test_no_room_is_an_error_before_anything_is_written(places: Places) -> None:
    places.free = dict.fromkeys(places.free, 1)
    with shared_memory_sync(Pool()) as sync, pytest.raises(NoRoomError):  # type: ignore[arg-type]
        sync.sync(Policy({"a": torch.ones(MB)}), "ppo-1")
    assert [list(folder.iterdir()) for folder in places.free] == [[], []]


def test_pages_are_taken_before_they_are_written_to(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_in_place({"a": torch.zeros(MB)}, path)
    assert path.stat().st_blocks * 512 >= path.stat().st_size > 4 * MB


WRITES = """
import resource, sys, torch
from pathlib import Path
from rldf_ray.train.ppo.weight_sync import write_in_place
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    write_in_place({"a": torch.ones(2**20)}, Path(sys.argv[1]))
except OSError as error:
    print("refused", error.errno)
"""


def test_a_place_that_fills_up_is_an_error_and_no_signal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(tmp_path / "model.safetensors")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.startswith("refused"), done.stderr


def test_doctor_says_where_they_will_go(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = Resources(4, 0, 64)
    assert f"through {places.temporary}, slower" in check_shared_memory(plan_with(), here)
    places.free = dict.fromkeys(places.free, 100)
    with pytest.raises(NoRoomError, match="--shm-size"):
        check_shared_memory(plan_with(), here)
    adapters = plan_with("train.lora.rank=4")
    assert "adapters alone" in check_shared_memory(adapters, Resources(4, 1, 64))
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert "node where PPO will run" in check_shared_memory(plan_with(), here)
