"""Ray on several hosts, started by `ray up`, and a run that was submitted to it.

The run is in a bucket, as the hosts share no folder; each has a home, a /tmp/ray and a /dev/shm of
its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.hosts import (
    ROOT,
    Host,
    Hosts,
    cluster_file,
    gateway,
    several_hosts,
    why_not_here,
)
from tests.s3_server import Buckets, as_environment, s3_server

RAY = str(Path(sys.executable).with_name("ray"))
RUN = "s3://bucket/run"
RLDF = "~/rldf-ray/.venv/bin/rldf"
SCRIPTED = "--set referee.kind=prompted --set debate.debates=12"
DASHBOARD = "http://127.0.0.1:18265"
ENDS = {"succeeded", "failed", "stopped"}


def secrets(url: str) -> dict[str, str]:
    """What a person keeps in ~/.rldf/secrets, and where this test's package is."""
    return as_environment(url) | {"PYTHONPATH": str(ROOT)}


def wait_until(what: Callable[[], bool], limit_s: float, reason: str) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, reason
        time.sleep(1)


@contextmanager
def dashboard(hosts: Hosts) -> Iterator[None]:
    """The head's dashboard listens on its loopback alone: this is what `ray dashboard` does."""
    tunnel = subprocess.Popen([*hosts.on_head, "-N", "-L", "18265:127.0.0.1:8265"])
    time.sleep(1)
    try:
        yield
    finally:
        tunnel.kill()
        tunnel.wait()


class Job:
    """A run submitted to the cluster."""

    def __init__(self, hosts: Hosts, command: str) -> None:
        self._hosts, self._name = hosts, "the-run"
        options = ("--no-wait", "--submission-id", self._name, "--working-dir", ".")
        entry_point = ("bash", "-c", command)
        done = self._ray("submit", *options, "--", *entry_point)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _ray(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._hosts.client(
            RAY, "job", command[0], "--address", DASHBOARD, *command[1:], timeout_s=240
        )

    def status(self) -> str:
        """One of `ENDS`; anything else while it is under way."""
        done = self._ray("status", self._name)
        said = (done.stdout + done.stderr).lower()
        return next((word for word in sorted(ENDS) if word in said), "")

    def log(self) -> str:
        return self._ray("logs", self._name).stdout

    def wait_until(self, what: Callable[[], bool], limit_s: float) -> None:
        """Wait for what the run should do, as long as it runs."""
        deadline, asked = time.monotonic() + limit_s, time.monotonic()
        while not what():
            if time.monotonic() > asked + 10:
                # Ray's command takes seconds of one of two cores.
                ended, asked = self.status() in ENDS, time.monotonic()
                assert not ended, self.log()[-3000:]
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.5)

    def wait(self, limit_s: float) -> str:
        deadline = time.monotonic() + limit_s
        while (status := self.status()) not in ENDS:
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(5)
        return status


def busy(hosts: Hosts, process: str) -> Host | None:
    """The worker host on which a process of this name runs."""
    return next((host for host in hosts.hosts[1:] if runs(hosts, host, process)), None)


def runs(hosts: Hosts, host: Host, process: str) -> bool:
    asked = [*hosts.ssh, "-o", "ConnectTimeout=2", f"root@{host.address}", "ps -eo args"]
    return process in subprocess.run(asked, capture_output=True, text=True, check=False).stdout


def left(hosts: Hosts) -> list[Host]:
    """Hosts on which Ray runs."""
    return [host for host in hosts.hosts if runs(hosts, host, "raylet")]


def workers(hosts: Hosts) -> int:
    """Nodes that `ray status` calls active, without the head."""
    said = hosts.client(
        *hosts.on_head, "RAY_AUTH_MODE=token ~/rldf-ray/.venv/bin/ray status", timeout_s=240
    )
    active = said.stdout.partition("Active:")[2].partition("Pending:")[0].partition("Idle:")[0]
    counts = [line.split()[0] for line in active.splitlines() if line.strip()]
    return sum(int(count) for count in counts if count.isdigit()) - 1


@contextmanager
def cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int = 2, cpus: int = 2
) -> Iterator[tuple[Hosts, Buckets]]:
    """A head and workers with Ray on them, started by `ray up` and ended by `ray down`.

    This machine has the bucket, and can read it like they do.

    Args:
        number: of workers.
        cpus: of each.
    """
    reason = why_not_here()
    if reason is not None:
        pytest.skip(reason)
    with (
        several_hosts(folder, number + 1) as hosts,
        s3_server("bucket", host=gateway()) as (url, buckets),
    ):
        for host in hosts.hosts:
            lines = [f"{k}={v}\n" for k, v in secrets(url).items()]
            (host.folder / "home/.rldf/secrets").write_text("".join(lines), encoding="utf-8")
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(folder / "mine"))
        file = cluster_file(hosts, cpus)
        up = hosts.client(RAY, "up", "-y", "--no-config-cache", str(file), timeout_s=800)
        assert up.returncode == 0, up.stdout[-3000:] + up.stderr[-3000:]
        with dashboard(hosts):
            wait_until(lambda: workers(hosts) == number, 600, "the workers did not join")
            print("ray up, and all workers have joined", flush=True)
            yield hosts, buckets
        down = hosts.client(RAY, "down", "-y", str(file), timeout_s=600)
        assert down.returncode == 0, down.stdout[-2000:] + down.stderr[-2000:]
        # It stops the head; workers end by themselves a while after.
        assert not runs(hosts, hosts.hosts[0], "raylet"), down.stdout[-2000:] + down.stderr[-2000:]
        wait_until(lambda: not left(hosts), 600, "Ray goes on without a head")
        print("ray down", flush=True)


def logged(buckets: Buckets) -> int:
    """The last step of the reward model that was logged."""
    content, _ = buckets.objects["bucket"].get("run/reward/progress.jsonl", (b"", 0.0))
    lines = content.decode().splitlines()
    return int(json.loads(lines[-1])["step"]) if lines else 0


def is_trained(buckets: Buckets) -> bool:
    return "run/stages/reward.json" in buckets.objects["bucket"]
