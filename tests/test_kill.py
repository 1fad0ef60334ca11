"""A run killed at any moment goes on from what was finished, loses nothing and repeats nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

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
