"""What reading two documents as a set costs, against stock attention on the same tokens.

    python -m benchmarks.pine [--tokens 200] [--answer 64] [--turns 5]

The embedded model, float32, one request at a time, in turns in one process:

1. PINE: both documents as a set;
2. the control: the same code with stock attention;
3. transformers' own `generate`, greedily.

A turn reads a prompt of two documents of `--tokens` tokens each and writes `--answer` tokens;
medians of the turns. Writes benchmarks/results/pine.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.position_invariant import PositionInvariant

PREFIX, SUFFIX = 40, 160


def main() -> None:
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    folder = resolve_model("embedded")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    reader, generator = PositionInvariant(model), torch.Generator().manual_seed(0)
    lengths = (PREFIX, options.tokens, options.tokens, SUFFIX)
    parts = [torch.randint(5, 4000, (n,), generator=generator).tolist() for n in lengths]
    whole = [token for part in parts for token in part]

    def read(given: list[list[int]]) -> None:
        logits, reading = reader.read(given, room=options.answer)
        token = int(logits[-1].argmax())
        for _ in range(options.answer - 1):
            token = int(reader.follow(token, reading).argmax())

    def generate() -> None:
        model.generate(
            torch.tensor([whole]),
            attention_mask=torch.ones(1, len(whole), dtype=torch.int64),
            max_new_tokens=options.answer,
            min_new_tokens=options.answer,
            do_sample=False,
        )

    ways: dict[str, Callable[[], None]] = {
        "PINE": lambda: read(parts),
        "stock attention, same code": lambda: read([whole[:-1], whole[-1:]]),
        "transformers": generate,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.turns + 1):
        for name, way in ways.items():
            began = time.monotonic()
            way()
            if turn:
                seconds[name].append(time.monotonic() - began)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    table = Table("", "seconds", "times stock")
    for name, median in medians.items():
        table.add_row(name, f"{median:.2f}", f"{median / medians['transformers']:.2f}")
    Console().print(table)
    pine, same, stock = medians.values()
    write_results(
        "pine",
        {"seconds": seconds, "tokens": lengths, "answer": options.answer},
        [
            goal("time, times transformers' stock attention's", pine / stock, most=3),
            goal("time, times stock attention's in the same code", pine / same, most=3),
        ],
    )


if __name__ == "__main__":
    main()
