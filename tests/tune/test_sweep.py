"""Sweeps on two cores: they share, they resume, and they leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.plan import load_plan
from rldf_ray.storage.run_folder import RunFolder
from tests.endpoint import Server, made_up, serving

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "smoke", "--metric", "pairs", "--set", "teacher=scripted:0", "--set", "debate.debates=8",
    "--set", "referee.kind=prompted", "--set", "referee.label_source=said",
    "--set", "referee.threshold_kind=absolute",
]  # fmt: skip

# Join Ray as a trial does, take what a trial takes, and would hold it for ever. The first one's
# detached actor, which no name leads to, stands for what Ray Train leaves in the second.
HOLDER = """
import os, sys, time
sys.path.insert(0, {root!r})
from rldf_ray.apps.tune.orphan import end_with_parent
end_with_parent()
import ray
from ray.util.placement_group import placement_group
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
group = placement_group([{{"CPU": 1}}])
ray.get(group.ready())

@ray.remote
class Holder:
    def here(self):
        return os.getpid()

engine = Holder.options(num_cpus=1).remote()
helper = Holder.options(num_cpus=0, lifetime="detached").remote()
pids = ray.get([engine.here.remote(), helper.here.remote()])
open(sys.argv[1], "w").write(" ".join(map(str, [os.getpid(), *pids])))
time.sleep(7200)
"""
TRAINER = """
import os, sys, time
sys.path.insert(0, {root!r})
from rldf_ray.apps.tune.orphan import end_with_parent
end_with_parent()
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)

def loop(config):
    open(config["path"], "w").write(" ".join(map(str, [config["driver"], os.getpid()])))
    time.sleep(7200)

TorchTrainer(
    loop,
    train_loop_config={{"path": sys.argv[1], "driver": os.getpid()}},
    torch_config=TorchConfig(backend="gloo"),
    scaling_config=ScalingConfig(num_workers=1, resources_per_worker={{"CPU": 1}}),
    run_config=RunConfig(name="held", storage_path=sys.argv[1] + "-storage"),
).fit()
"""
CUT_OFF = (HOLDER, HOLDER, TRAINER, HOLDER, HOLDER)


def _ablations(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rldf_ray", "sweep", *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=1200,
    )  # fmt: skip


@pytest.mark.cluster
def test_a_sweep_shares_stops_at_its_budget_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    command = [*SMALL, "--over", "rounds=1,2", "--over", "roles=2,3", "--out", str(out)]
    first = _ablations(*command, "--budget-trials", "1")
    assert first.returncode == 3, first.stderr[-2000:]
    assert len(list(out.glob("trials/*/result.json"))) == 1

    whole = _ablations(*command)
    assert whole.returncode == 0, whole.stdout[-2000:] + whole.stderr[-2000:]
    report = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    assert report["not_run"] == report["stopped_early"] == []
    # One round of three begins two rounds of three, which is a point of both axes.
    assert (report["reuse"]["settings"], report["reuse"]["trials"]) == (4, 3)
    assert report["reuse"]["share_made"] < 0.7
    results = [
        json.loads(path.read_text(encoding="utf-8")) for path in out.glob("trials/*/result.json")
    ]
    assert all(result["measured"]["data"]["overall"] > 0 for result in results)
    best = load_plan(str(out / "best.yaml"))
    assert best.debate.rounds in (1, 2) and best.debate.debaters in (2, 3)
    assert yaml.safe_load((out / "best.yaml").read_text(encoding="utf-8"))["name"] == "smoke-best"
    assert (out / "figures/figure-8-age.png").exists()
    assert not _processes_of(str(out))


@pytest.mark.cluster
def test_a_sweep_whose_budget_at_an_endpoint_is_spent_goes_on_with_a_higher_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    out = tmp_path / "sweep"
    with serving(Server(otherwise=made_up())) as server:
        asked = ["--set", "teacher=openai:small", "--set", f"endpoint.base_url={server.url}"]
        command = [*SMALL, *asked, "--over", "rounds=1,2", "--out", str(out)]
        first = _ablations(*command, "--set", "endpoint.budget_tokens=2000")
        assert first.returncode == 3, first.stdout[-2000:] + first.stderr[-2000:]
        assert "stopped: the budget of 2000 tokens (endpoint.budget_tokens)" in first.stdout
        report = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
        assert "by all runs in" in report["out_of_budget"] and report["not_run"]
        whole = _ablations(*command, "--set", "endpoint.budget_tokens=1000000000", "--json")
    assert whole.returncode == 0, whole.stdout[-2000:] + whole.stderr[-2000:]
    report = json.loads(whole.stdout)
    assert report["out_of_budget"] is None and report["not_run"] == []


@pytest.mark.cluster
def test_trials_that_are_cut_off_leave_no_group_actor_or_process(tmp_path: Path) -> None:
    import ray

    from rldf_ray.apps.tune import trainable
    from rldf_ray.apps.tune.cleanup import PROGRAM, clear_ended_trials, ended_jobs, leftovers

    held: list[int] = []
    with ray_cluster(tmp_path / "logs") as resources:
        runner: Any = ray.remote(trainable._run).options(num_cpus=0, max_retries=0)
        for number, text in enumerate(CUT_OFF):
            program = tmp_path / f"{PROGRAM}-{number}.py"
            program.write_text(text.format(root=str(ROOT)), encoding="utf-8")
            pids = tmp_path / f"pids-{number}"
            task = runner.remote([sys.executable, str(program), str(pids)],
                                 RunFolder(tmp_path / f"trial-{number}"))  # fmt: skip
            held += _wait_for(pids)
            # As Tune ends an actor: at once, and the trial's own program with it.
            ray.cancel(task, force=True)
            _wait_until(lambda: len(ended_jobs()) == number + 1)  # noqa: B023 - called at once
            clear_ended_trials()
            assert not leftovers(ended_jobs())
        _wait_until(lambda: ray.available_resources().get("CPU") == resources.cpus)
        _wait_until(lambda: not [pid for pid in held if psutil.pid_exists(pid)])
    assert len(held) == 14


def _wait_for(path: Path) -> list[int]:
    _wait_until(lambda: path.exists() and len(path.read_text(encoding="utf-8").split()) >= 2)
    return [int(pid) for pid in path.read_text(encoding="utf-8").split()]


def _wait_until(condition: Any, seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


def _processes_of(text: str) -> list[str]:
    """Command lines of running programs that name `text`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if text in line:
            found.append(line)
    return found
