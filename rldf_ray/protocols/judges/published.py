"""The consistency rates that the paper prints (its Tables 1 to 4 and 14 to 17), one a row.

`published.csv` has them, each with the number of its table. They are compared in form alone:
their models, items and prompts are others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).parent / "published.csv"
BIASES = ("position", "verbosity", "bandwagon", "cot")
BENCHMARKS = ("MT-Bench", "CALM-Alignment")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRate:
    table: str
    benchmark: str
    system: str
    judge: str
    other: str
    mode: str
    round: int | None
    bias: str
    value: float


def published() -> list[PublishedRate]:
    """All rates, in the order of the paper's tables."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return [
            PublishedRate(
                table=row["table"],
                benchmark=row["benchmark"],
                system=row["system"],
                judge=row["judge_or_meta"],
                other=row["critic_or_pool"],
                mode=row["mode"],
                round=int(row["round"]) if row["round"] else None,
                bias=row["bias"],
                value=float(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


def debate_cells(number: int, biases: Sequence[str] = BIASES) -> list[float]:
    """Table 1's cells of a round, by pair, benchmark and bias."""
    cells = [r for r in published() if r.table == "1" and r.round == number and r.bias in biases]
    return [r.value for r in sorted(cells, key=lambda r: (r.judge, r.other, r.benchmark, r.bias))]


def meta_cells(
    mode: str | None = None, biases: Sequence[str] = BIASES, pool_size: int | None = None
) -> tuple[list[float], list[float]]:
    """Table 2's cells above pools, and the baseline of each: the same model as a single judge."""
    rates = [r for r in published() if r.table == "2"]
    baseline = {(r.judge, r.benchmark, r.bias): r.value for r in rates if r.system == "single"}
    above, alone = [], []
    for rate in _above_pools(rates, mode, biases, pool_size):
        above.append(rate.value)
        alone.append(baseline[rate.judge, rate.benchmark, rate.bias])
    return above, alone


def _above_pools(
    rates: Sequence[PublishedRate], mode: str | None, biases: Sequence[str], size: int | None
) -> Iterator[PublishedRate]:
    for rate in rates:
        members = len(rate.other.split("+"))
        asked = rate.system == "meta" and rate.bias in biases
        if asked and mode in (None, rate.mode) and size in (None, members):
            yield rate
