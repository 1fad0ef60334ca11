"""ZeRO shards of workers on two hosts: one checkpoint in the bucket, which others go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.running import RLDF, RUN, SCRIPTED, Job, busy, cluster, is_trained, logged
from tests.s3_server import Buckets

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(4800)]

# A host has one CPU, so the two workers are on two of three.
SHARDED = (
    f"{RUN} --plan smoke {SCRIPTED} --set teacher=scripted:0.01 --set train.workers=2 "
    "--set train.zero_stage=1 --set sft.micro_batch=2 --set reward.micro_batch=2 "
    "--set ppo.micro_batch=2 --set reward.epochs=4 --set train.checkpoint_every=8 "
    "--set train.max_failures=2"
)


def test_shards_of_two_hosts_are_one_checkpoint_in_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, monkeypatch, number=3, cpus=1) as (hosts, buckets):
        stages = (f"debate {SHARDED}", f"data {RUN}", f"train sft {RUN}", f"train reward {RUN}")
        job = Job(hosts, " && ".join(f"{RLDF} {stage}" for stage in stages))
        job.wait_until(lambda: whole_checkpoint(buckets) > 0, 2400)
        reached = whole_checkpoint(buckets)
        host = busy(hosts, "RayTrainWorker")
        assert host is not None, job.log()[-3000:]
        host.kill()
        print(f"{host.name} killed, the last checkpoint is of step {reached}", flush=True)
        seen = [logged(buckets)]
        job.wait_until(lambda: seen.append(logged(buckets)) or is_trained(buckets), 2400)
        # A job that began anew would have logged its first steps again.
        assert min(seen) >= reached
        assert "run/reward/model/model.safetensors" in buckets.objects["bucket"]
        assert job.wait(600) == "succeeded", job.log()[-3000:]
        host.start()


def whole_checkpoint(buckets: Buckets) -> int:
    """The last step of the reward model with the state and both shards; 0 if there is none."""
    names = list(buckets.objects["bucket"])
    found = [0]
    for name in names:
        folder, _, file = name.rpartition("/")
        if file == "trainer_state.json" and folder.startswith("run/reward/trainer/checkpoint-"):
            of_it = [other for other in names if other.startswith(f"{folder}/")]
            if all(
                any(f"zero_pp_rank_{n}_" in other for other in of_it)
                and f"{folder}/rng_state_{n}.pth" in of_it
                for n in (0, 1)
            ):
                found.append(int(folder.rpartition("-")[2]))
    return max(found)
