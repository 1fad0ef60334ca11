"""The whole way on several hosts: ray up, ray job submit, hosts that die, the results, ray down.

Debates are a scripted teacher's, training is real. The run is in a bucket, as the hosts share no
folder; each has a home, a /tmp/ray and a /dev/shm of its own.
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

from rldf_ray.mirror import JOURNAL
from rldf_ray.storage import Journal, RunFolder
from tests.cluster.hosts import (
    ROOT,
    Host,
    Hosts,
    cluster_file,
    gateway,
    several_hosts,
    why_not_here,
)
from tests.s3_server import Buckets, s3_server

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(590)]

RAY = str(Path(sys.executable).with_name("ray"))
RUN = "s3://bucket/run"
ROLES, ROUNDS = 3, 2
DASHBOARD = "http://127.0.0.1:18265"
RLDF = (
    f"~/rldf-ray/.venv/bin/rldf run smoke --out {RUN} --set teacher=scripted:0.5 "
    f"--set engines.count=1 --set debate.debates=12"
)


def secrets(url: str) -> dict[str, str]:
    """What a person keeps in ~/.rldf/secrets, and where this test's package is."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(ROOT),
    }


def journaled(buckets: Buckets) -> int:
    return sum(
        content.count(b"\n")
        for name, (content, _) in list(buckets.objects["bucket"].items())
        if name.startswith(f"run/{JOURNAL}/")
    )


def steps(buckets: Buckets, stage: str) -> int:
    content, _ = buckets.objects["bucket"].get(f"run/{stage}/progress.jsonl", (b"", 0.0))
    return content.count(b"\n")


def wait_until(what: Callable[[], bool], limit_s: float, reason: str) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, reason
        time.sleep(0.5)


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

    def __init__(self, hosts: Hosts, name: str) -> None:
        self._hosts, self._name = hosts, name
        done = self._ray("submit", "--no-wait", "--submission-id", name, "--working-dir", ".", "--",
                         "bash", "-c", RLDF)  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _ray(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._hosts.client(
            RAY, "job", command[0], "--address", DASHBOARD, *command[1:], timeout_s=60
        )

    def status(self) -> str:
        said = self._ray("status", self._name)
        words = ("SUCCEEDED", "FAILED", "STOPPED", "RUNNING", "PENDING")
        return next((word for word in words if word in said.stdout + said.stderr), "")

    def log(self) -> str:
        return self._ray("logs", self._name).stdout

    def wait(self, limit_s: float) -> str:
        wait_until(
            lambda: self.status() in ("SUCCEEDED", "FAILED", "STOPPED"),
            limit_s,
            f"{self._name} did not end",
        )
        return self.status()


def busy(hosts: Hosts, process: str) -> Host | None:
    """The worker host on which a process of this name runs."""
    for host in hosts.hosts[1:]:
        asked = [*hosts.ssh, "-o", "ConnectTimeout=2", f"root@{host.address}", "ps -eo args"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        if process in said.stdout:
            return host
    return None


def test_a_run_survives_its_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_not_here()
    if reason is not None:
        pytest.skip(reason)
    began = time.monotonic()

    def said(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s: {what}", flush=True)

    with several_hosts(tmp_path, 3, {}) as hosts, s3_server("bucket", host=gateway()) as (
        url, buckets,
    ):  # fmt: skip
        for host in hosts.hosts:
            lines = [f"{k}={v}\n" for k, v in secrets(url).items()]
            (host.folder / "home/.rldf/secrets").write_text("".join(lines))
        file = cluster_file(hosts, cpus=2)
        up = hosts.client(RAY, "up", "-y", "--no-config-cache", str(file), timeout_s=200)
        assert up.returncode == 0, up.stdout[-3000:] + up.stderr[-3000:]
        said("ray up")
        with dashboard(hosts):
            wait_until(lambda: workers(hosts) == 2, 120, "the workers did not join")
            said("both workers joined")
            _run(hosts, buckets, said)
        down = hosts.client(RAY, "down", "-y", str(file), timeout_s=100)
        assert down.returncode == 0, down.stdout[-2000:] + down.stderr[-2000:]
        said("ray down")
        for name, value in secrets(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "mine"))
        check_results()


def workers(hosts: Hosts) -> int:
    """Nodes that `ray status` calls active, without the head."""
    said = hosts.client(
        *hosts.on_head, "RAY_AUTH_MODE=token ~/rldf-ray/.venv/bin/ray status", timeout_s=60
    )
    active = said.stdout.partition("Active:")[2].partition("Pending:")[0].partition("Idle:")[0]
    counts = [line.split()[0] for line in active.splitlines() if line.strip()]
    return sum(int(count) for count in counts if count.isdigit()) - 1


def _run(hosts: Hosts, buckets: Buckets, said: Callable[[str], None]) -> None:
    job = Job(hosts, "debates")
    wait_until(lambda: journaled(buckets) > 40 or job.status() == "FAILED", 100, "no debates")
    host = busy(hosts, "ScriptedActor")
    assert host is not None, job.log()[-3000:]
    host.kill()
    said(f"{host.name} killed in the middle of debates, {journaled(buckets)} calls uploaded")
    wait_until(lambda: steps(buckets, "reward") > 0 or job.status() == "FAILED", 240, "no training")
    said(f"training has begun: {job.status()}")
    host.start()
    wait_until(lambda: workers(hosts) == 2, 150, "the host did not come back")
    said(f"{host.name} is back")
    if (trains := busy(hosts, "TrainWorker")) is not None:
        trains.cut_off()
        said(f"{trains.name} cut off in the middle of training")
    if job.wait(200) != "SUCCEEDED":
        said(f"the job ended: {job.log().strip().splitlines()[-1]}")
        again = Job(hosts, "again")
        assert again.wait(300) == "SUCCEEDED", again.log()[-3000:]
        assert "debates: finished before" in again.log()
    said("the run has finished")


def check_results() -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        rows = folder.read_table("data/transcripts.parquet").to_pylist()
        journal = Journal(folder.path(JOURNAL))
        addresses = [entry["address"] for entry in journal.entries()]
        journal.close()
        assert folder.manifest("eval") is not None
    assert len(rows) == 12 * ROLES * ROUNDS
    assert len({(row["debate_id"], row["round"], row["role"]) for row in rows}) == len(rows)
    assert len(addresses) == len(set(addresses))
    assert json.loads(folder.fetched("report.json").read_text())["training"]["ppo"] is not None
    assert (folder.fetched("model") / "model.safetensors").stat().st_size > 10**8
