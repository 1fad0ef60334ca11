"""A run killed at any moment goes on from what was finished, loses nothing and repeats nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

RLDF = str(Path(sys.executable).with_name("rldf"))


def _journal(out: Path) -> list[dict[str, object]]:
    path = out / "journal/calls.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _finish(command: list[str], timeout_s: float) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


class Cluster:
    """A head without room for engines and one node that has it, and can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self._ray = RayCluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.address: str = self._ray.address
        self._node = self._ray.add_node(num_cpus=3)

    def kill_raylet(self) -> None:
        self._ray.remove_node(self._node, allow_graceful=False)
        self._node = self._ray.add_node(num_cpus=3)

    def kill_engine(self, chance: random.Random) -> bool:
        """Kill one of the engine actors there are; whether there was one."""
        engines = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "ScriptedActor" in " ".join(process.cmdline()[:1]):
                    engines.append(process)
        if engines:
            chance.choice(engines).kill()
        return bool(engines)

    def end(self) -> None:
        self._ray.shutdown()


def _wait_for_calls(
    out: Path, calls: int, process: subprocess.Popen[bytes], timeout_s: float = 900
) -> bool:
    """Wait until the journal has grown by `calls`; False if the run ended first."""
    target, deadline = len(_journal(out)) + calls, time.monotonic() + timeout_s
    while len(_journal(out)) < target:
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.05)
    return True


def _assert_same(whole: Path, killed: Path) -> None:
    addresses = [line["address"] for line in _journal(killed)]
    assert len(addresses) == len(set(addresses)), "a finished call was made again"
    for name in ("topics", "transcripts"):
        expected, found = (pq.read_table(out / f"data/{name}.parquet") for out in (whole, killed))
        columns = [column for column in expected.column_names if column != "run_id"]
        assert found.select(columns).equals(expected.select(columns))


@pytest.mark.cluster
def test_kills_of_drivers_engines_and_raylets_lose_and_repeat_nothing(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = [
        "--plan", "smoke", "--set", "debate.rounds=4", "--set", "debate.debates=72",
        "--set", "referee.kind=prompted",
    ]  # fmt: skip
    _finish([RLDF, "debate", str(whole), *settings, "--set", "teacher=scripted:0"], 900)
    command = [
        RLDF, "debate", str(killed), *settings, "--set", "teacher=scripted:0.4",
        "--set", "engines.count=2", "--set", "engines.restarts=99",
    ]  # fmt: skip
    chance, cluster = random.Random(11), Cluster()
    victims = [*["driver"] * 7, *["engine"] * 10, *["raylet"] * 4]
    chance.shuffle(victims)
    environment = os.environ | {"RAY_ADDRESS": cluster.address}
    done: Counter[str] = Counter()
    seen: list[dict[str, object]] = []

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    try:
        process = started()
        for victim in victims:
            if not _wait_for_calls(killed, chance.randrange(10, 60), process):
                break
            if victim == "driver":
                process.kill()
                process.wait()
                lines = _journal(killed)
                assert lines[: len(seen)] == seen, "a finished call was lost or changed"
                seen = lines
                process = started()
            elif victim == "raylet":
                cluster.kill_raylet()
            else:
                # Those that were killed before may still be on their way up.
                while not cluster.kill_engine(chance):
                    assert process.poll() is None, "the run ended"
                    time.sleep(0.1)
            done[victim] += 1
        assert process.wait(900) == 0
    finally:
        process.kill()
        cluster.end()
    print(f"kills: {dict(done)}")
    assert done.total() >= 20 and min(done.values()) >= 3
    _assert_same(whole, killed)


def _kill_below(process: subprocess.Popen[bytes], name: str) -> None:
    """Kill the first process below `process` whose title has `name`; waits until there is one."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                title = " ".join(child.cmdline()[:1])
            except psutil.NoSuchProcess:
                continue
            if name in title:
                child.kill()
                return
        time.sleep(0.2)
    raise AssertionError(f"no process {name}")


@pytest.mark.slow
def test_real_engines_killed_under_way_leave_every_statement_once(tmp_path: Path) -> None:
    """The driver, the engine's actor and the core inside it, each while debates are held."""
    out, chance = tmp_path / "run", random.Random(3)
    command = [
        RLDF, "debate", str(out), "--plan", "smoke", "--set", "debate.max_tokens=16",
        "--set", "referee.kind=prompted",
    ]  # fmt: skip
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    for victim in ("ray::VllmActor", "driver", "VLLM::EngineCore"):
        assert _wait_for_calls(out, chance.randrange(5, 40), process), "nothing left to kill"
        if victim == "driver":
            process.kill()
            process.wait()
            process = subprocess.Popen(command, stdout=log, stderr=log)
        else:
            _kill_below(process, victim)
    assert process.wait(900) == 0, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
    assert (tmp_path / "log").read_text(encoding="utf-8").count("died, starting it again") >= 2
    rows = pq.read_table(out / "data/transcripts.parquet").to_pylist()
    places = [(row["debate_id"], row["round"], row["role"]) for row in rows]
    assert len(places) == len(set(places)) == 6 * 2 * 3
    addresses = [line["address"] for line in _journal(out)]
    assert len(addresses) == len(set(addresses)), "a finished call was made again"
