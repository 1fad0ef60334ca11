"""Weights in shared memory outlive nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rldf_ray.cluster.shared_memory import remove_left_behind

TRAINER = """
import sys
from contextlib import ExitStack
from pathlib import Path
from rldf_ray.cluster import shared_memory
shared_memory.SHARED = Path(sys.argv[1])
with ExitStack() as opened:
    (shared_memory.passing_folder(7, opened) / "model.safetensors").write_bytes(b"weights")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_folder_that_is_not_written_to_yet_is_left(tmp_path: Path) -> None:
    (tmp_path / "rldf-weights-new").mkdir()
    remove_left_behind(tmp_path)
    assert (tmp_path / "rldf-weights-new").is_dir()


def test_a_killed_trainers_weights_are_removed_and_a_living_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "somebody-elses").mkdir()
    trainers = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    try:
        for trainer in trainers:
            assert trainer.stdout is not None and trainer.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.iterdir())) == 3
        trainers[0].kill()
        trainers[0].wait()
        remove_left_behind(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        trainers[1].communicate()
        assert [f.name for f in tmp_path.iterdir()] == ["somebody-elses"]
    finally:
        for trainer in trainers:
            trainer.kill()
