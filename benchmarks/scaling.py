"""Two training workers on the cores of one; and what many workers would ask of a network.

    python -m benchmarks.scaling [--examples 128]

SFT of the embedded model, float32, 128-token examples, 32 an optimizer step, ZeRO 1: one worker
with two threads, then two workers with one each. The bytes that a step sends are read from the
loopback interface, over which the workers of one machine reduce their gradients.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from rldf_ray.cluster.placement import Placement, Resources
from rldf_ray.plan import load_plan

LENGTH, BATCH = 128, 32
WORDS = ("young", "old", "people", "work", "home", "school", "town", "friend", "letter", "garden")
# What the table assumes of a GPU and of a large model; a step's answer tokens for each worker.
FLOPS, PARAMETERS, TOKENS, BYTES = 4e14, 7e9, 32_768, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.workers:
        train(given.root, given.workers)
        return
    with tempfile.TemporaryDirectory(prefix="rldf-bench-") as folder:
        prepare(Path(folder), given.examples)
        own = [sys.executable, "-m", "benchmarks.scaling", "--root", folder, "--workers"]
        measured = {str(n): _measure([*own, str(n)], Path(folder), n) for n in (1, 2)}
    tokens = given.examples * LENGTH
    for side in measured.values():
        side["tokens_per_s"] = round(tokens / side["train_runtime"], 1)
    sent = measured["2"]["bytes_a_step"] - measured["1"]["bytes_a_step"]
    factor = sent / 2 / ring_bytes(measured["2"]["parameters"], 2, 4)
    table = [network(n, factor) for n in (8, 64)]
    _print(table)
    ratio = measured["2"]["tokens_per_s"] / measured["1"]["tokens_per_s"]
    write_results(
        "scaling",
        {"workers": measured, "measured_over_ring": round(factor, 3), "network": table},
        [goal("tokens/s of two workers over one's", ratio, least=0.9)],
    )


def ring_bytes(parameters: float, workers: int, size: int) -> float:
    """Bytes each worker sends to reduce all gradients once: 2 (n - 1) / n * parameters * size."""
    return 2 * (workers - 1) / workers * parameters * size


def network(workers: int, factor: float) -> dict[str, float]:
    """What each of `workers` GPUs would send in a step of a 7B model, and how fast it must.

    ZeRO 0 and 1 reduce gradients once a step: ring_bytes. ZeRO 3 gathers the weights for the
    forward and the backward pass and scatters gradients: 1.5 times that. A step computes for
    6 * parameters * tokens / flops seconds (8 with recomputed activations), and communication
    that does not overlap should take at most a tenth of it.
    """
    zero_1 = factor * ring_bytes(PARAMETERS, workers, BYTES)
    compute = 6 * PARAMETERS * TOKENS / FLOPS
    return {
        "workers": workers,
        "step_compute_s": round(compute, 2),
        "zero_1_gb": round(zero_1 / 1e9, 1),
        "zero_1_gb_per_s": round(zero_1 / 1e9 / (0.1 * compute), 1),
        "zero_3_gb": round(1.5 * zero_1 / 1e9, 1),
        "zero_3_gb_per_s": round(1.5 * zero_1 / 1e9 / (0.1 * compute), 1),
    }


def _print(rows: list[dict[str, float]]) -> None:
    table = Table(*rows[0], title="7B model, bfloat16: sent by each GPU in an optimizer step")
    for row in rows:
        table.add_row(*(f"{value:g}" for value in row.values()))
    Console().print(table)


def _measure(command: list[str], root: Path, workers: int) -> dict[str, Any]:
    subprocess.run(command, check=True)
    found: dict[str, Any] = json.loads((root / f"{workers}.json").read_text(encoding="utf-8"))
    return found


def prepare(root: Path, number: int) -> None:
    """Examples of more words than fit, so that each is cut to the same length."""
    import random

    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = random.Random(0)

    def says(role: str, count: int) -> list[dict[str, str]]:
        return [{"role": role, "content": " ".join(draw.choices(WORDS, k=count))}]

    rows = [
        {"prompt": says("user", 20), "completion": says("assistant", 200)} for _ in range(number)
    ]
    (root / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), root / "data/sft.parquet")


def train(root: Path, workers: int) -> None:
    """SFT on `workers` workers, in this process, on a Ray cluster of its own."""
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.preflight.models import parameters_of
    from rldf_ray.train.sft import train_sft
    from rldf_ray.train.worker import TrainJob

    plan = load_plan(
        "opinions",
        [
            f"sft={{batch_size: {BATCH}, micro_batch: 4, max_length: {LENGTH}}}",
            f"train={{workers: {workers}, zero_stage: 1, dtype: float32}}",
            # Not trained here, but as many have to be able to share them.
            "referee.fit.micro_batch=8",
            "reward.micro_batch=4",
            "ppo.micro_batch=2",
        ],
    )
    out = root / f"out-{workers}"
    out.mkdir()
    model = str(embedded_model_folder())
    folders = {"model": model, "data": str(root / "data"), "out": str(out)}
    with ray_cluster(root / "logs") as resources:
        job = TrainJob(plan, _placement(resources, workers), folders)
        sent: dict[int, int] = {}

        def on_progress(done: int, total: int) -> None:
            sent.setdefault(done, _loopback_bytes())

        history = train_sft(job, on_progress)
    figures = {
        "train_runtime": history[-1]["train_runtime"],
        # Of the steps after the first, before which weights are broadcast.
        "bytes_a_step": round((sent[max(sent)] - sent[min(sent)]) / (max(sent) - min(sent))),
        "parameters": parameters_of(model),
        "train_loss": history[-1]["train_loss"],
    }
    (root / f"{workers}.json").write_text(json.dumps(figures), encoding="utf-8")


def _placement(resources: Resources, workers: int) -> Placement:
    """Workers on all cores; the planner would keep room for engines."""
    cores = int(resources.cpus)
    return Placement(
        device="cpu",
        engines=0,
        engine_cpus=0,
        engine_gpus=0,
        workers=workers,
        worker_cpus=cores / workers,
        worker_gpus=0,
        threads=max(1, cores // workers),
    )


def _loopback_bytes() -> int:
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


if __name__ == "__main__":
    main()
