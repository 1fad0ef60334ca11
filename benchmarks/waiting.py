"""What waiting threads cost: two models on the same cores, by how long their threads spin.

    python -m benchmarks.waiting [--turns 3]

The embedded model in bfloat16 with as many threads as there are cores, in one process and in two at
once: a forward pass of 8 x 120 tokens, and 12 tokens decoded for 8 prompts of 20. GNU's OpenMP by
default against what workers and engines are given (`cluster/environment.py`). The sides take turns,
as a machine is not equally fast from minute to minute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.goals import goal, write_results
from rldf_ray.cluster.environment import waiting_environment

SIDES = {"default": {}, "ours": waiting_environment()}
WORK = ("forward", "decode")
PASSES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process:
        print(json.dumps(process()))
        return
    took: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(given.turns):
        for side in SIDES:
            for number, name in ((1, "alone"), (2, "two at once")):
                took.setdefault(name, {}).setdefault(side, []).append(_at_once(side, number))
    medians = {
        name: {
            side: {work: statistics.median(turn[work] for turn in turns) for work in WORK}
            for side, turns in sides.items()
        }
        for name, sides in took.items()
    }
    goals = [
        goal(f"{work}, {name}: seconds over the default's", _ratio(medians[name], work), most=most)
        for name, most in (("alone", 1.1), ("two at once", 0.75))
        for work in WORK
    ]
    write_results("waiting", {"environment": SIDES["ours"], "seconds": medians}, goals)


def _ratio(sides: dict[str, dict[str, float]], work: str) -> float:
    return sides["ours"][work] / sides["default"][work]


def _at_once(side: str, number: int) -> dict[str, float]:
    """Seconds of each kind of work, a mean over processes that do it at once."""
    left_out = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {n: v for n, v in os.environ.items() if n not in left_out} | SIDES[side]
    command = [sys.executable, "-m", "benchmarks.waiting", "--process"]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(number)
    ]
    printed = [process.communicate()[0].splitlines()[-1] for process in processes]
    found = [json.loads(line) for line in printed]
    return {work: statistics.mean(one[work] for one in found) for work in WORK}


def process() -> dict[str, float]:
    """Seconds of a forward pass and of a decoding, the first of each left out."""
    import torch
    from transformers import AutoModelForCausalLM

    from rldf_ray.models.embedded import resolve_model

    torch.set_num_threads(os.cpu_count() or 1)
    folder = resolve_model("embedded")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model.eval()
    ids = torch.randint(5, 4000, (8, 120), generator=torch.Generator().manual_seed(0))
    prompts = {"input_ids": ids[:, :20], "attention_mask": torch.ones_like(ids[:, :20])}
    exactly = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    kinds: dict[str, Callable[[], Any]] = {
        "forward": lambda: model(input_ids=ids, use_cache=False, logits_to_keep=1),
        "decode": lambda: model.generate(**prompts, **exactly),
    }
    return {name: _seconds(do) for name, do in kinds.items()}


def _seconds(do: Callable[[], Any]) -> float:
    import torch

    with torch.inference_mode():
        do()
        began = time.monotonic()
        for _ in range(PASSES):
            do()
    return (time.monotonic() - began) / PASSES


if __name__ == "__main__":
    main()
