"""A local cluster comes up on a busy machine, and leaves no process behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rldf_ray.cluster.ray_cluster import (
    RAY_TOO_SLOW,
    STARTS,
    RayInUseError,
    _only_one,
    _patiently,
    ray_cluster,
)

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


CHILDREN = """
import os, signal, subprocess, sys
from pathlib import Path

import psutil
import ray

from rldf_ray.cluster.ray_cluster import ray_cluster


@ray.remote
class Parent:
    def begin(self):
        failed = subprocess.run(["false"]).returncode
        return failed, os.getpid(), subprocess.Popen(["sleep", "600"]).pid


with ray_cluster(Path(sys.argv[1])):
    parent = Parent.remote()
    failed, pid, child = ray.get(parent.begin.remote())
    child = psutil.Process(child)
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([child], timeout=60)
    print(failed, child.is_running() and child.status() != psutil.STATUS_ZOMBIE)
"""


@pytest.mark.slow
def test_a_worker_knows_how_its_children_ended_and_takes_them_with_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, str(tmp_path)], capture_output=True, text=True, check=True
    )
    # Ray says on stdout, too, that a worker died.
    assert done.stdout.splitlines()[-1] == "1 False"


LISTENING = """
import sys
from pathlib import Path

import psutil

from rldf_ray.cluster.ray_cluster import ray_cluster

with ray_cluster(Path(sys.argv[1])):
    import ray

    ray.get(ray.remote(lambda: 1).remote())
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            found = process.net_connections("inet")
        except psutil.Error:
            continue  # it ended meanwhile
        for connection in found:
            if connection.status == psutil.CONN_LISTEN:
                print(connection.laddr.ip, process.name(), flush=True)
"""


@pytest.mark.slow
def test_a_cluster_of_this_machine_listens_on_loopback_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTENING, str(tmp_path)], capture_output=True, text=True, check=True
    )
    listening = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert {"gcs_server", "raylet"} <= {name for _, name in listening}
    loopback = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
    assert [line for line in listening if line[0] not in loopback] == []


class Init:
    """Stands for `ray.init` on a machine that is too busy for its first starts."""

    def __init__(self, failures: int, message: str = f"{RAY_TOO_SLOW}. This could happen") -> None:
        self.failures, self.message = failures, message
        self.options: list[dict[str, str]] = []

    def __call__(self, **options: str) -> None:
        self.options.append(options)
        if len(self.options) <= self.failures:
            raise Exception(self.message)


def test_ray_is_started_again_where_the_machine_was_too_busy() -> None:
    init = Init(failures=STARTS - 1)
    _patiently(init, address="local")
    assert init.options == [{"address": "local"}] * STARTS


@pytest.mark.parametrize(
    ("init", "starts"), [(Init(STARTS), STARTS), (Init(1, "no such address"), 1)]
)
def test_other_trouble_and_a_start_that_never_comes_about_end_it(init: Init, starts: int) -> None:
    with pytest.raises(Exception, match=init.message):
        _patiently(init)
    assert len(init.options) == starts


def test_a_process_that_uses_ray_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connected first is not shut down by a second call."""
    ended: list[str] = []
    used = SimpleNamespace(is_initialized=lambda: True, shutdown=lambda: ended.append("ray"))
    monkeypatch.setitem(sys.modules, "ray", used)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(RayInUseError, match=r"ray\.shutdown\(\)"), ray_cluster(tmp_path):
        pass
    assert ended == []


def test_two_calls_that_start_ray_in_one_process_do_not_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with _only_one():
        with pytest.raises(RayInUseError, match="another call"), _only_one():
            pass
        with pytest.raises(RayInUseError), _only_one():
            pass
    with _only_one():
        pass
