"""What serving costs beside bare vLLM, and what a fault and a rollout cost users.

    python -m benchmarks.serve [--short] [--turns 2]

1. vLLM's own OpenAI server and `rldf serve`, the same model and engine settings, in turns on the
   idle machine, as it is not equally fast from minute to minute: 1, 8, 32 and 64 streams. Requests
   and tokens a second, p50 and p95 of latency and of time to first token, means over the turns.
   Besides the processes in front, one thing differs: threads of our engine that wait give their
   core back sooner (GOMP_SPINCOUNT, docs/training-speed.md); vLLM alone has its default.
2. `rldf serve` again: its engine's replica is killed under load.
3. A new version is rolled out under load.

The client runs on the same cores as either server. --short takes fewer requests and streams.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from benchmarks.load import Outcome, figures, streams
from benchmarks.running_server import Running, running
from rldf_ray.apps.serve.store import ModelStore
from rldf_ray.models.embedded import embedded_model_folder

TOKENS = 64
MAX_MODEL_LEN = 1024
MAX_NUM_SEQS = 64
KV_CACHE_GIB = 0.5
LEVELS = {1: 4, 8: 32, 32: 96, 64: 160}
SHORT_LEVELS = {1: 2, 8: 16}
WARM_UP = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    short: bool = arguments.short
    levels = SHORT_LEVELS if short else LEVELS
    bare_turns, our_turns = [], []
    with tempfile.TemporaryDirectory() as scratch:
        model = embedded_model_folder()
        store = ModelStore(Path(scratch) / "store", "policy")
        store.publish(model)
        store.publish(model)
        for left in reversed(range(arguments.turns)):
            with bare_vllm(model) as (url, pid):
                bare_turns.append(measure("vLLM", url, pid, str(model), levels))
            with rldf_serve(store, Path(scratch)) as server:
                pid = server.process.pid
                our_turns.append(measure("rldf serve", server.address, pid, "policy", levels))
                if left:
                    continue
                killed = kill_under_load(server, at_once=8 if short else 32)
                print(f"replica killed: {killed}", flush=True)
                rolled = roll_out_under_load(server, store, at_once=4 if short else 8)
    bare, ours = mean_of(bare_turns), mean_of(our_turns)
    show(bare, ours)
    write_results(
        "serve",
        {
            "bare_vllm": bare,
            "rldf_serve": ours,
            "turns": {"bare_vllm": bare_turns, "rldf_serve": our_turns},
            "replica_killed": killed,
            "rollout": rolled,
        },
        goals_of(bare, ours, killed, rolled),
    )


def mean_of(turns: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Mean of every figure over the turns, by number of streams."""
    return {
        level: {name: statistics.mean(turn[level][name] for turn in turns) for name in found}
        for level, found in turns[0].items()
    }


@contextmanager
def bare_vllm(model: Path) -> Iterator[tuple[str, int]]:
    """vLLM's OpenAI server with the same engine settings: its address and process."""
    port = free_port()
    options: dict[str, object] = {
        "model": model,
        "port": port,
        "host": "127.0.0.1",
        "dtype": "bfloat16",
        "max-model-len": MAX_MODEL_LEN,
        "max-num-seqs": MAX_NUM_SEQS,
        "max-num-batched-tokens": max(2048, MAX_MODEL_LEN),
        "kv-cache-memory-bytes": int(KV_CACHE_GIB * 2**30),
        "generation-config": "vllm",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command += ["--enforce-eager", "--no-enable-chunked-prefill", "--disable-log-stats"]
    command += ["--enable-prefix-caching", "--disable-uvicorn-access-log"]
    environment = {
        **os.environ,
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "TORCHDYNAMO_DISABLE": "1",
    }
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_up(f"{url}/health", server, log)
            yield url, server.pid
        finally:
            server.terminate()
            server.wait(60)


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Any) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    log.seek(0)
    raise RuntimeError(f"vLLM's server did not come up:\n{log.read()[-4000:]}")


@contextmanager
def rldf_serve(store: ModelStore, scratch: Path) -> Iterator[Running]:
    settings = {
        "engine.max_model_len": MAX_MODEL_LEN,
        "engine.max_num_seqs": MAX_NUM_SEQS,
        "engine.kv_cache_gib": KV_CACHE_GIB,
        # Two engines have to fit during a rollout.
        "engine.cpus": 0.5,
        "limits.request_timeout_s": 240,
    }
    changes = [word for k, v in settings.items() for word in ("--set", f"{k}={v}")]
    model = str(store.folder("v0001"))
    with running(model, "--store", str(store.root), *changes, log=scratch / "serve.txt") as server:
        yield server


def measure(
    name: str, url: str, pid: int, model: str, levels: dict[int, int]
) -> dict[str, dict[str, float]]:
    """Figures by number of streams, and what part of the machine other work took meanwhile."""
    asyncio.run(streams(url, model, 8, 16, lambda begun: begun < WARM_UP))
    found = {}
    for at_once, number in levels.items():
        before = Spent.now(pid)
        outcomes = asyncio.run(
            streams(url, model, at_once, TOKENS, lambda begun, n=number: begun < n)  # type: ignore[misc]
        )
        others = Spent.now(pid).others_since(before)
        found[str(at_once)] = {**figures(outcomes), "other_work": others}
        print(f"{name}, {at_once} streams; other work took {others:.0%}", flush=True)
    return found


