"""The PPO step, reward scoring and position-invariant attention on one GPU, without Ray or vLLM.

    python -m benchmarks.gpu_step [--sizes 1.5B 7B] [--repeats 10] [--out FOLDER]
    python -m benchmarks.gpu_step --toy    # all of it on the CPU, at a size that measures nothing

Random Qwen2 weights of the sizes of Qwen2.5-1.5B and 7B in bfloat16, adapters of rank 16, rollouts
of prompts of 192 tokens and answers of 64, all in one micro-batch; documents of 200 tokens and
more. Measured side by side:

1. PPO's step (forward passes of actor, reference and critic, losses, backward, optimizer) and the
   reward model's scores: the product's shared base, and PEFT's own LoRA layers on a base for the
   policy and one for the values (benchmarks/gpu_models.py);
2. reading a prompt with two documents, and writing an answer: position-invariant attention, stock
   attention in the same code, and transformers.

Every measurement is the median of `--repeats` by CUDA events after two that are left out. Tokens a
second are all tokens of the rollouts, or of the prompt, or of the answer. The share of the card's
peak is of the operations that a side does by formula (benchmarks/gpu_flops.py): a side that saves
some has more tokens a second, not a larger share. Memory is the peak of torch's allocations.
Needed are torch, transformers, peft and the project's own dependencies.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.goals import RESULTS, goal, write_results
from benchmarks.gpu_flops import Size, UnknownCardError, peak_tflops
from benchmarks.gpu_models import CASES, RANK, Case
from benchmarks.gpu_ppo import SIDES, MeasuredStep
from benchmarks.gpu_reading import INVARIANT, SAME_CODE, MeasuredReading
from benchmarks.gpu_timing import Clock

Row = dict[str, Any]
WIDTH = 120  # of the table, also where there is no terminal to ask

SIZES = {
    "1.5B": Size(
        hidden=1536,
        inner=8960,
        layers=28,
        heads=12,
        kv_heads=2,
        words=151936,
        tied=True,
        rollouts=16,
    ),
    # On PEFT's side two bases of 15 GB, and activations of actor and critic of 12 GB each.
    "7B": Size(
        hidden=3584,
        inner=18944,
        layers=28,
        heads=28,
        kv_heads=4,
        words=152064,
        tied=False,
        rollouts=8,
    ),
}
TOY = Size(hidden=32, inner=48, layers=4, heads=4, kv_heads=2, words=64, tied=True, rollouts=8)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where is measured, and on how many tokens.

    Attributes:
        rollout: tokens of prompt and answer.
        documents: tokens of each of two documents, every number by itself.
        around: tokens before and after the documents, and of the answer.
    """

    device: str
    dtype: str
    rollout: tuple[int, int]
    documents: tuple[int, ...]
    around: tuple[int, int, int]

    def step(self, case: Case, side: str, size: Size) -> MeasuredStep:
        prompt, answer = self.rollout
        return MeasuredStep(
            case=case,
            side=side,
            size=size,
            device=self.device,
            dtype=self.dtype,
            prompt=prompt,
            answer=answer,
        )

    def reading(self, size: Size) -> MeasuredReading:
        prefix, suffix, written = self.around
        return MeasuredReading(
            size=size,
            device=self.device,
            dtype=self.dtype,
            prefix=prefix,
            suffix=suffix,
            written=written,
        )


ON_GPU = Setting(
    device="cuda",
    dtype="bfloat16",
    rollout=(192, 64),
    documents=(200, 800, 2000),
    around=(40, 160, 32),
)
ON_CPU = Setting(
    device="cpu", dtype="float32", rollout=(12, 4), documents=(8, 16), around=(4, 6, 3)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, help="of every measurement; 10, of a toy 2")
    parser.add_argument("--peak-tflops", type=float, help="the card's, dense bfloat16")
    parser.add_argument("--toy", action="store_true", help="on the CPU, tiny, in float32")
    parser.add_argument("--out", type=Path, help="folder of the result; a toy has none without")
    parser.add_argument("--commit", help="of a copy of the code that has no repository")
    given = parser.parse_args()
    if given.toy:
        # At this size more would only wait for each other.
        torch.set_num_threads(1)
        sizes, setting, card, peak = {"toy": TOY}, ON_CPU, "CPU", given.peak_tflops
    else:
        sizes, setting = {name: SIZES[name] for name in given.sizes}, ON_GPU
        card, peak = card_and_peak(given.peak_tflops)
    repeats = given.repeats or (2 if given.toy else 10)
    clock = Clock(device=setting.device, repeats=repeats, peak_tflops=peak)
    figures = {
        "card": card,
        "peak_tflops": peak,
        "dtype": setting.dtype,
        "rank": RANK,
        "ppo": {name: steps(clock, setting, size, name) for name, size in sizes.items()},
        "reading": {name: readings(clock, setting, size, name) for name, size in sizes.items()},
    }
    Console(width=max(WIDTH, Console().width)).print(table_of(figures))
    out = given.out or (None if given.toy else RESULTS)
    write_results("gpu_step", figures, goals_of(figures), folder=out, commit=given.commit)


