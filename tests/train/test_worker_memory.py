"""glibc as workers run it: it keeps what training frees for reuse, but no holes of large blocks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rldf_ray.cluster.ray_cluster import _worker_environment

# Each block is larger than the hole that the last one left, and something small stays above it.
HOLES = """
import numpy, psutil
kept = []
for i in range(6):
    numpy.ones({megabytes} * 2**17 + i * 2**14)
    kept.append(numpy.ones(2**13))
print(psutil.Process().memory_info().rss / 2**20)
"""


def resident_mib(megabytes: int) -> float:
    """What a process is left with after it freed six blocks of that size."""
    command = [sys.executable, "-c", HOLES.format(megabytes=megabytes)]
    environment = os.environ | _worker_environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_large_blocks_leave_no_holes() -> None:
    assert resident_mib(300) < 300


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_blocks_of_the_size_of_logits_are_kept_for_reuse() -> None:
    assert resident_mib(100) > 100
