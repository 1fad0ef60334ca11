"""A local cluster leaves no process behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

# Ray lets go of an actor that nobody holds; this one never comes to the end of its own exit.
STUCK = """
import atexit, os, sys, time
from pathlib import Path

import ray

from rldf_ray.cluster.ray_cluster import ray_cluster


@ray.remote
class Stuck:
    def begin(self):
        atexit.register(time.sleep, 600)
        return os.getpid()


with ray_cluster(Path(sys.argv[1])):
    actor = Stuck.remote()
    print(ray.get(actor.begin.remote()), flush=True)
    del actor
    time.sleep(1)
"""


@pytest.mark.slow
def test_a_worker_that_does_not_end_by_itself_is_ended_with_its_cluster(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert not psutil.pid_exists(int(done.stdout))
