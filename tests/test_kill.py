"""A run killed at any moment goes on from what was finished, loses nothing and repeats nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

RLDF = str(Path(sys.executable).with_name("rldf"))
SCRIPTED = [
    "--plan", "smoke", "--set", "teacher=scripted:0.02", "--set", "debate.rounds=4",
    "--set", "debate.debates=24",
]  # fmt: skip


def _journal(out: Path) -> list[dict[str, object]]:
    path = out / "journal/calls.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _kill_after_calls(command: list[str], out: Path, calls: int, timeout_s: float) -> bool:
    """Kill `command` once the journal has grown by `calls`; whether it had to be killed."""
    begun = len(_journal(out))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + timeout_s
    while process.poll() is None and len(_journal(out)) < begun + calls:
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.02)
    killed = process.poll() is None
    if killed:
        process.send_signal(signal.SIGKILL)
    process.wait()
    return killed


def _finish(command: list[str], timeout_s: float) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_scripted_debates_killed_at_random_points_lose_and_repeat_nothing(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _finish([RLDF, "debate", str(whole), *SCRIPTED], 200)
    chance = random.Random(7)
    command = [RLDF, "debate", str(killed), *SCRIPTED]
    kills, seen = 0, []
    for _ in range(4):
        kills += _kill_after_calls(command, killed, chance.randrange(5, 120), 100)
        lines = _journal(killed)
        assert lines[: len(seen)] == seen, "a finished call was lost or changed"
        seen = lines
    _finish(command, 200)
    assert kills >= 3
    addresses = [line["address"] for line in _journal(killed)]
    assert len(addresses) == len(set(addresses)), "a finished call was made again"
    for name in ("topics", "transcripts"):
        expected = pq.read_table(whole / f"data/{name}.parquet")
        assert pq.read_table(killed / f"data/{name}.parquet").equals(expected)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_real_run_survives_a_dead_engine_and_a_kill_in_training(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [RLDF, "run", "smoke", "--out", str(out)]

    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    _wait_for(lambda: len(_journal(out)) > 100, process, 400)
    (engine,) = [p for p in psutil.Process(process.pid).children(recursive=True) if _is_engine(p)]
    engine.kill()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "error: " in stderr and "died" in stderr and "Traceback" not in stderr
    seen = _journal(out)

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for((out / "sft/progress.jsonl").exists, process, 600)
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert _journal(out)[: len(seen)] == seen, "a finished call was lost or changed"
    _, alive = psutil.wait_procs(below, timeout=60)
    assert [p.name() for p in alive] == [], "something outlived the run"

    _finish(command, 900)
    addresses = [line["address"] for line in _journal(out)]
    assert len(addresses) == len(set(addresses)), "a finished call was made again"
    rows = pq.read_table(out / "data/transcripts.parquet").to_pylist()
    assert len({(r["debate_id"], r["round"], r["role"]) for r in rows}) == len(rows) == 36
    assert (out / "report.html").exists()


def _wait_for(
    condition: Callable[[], bool],
    process: subprocess.Popen[str] | subprocess.Popen[bytes],
    s: float,
) -> None:
    deadline = time.monotonic() + s
    while not condition():
        assert process.poll() is None, "the run ended too soon"
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.1)


def _is_engine(process: psutil.Process) -> bool:
    try:
        return any("EngineCore" in word for word in process.cmdline())
    except psutil.Error:
        return False