def card_and_peak(given: float | None) -> tuple[str, float]:
    """The card's name and its peak, dense bfloat16 TFLOP/s.

    Raises:
        SystemExit: there is no card, or its peak is not known.
    """
    if not torch.cuda.is_available():
        raise SystemExit(
            "gpu_step: torch finds no CUDA device, and without one there is nothing to measure; "
            "--toy runs all of it on the CPU at a size that measures nothing"
        )
    card = torch.cuda.get_device_name()
    try:
        return card, peak_tflops(card, given)
    except UnknownCardError as error:
        raise SystemExit(f"gpu_step: {error}") from None


def steps(clock: Clock, setting: Setting, size: Size, name: str) -> dict[str, Any]:
    """Figures of scores and steps by case and side."""
    measured: dict[str, Any] = {}
    for case in CASES:
        measured[case.name] = {}
        for side in SIDES:
            rows = clock.measure(setting.step(case, side, size).works())
            announce(f"{name}, {case.name}, {side}", rows)
            measured[case.name][side] = rows
    return measured


def readings(clock: Clock, setting: Setting, size: Size, name: str) -> dict[str, Any]:
    """Figures of reading and writing by the documents' length."""
    measured: dict[str, Any] = {}
    for length in setting.documents:
        rows = clock.measure(setting.reading(size).works(length))
        announce(f"{name}, 2 x {length} tokens", rows)
        measured[str(length)] = rows
    return measured


def announce(what: str, rows: dict[str, Row]) -> None:
    """At once: a run that is cut off has then said what it measured."""
    for name, row in rows.items():
        median, peak = _text(row["median_s"], ".4f"), _text(row["peak_gib"], ".1f")
        print(f"{what}, {name}: {median} s, {peak} GiB", flush=True)


def table_of(figures: dict[str, Any]) -> Table:
    """Every measurement in a row."""
    columns = ("", "seconds", "least to most", "tokens/s", "TFLOP/s", "of peak", "GiB")
    table = Table(*columns, title=f"{figures['card']}, {figures['dtype']}")
    for what, row in rows_of(figures):
        seconds = row["seconds"]
        table.add_row(
            what,
            _text(row["median_s"], ".4f"),
            f"{min(seconds):.4f} to {max(seconds):.4f}" if seconds else "no memory",
            _text(row["tokens_per_s"], ",.0f"),
            _text(row["tflops"], ".1f"),
            _text(row["peak_share"], ".1%"),
            _text(row["peak_gib"], ".1f"),
        )
    return table


def rows_of(figures: dict[str, Any]) -> list[tuple[str, Row]]:
    """All measurements, by what they are of."""
    rows = [
        (f"{size}, {case}, {part}: {side}", row)
        for size, cases in figures["ppo"].items()
        for case, sides in cases.items()
        for side, parts in sides.items()
        for part, row in parts.items()
    ]
    return rows + [
        (f"{size}, 2 x {length} tokens: {way}", row)
        for size, lengths in figures["reading"].items()
        for length, ways in lengths.items()
        for way, row in ways.items()
    ]


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def goals_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Of every size; comparisons of those for which the card had memory on both sides."""
    without = sum(not row["seconds"] for _, row in rows_of(figures))
    goals = [goal("measurements for which there was no memory", without, most=0)]
    for size, cases in figures["ppo"].items():
        for case in CASES:
            own, peft = (cases[case.name][side].get("step") for side in SIDES)
            what, faster = f"{size}, {case.name}", 1.0 if case.answers == 1 else 2.0
            goals += ratio(f"{what}: tokens/s over PEFT's", own, peft, "tokens_per_s", least=faster)
            goals += ratio(f"{what}: memory over PEFT's", own, peft, "peak_gib", most=1.0)
            if case.answers == 1 and own and own["peak_share"]:
                goals.append(goal(f"{what}: share of the peak", own["peak_share"], least=0.3))
    for size, lengths in figures["reading"].items():
        for length, rows in lengths.items():
            for part in ("read", "write"):
                own, stock = (rows.get(f"{way}, {part}") for way in (INVARIANT, SAME_CODE))
                what = f"{size}, 2 x {length} tokens: time to {part} over stock attention's"
                goals += ratio(what, own, stock, "median_s", most=3)
    return goals


def ratio(
    what: str, own: Row | None, other: Row | None, figure: str, **limit: float
) -> list[dict[str, Any]]:
    """The goal of one row's figure over another's; none where one of them is missing."""
    if not own or not other or not own[figure] or not other[figure]:
        return []
    return [goal(what, own[figure] / other[figure], **limit)]


if __name__ == "__main__":
    main()
