"""The whole way on several hosts: ray up, ray job submit, a host is lost, the results, ray down.

One is killed in the middle of debates, another is cut off in the middle of training. Debates are a
scripted speaker's. The run is in a bucket, as the hosts share no folder; each has a home, a
/tmp/ray and a /dev/shm of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.mirror import JOURNAL
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.train.worker import read_progress
from tests.cluster.running import (
    RLDF,
    RUN,
    SCRIPTED,
    Job,
    busy,
    cluster,
    is_trained,
    logged,
    runs,
    wait_until,
    workers,
)
from tests.s3_server import Buckets

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(4800)]

ROLES, ROUNDS = 3, 2
# Long enough to lose a host in them.
DEBATES = f"{RUN} --plan smoke {SCRIPTED} --set teacher=scripted:1.5 --set debate.in_flight=2"
WHOLE = (
    f"smoke --out {RUN} {SCRIPTED} --set teacher=scripted:0.01 --set reward.epochs=4 "
    "--set train.checkpoint_every=8 --set train.max_failures=2"
)


def debated(buckets: Buckets) -> int:
    """Calls of debates that were uploaded."""
    return sum(
        content.count(b"/round/")
        for name, (content, _) in list(buckets.objects["bucket"].items())
        if name.startswith(f"run/{JOURNAL}/")
    )


def test_debates_survive_the_loss_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch) as (hosts, buckets):
        job = Job(hosts, f"{RLDF} debate {DEBATES}")
        job.wait_until(lambda: debated(buckets) > 0, 480)
        host = busy(hosts, "ScriptedActor")
        assert host is not None, job.log()[-3000:]
        host.kill()
        print(f"{host.name} killed, {debated(buckets)} calls of debates uploaded", flush=True)
        host.start()
        assert job.wait(800) == "succeeded", job.log()[-3000:]
        assert "died, starting it again" in job.log()
        wait_until(lambda: runs(hosts, host, "raylet"), 600, "Ray did not start again on the host")
        wait_until(lambda: workers(hosts) == 2, 240, "the host did not join")
        every_statement_is_there_once()


def test_training_survives_the_loss_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch) as (hosts, buckets):
        job = Job(hosts, f"{RLDF} run {WHOLE}")
        job.wait_until(lambda: checkpoint(buckets) > 0, 1600)
        host = busy(hosts, "RayTrainWorker")
        assert host is not None, job.log()[-3000:]
        reached = checkpoint(buckets)
        host.cut_off()
        print(f"{host.name} cut off, the last checkpoint is of step {reached}", flush=True)
        seen = [logged(buckets)]
        job.wait_until(lambda: seen.append(logged(buckets)) or is_trained(buckets), 1600)
        # A job that began anew would have logged its first steps again.
        assert min(seen) >= reached
        print("the reward model is trained", flush=True)
        host.reconnect()
        assert job.wait(2400) == "succeeded", job.log()[-3000:]
        the_run_is_whole()


def the_run_is_whole() -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        steps = [one["step"] for one in read_progress(f"{RUN}/reward") if "loss" in one]
        assert steps == sorted(set(steps))
        report = json.loads(folder.fetched("report.json").read_text(encoding="utf-8"))
        assert report["training"]["ppo"] is not None
        assert (folder.fetched("model") / "model.safetensors").stat().st_size > 10**8


def checkpoint(buckets: Buckets) -> int:
    """The last step of the reward model with a whole checkpoint; 0 if there is none."""
    found = re.findall(
        r"^run/reward/trainer/checkpoint-(\d+)/trainer_state.json$",
        "\n".join(list(buckets.objects["bucket"])),
        re.MULTILINE,
    )
    return max(map(int, found), default=0)


def every_statement_is_there_once() -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        rows = folder.read_table("data/transcripts.parquet").to_pylist()
        journal = Journal(folder.path(JOURNAL))
        addresses = [entry["address"] for entry in journal.entries()]
        journal.close()
    assert len(rows) == 12 * ROLES * ROUNDS
    assert len({(row["debate_id"], row["round"], row["role"]) for row in rows}) == len(rows)
    assert len(addresses) == len(set(addresses))
