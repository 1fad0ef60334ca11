"""PPO with the engine on another host than the trainer: the same as with both on one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.running import RLDF, RUN, Job, cluster
from tests.s3_server import Buckets

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(4800)]

SMOKE = (
    "--plan smoke --set teacher=scripted:0.01 --set referee.kind=prompted --set debate.debates=12 "
    "--set ppo.sample_every=1 --set ppo.sample_size=4"
)
BEFORE = ("data", "train sft", "train reward")
# Log-probabilities of other numbers of threads differ by this; a wrong policy's by whole units.
CLOSE = 2e-2


def test_ppo_on_two_hosts_equals_ppo_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with cluster(one, monkeypatch, number=1, cpus=2) as (hosts, buckets):
        commands = [f"debate {RUN} {SMOKE}", *(f"{name} {RUN}" for name in BEFORE)]
        job = Job(hosts, " && ".join(f"{RLDF} {c}" for c in [*commands, f"train ppo {RUN}"]))
        assert job.wait(2400) == "succeeded", job.log()[-3000:]
        assert "weights are sent" not in job.log()
        on_one, first = (lines(buckets, name) for name in ("progress", "answers"))
        held = dict(buckets.objects["bucket"])
    with cluster(two, monkeypatch, number=2, cpus=1) as (hosts, buckets):
        buckets.objects["bucket"].update(held)
        job = Job(hosts, f"{RLDF} train ppo {RUN} --redo")
        assert job.wait(2400) == "succeeded", job.log()[-3000:]
        assert "no node holds engines and workers: weights are sent" in job.log()
        on_two, second = (lines(buckets, name) for name in ("progress", "answers"))
    assert [step["step"] for step in on_two] == [step["step"] for step in on_one] == [1, 2]
    assert [a["answer"] for a in second] == [a["answer"] for a in first]
    for here, there in zip(on_one, on_two, strict=True):
        # The engine's policy is the trainer's: before an update, and after it was sent.
        assert there["engine_mismatch_max"] < CLOSE
        for name in ("reward", "kl", "policy_loss", "value_loss", "entropy"):
            assert there[name] == pytest.approx(here[name], abs=CLOSE)


def lines(buckets: Buckets, name: str) -> list[dict[str, Any]]:
    """The records of a file that PPO wrote."""
    content, _ = buckets.objects["bucket"][f"run/ppo/{name}.jsonl"]
    return [json.loads(line) for line in content.decode().splitlines()]
