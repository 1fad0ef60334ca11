"""Memory is what the process tree holds, shared pages counted once."""

from __future__ import annotations

import subprocess
import sys

from rldf_ray.cluster.memory import tree_pss_gib, watch_memory


def test_a_child_counts_until_it_ends() -> None:
    before = tree_pss_gib()
    code = "import time; x = bytearray(300 * 2**20); print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    during = tree_pss_gib()
    child.kill()
    child.wait()
    assert during - before > 0.28
    assert tree_pss_gib() < during - 0.28


def test_the_peak_outlives_what_made_it() -> None:
    with watch_memory(interval_s=0.01) as peak:
        held = bytearray(200 * 2**20)
        first = tree_pss_gib()
        del held
    assert peak.gib > 0
    assert first > 0.19
