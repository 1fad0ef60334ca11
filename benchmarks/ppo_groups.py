"""PPO as people run it, against TRL's RLOO and GRPO: several answers a prompt, adapters, bfloat16.

    python -m benchmarks.ppo_groups MODEL [--steps 3]

Four answers of at most 48 tokens to each of 8 prompts of 96 tokens, LoRA of rank 16, bfloat16, one
pass over every batch. Ours is the `ppo` stage with everything it needs: Ray, DeepSpeed, a vLLM
engine, and a reward model, which is an adapter on the policy's base. TRL's trainers generate with
transformers, as vLLM beside them wants a GPU, and their reward is the length of an answer, which
costs nothing. Rates are of the steps after the first, memory is the peak of PSS over all processes
of a side.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.goals import goal, write_results
from benchmarks.ppo import prepare, rates, staged, watched
from rldf_ray.plan import LoraSection, load_plan

PROMPT, ANSWER, PROMPTS, ANSWERS, MICRO_BATCH = 96, 48, 8, 4, 8
BATCH = PROMPTS * ANSWERS
ADAPTERS = LoraSection(rank=16, alpha=32)
PEERS = ("rloo", "grpo")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the model that is trained")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ours:
        ours(given.root, given.model, given.steps)
    else:
        compare(given.model.resolve(), given.steps)


def compare(model: Path, steps: int) -> None:
    """All sides one after the other, each in processes of its own."""
    with tempfile.TemporaryDirectory(prefix="rldf-bench-") as folder:
        root = Path(folder) / "ours"
        prepare(root, ADAPTERS, model, "bfloat16", PROMPT)
        command = [sys.executable, "-m", "benchmarks.ppo_groups", str(model), "--ours"]
        peak = watched([*command, "--root", str(root), "--steps", str(steps)])
        found = json.loads((root / "ours.json").read_text(encoding="utf-8"))
        figures: dict[str, Any] = {"model": model.name, "ours": {**found, "peak_gib": peak}}
        for name in PEERS:
            figures[name] = peer(name, root, model, steps)
    write_results("ppo_groups", figures, goals_of(figures))


def goals_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Against the faster of the two peers."""
    own, best = figures["ours"], max(figures[name]["episodes_per_s"] for name in PEERS)
    return [
        goal("episodes/s over the better of TRL's", own["episodes_per_s"] / best, least=2.5),
        goal("peak memory, GiB", own["peak_gib"], most=10),
    ]


def ours(root: Path, model: Path, steps: int) -> None:
    """The `ppo` stage in this process."""
    sizes = {
        "episodes": steps * BATCH,
        "rollout_batch": BATCH,
        "answers_per_prompt": ANSWERS,
        "batch_size": BATCH,
        "micro_batch": MICRO_BATCH,
        "max_tokens": ANSWER,
        "beta": 0.05,
        "dtype": "bfloat16",
        "sample_every": None,
    }
    plan = load_plan(
        "opinions",
        [
            f"model={model}",
            f"ppo={json.dumps(sizes)}",
            f"train.lora={json.dumps(ADAPTERS.model_dump())}",
            "engines.max_model_len=256",
            "engines.kv_cache_gib=0.5",
        ],
    )
    figures = rates(staged(root, plan), BATCH)
    (root / "ours.json").write_text(json.dumps(figures), encoding="utf-8")


def peer(name: str, root: Path, model: Path, steps: int) -> dict[str, Any]:
    """One of TRL's trainers on the same model and prompts."""
    script, out = Path(__file__).parent / "peers" / "trl_groups.py", root / f"{name}.json"
    sizes = (steps, PROMPTS, ANSWERS, MICRO_BATCH, ANSWER)
    command = (sys.executable, script, name, model, root / "data/prompts.parquet", *sizes, out)
    peak = watched([str(part) for part in command])
    found = json.loads(out.read_text(encoding="utf-8"))
    seconds = found["ended"][-1] - found["ended"][0]
    return {
        "version": found["version"],
        "episodes_per_s": round((len(found["ended"]) - 1) * BATCH / seconds, 3),
        "answer_tokens": found["answer_tokens"],
        "peak_gib": peak,
    }


if __name__ == "__main__":
    main()