@dataclass(frozen=True)
class Spent:
    """Processor time until now, seconds over all cores: of the machine, and of what is measured."""

    at: float
    machine: float
    measured: float

    @classmethod
    def now(cls, server: int) -> Spent:
        """The server with its processes, and this client, count as measured."""
        times = psutil.cpu_times()
        measured = time.process_time()
        parent = psutil.Process(server)
        for process in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used = process.cpu_times()
                measured += used.user + used.system
        machine = times.user + times.nice + times.system + times.irq + times.softirq
        return cls(time.monotonic(), machine, measured)

    def others_since(self, before: Spent) -> float:
        """The part of the machine that other work took."""
        cores = (psutil.cpu_count() or 1) * (self.at - before.at)
        return max(0.0, self.machine - before.machine - (self.measured - before.measured)) / cores


def kill_under_load(server: Running, at_once: int) -> dict[str, Any]:
    """Kill the engine's replica while `at_once` streams are under way."""
    return asyncio.run(_kill_under_load(server, at_once))


async def _kill_under_load(server: Running, at_once: int) -> dict[str, Any]:
    stop = asyncio.Event()
    replica = server.replica("rldf-policy.v0001")
    load = asyncio.create_task(
        streams(server.address, "policy", at_once, TOKENS, lambda begun: not stop.is_set())
    )
    await asyncio.sleep(6)
    replica.kill()
    killed_at = time.monotonic()
    # A request that waits for the new engine is answered when it is back.
    await streams(server.address, "policy", 1, 2, lambda begun: begun < 1)
    stop.set()
    outcomes = await load
    first_words = [
        o.began + o.first_s for o in outcomes if o.first_s is not None and o.error is None
    ]
    back = min((moment for moment in first_words if moment > killed_at + 0.5), default=None)
    failed = [o for o in outcomes if o.error is not None]
    return {
        "requests": len(outcomes),
        "lost_before_streaming": sum(o.first_s is None for o in failed),
        "clean_error_events": sum(o.clean and o.first_s is not None for o in failed),
        "broken_streams": sum(not o.clean and o.first_s is not None for o in failed),
        "recovery_s": None if back is None else back - killed_at,
        "errors": sorted({str(o.error) for o in failed})[:5],
    }


def roll_out_under_load(server: Running, store: ModelStore, at_once: int) -> dict[str, Any]:
    """50 %, then all of the traffic goes to a second version while streams are under way."""
    return asyncio.run(_roll_out_under_load(server, store, at_once))


async def _roll_out_under_load(server: Running, store: ModelStore, at_once: int) -> dict[str, Any]:
    began, stop = time.monotonic(), asyncio.Event()
    load = asyncio.create_task(
        streams(server.address, "policy", at_once, TOKENS, lambda begun: not stop.is_set())
    )
    await asyncio.sleep(3)
    for percent in (50, 100):
        store.rollout("v0002", percent)
        await _until_served(server.address, "v0002")
    # The old version's engine is ended a few seconds after its last request.
    await asyncio.sleep(8)
    stop.set()
    outcomes: list[Outcome] = await load
    by_version: dict[str, int] = {}
    for outcome in outcomes:
        by_version[outcome.version] = by_version.get(outcome.version, 0) + 1
    failed = [o for o in outcomes if o.error is not None]
    return {
        "requests": len(outcomes),
        "failed": len(failed),
        "by_version": by_version,
        "seconds": time.monotonic() - began,
        "errors": sorted({str(o.error) for o in failed})[:5],
    }


async def _until_served(url: str, version: str) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        found = await streams(url, "policy", 1, 2, lambda begun: begun < 1)
        if found[0].version == version and found[0].error is None:
            return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"{version} was not served in time")


def goals_of(
    bare: dict[str, Any], ours: dict[str, Any], killed: dict[str, Any], rolled: dict[str, Any]
) -> list[dict[str, Any]]:
    """The goals of serving: throughput, latency, first token by number of streams; what is lost."""
    rows = []
    for at_once in bare:
        ratio = ours[at_once]["tokens_per_s"] / bare[at_once]["tokens_per_s"]
        slower = ours[at_once]["p95_s"] / bare[at_once]["p95_s"]
        later = ours[at_once]["first_token_p50_s"] / bare[at_once]["first_token_p50_s"]
        rows.append(goal(f"throughput over bare vLLM, {at_once} streams", ratio, least=0.95))
        rows.append(goal(f"p95 latency over bare vLLM, {at_once} streams", slower, most=1.1))
        rows.append(goal(f"time to first token over bare vLLM, {at_once} streams", later, most=1.1))
    lost = killed["lost_before_streaming"] + killed["broken_streams"]
    return [
        *rows,
        goal("replica killed: requests lost or broken off without an error event", lost, most=0),
        goal("rollout: failed requests", rolled["failed"], most=0),
    ]


def show(bare: dict[str, Any], ours: dict[str, Any]) -> None:
    columns = ("requests_per_s", "tokens_per_s", "p50_s", "p95_s", "first_token_p50_s")
    table = Table("server", "streams", *columns)
    for at_once in bare:
        for name, found in (("vLLM", bare), ("rldf serve", ours)):
            table.add_row(name, at_once, *(f"{found[at_once][c]:.3g}" for c in columns))
    Console().print(table)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
