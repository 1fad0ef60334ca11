"""Reward model training here (Ray Train, DeepSpeed) and by TRL's RewardTrainer alone: pairs/s.

    python -m benchmarks.reward [--pairs 64] [--turns 2]

Embedded model in float32 (in bfloat16 DeepSpeed keeps float32 copies of the weights, TRL alone does
not), pairs of 128 tokens a side, batch 8, one epoch, the same ids on both sides. The time is from
the end of the first step to the end of the last: the start of Ray and DeepSpeed is not in it, and
is given beside it. The sides take turns, as a machine is not equally fast from minute to minute.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.goals import goal, write_results
from rldf_ray.plan import load_plan

LENGTH, BATCH = 128, 8
WORDS = ("young", "old", "people", "work", "home", "school", "town", "friend", "letter", "garden")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.root is not None:
        ours(given.root)
        return
    with tempfile.TemporaryDirectory(prefix="rldf-bench-") as folder:
        root = Path(folder)
        model = prepare(root, given.pairs)
        script = Path(__file__).parent / "peers" / "trl_reward.py"
        peer = [script, model, root / "pairs.json", BATCH, root / "trl.json"]
        sides = {
            "ours": [sys.executable, "-m", "benchmarks.reward", "--root", folder],
            "trl": [sys.executable, *map(str, peer)],
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for _ in range(given.turns):
            for name, command in sides.items():
                runs[name].append(_run(command, root, name))
    rates = {
        name: [round((given.pairs - BATCH) / run["seconds"], 3) for run in turns]
        for name, turns in runs.items()
    }
    ratio = statistics.mean(rates["ours"]) / statistics.mean(rates["trl"])
    write_results(
        "reward",
        {name: {"pairs_per_s": rates[name], "turns": runs[name]} for name in sides},
        [goal("pairs/s over TRL's alone", ratio, least=1.0)],
    )


def _run(command: list[str], root: Path, name: str) -> dict[str, float]:
    shutil.rmtree(root / "out", ignore_errors=True)
    began = time.monotonic()
    subprocess.run(command, check=True)
    found: dict[str, float] = json.loads((root / f"{name}.json").read_text(encoding="utf-8"))
    return {**found, "whole_seconds": round(time.monotonic() - began, 1)}


def prepare(root: Path, number: int) -> Path:
    """Pairs that are `LENGTH` tokens a side in the chat template, as ids and as messages."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    from rldf_ray.models.chat_template import ChatTemplate
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.reward import _encode

    folder = embedded_model_folder()
    tokenizer, draw = AutoTokenizer.from_pretrained(folder), random.Random(0)
    template = ChatTemplate(tokenizer)
    rows = [_pair(draw, i) for i in range(number)]
    encoded = [_encode(row, template, LENGTH) for row in rows]
    assert all(len(ids) == LENGTH for row in encoded for ids in row.values())
    columns = {key: [row[key] for row in encoded] for key in encoded[0]}
    (root / "pairs.json").write_text(json.dumps(columns), encoding="utf-8")
    (root / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), root / "data/pairs.parquet")
    return folder


def _pair(draw: random.Random, number: int) -> dict[str, Any]:
    """Answers of more words than fit, so that both sides are cut to the same length."""

    def says(role: str, count: int) -> list[dict[str, str]]:
        return [{"role": role, "content": " ".join(draw.choices(WORDS, k=count))}]

    return {
        "topic_id": f"t{number}",
        "prompt": says("user", 20),
        "chosen": says("assistant", 200),
        "rejected": says("assistant", 200),
    }


def ours(root: Path) -> None:
    """The reward model's training job, in this process, on a Ray cluster of its own."""
    from rldf_ray.cluster.placement import place
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.reward import train_reward
    from rldf_ray.train.worker import TrainJob

    size = f"batch_size: {BATCH}, micro_batch: {BATCH}, max_length: {LENGTH}, held_out_share: 0.0"
    plan = load_plan(
        "opinions", [f"reward={{{size}}}", "train.warmup_share=0.0", "train.dtype=float32"]
    )
    (root / "out").mkdir()
    folders = {
        "model": str(embedded_model_folder()),
        "data": str(root / "data"),
        "out": str(root / "out"),
    }
    with ray_cluster(root / "logs") as resources:
        job = TrainJob(plan, place(plan, resources), folders)
        ended: list[float] = []
        history = train_reward(job, lambda done, total: ended.append(time.monotonic()))
    figures = {"seconds": ended[-1] - ended[0], "train_loss": history[-1]["train_loss"]}
    (root / "ours.json").write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
