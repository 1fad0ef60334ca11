"""A study on a real engine against the same engine's ceiling.

    python -m benchmarks.studies judges --data pairs.jsonl [--items 24]

One engine of the embedded model plays everybody, in one run:

1. the product: all systems and conditions of the study's `small` preset, no barrier;
2. the ceiling: the requests of 1 (prompts, guides, lengths of unguided answers), all at once, given
   to bare vLLM with the same settings, the prefix cache on.

Prefilled tokens are the engine's own count. The prefix tree of all prompts of 1 is the least that
any engine can prefill. Writes benchmarks/results/studies_NAME.json.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from benchmarks.recorded import (
    figures,
    prefix_tree_tokens,
    recorded_engine,
    replayed,
    settings_of,
)
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.protocols.hold import hold_each
from rldf_ray.protocols.known import study_named, study_names
from rldf_ray.protocols.study import StudyCast
from rldf_ray.studies.plans import LoadedStudy, load_study


def held(
    name: str, loaded: LoadedStudy, items: Sequence[Any]
) -> tuple[dict[str, float], list[Any]]:
    """Figures of the whole study, and what reached the engine."""
    study, plan = study_named(name), loaded.plan
    with recorded_engine(settings_of("embedded", plan.engines)) as (pool, engine):
        models = dict.fromkeys(plan.models, pool)
        cast = StudyCast(seed=plan.seed, settings=loaded.settings, models=models)

        async def hold() -> float:
            began = time.monotonic()
            await hold_each(
                lambda item: study.hold(item, cast), items, len(items), lambda place, kept: None
            )
            return time.monotonic() - began

        seconds = asyncio.run(hold())
        recorded: list[Any] = ray.get(engine._actor.recorded.remote())
    return figures(recorded, seconds), recorded


def in_flight(recorded: Sequence[Any], seconds: float) -> float:
    """Requests under way at once, mean over the run."""
    under_way: float = sum(request["seconds"] for request in recorded)
    return under_way / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=study_names())
    parser.add_argument("--data", required=True, help="a file, or what the study calls its own")
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--set", action="append", default=[], help="a field of the study's plan")
    options = parser.parse_args()
    file = Path(options.data)
    data = f"settings.data={file.resolve() if file.is_file() else options.data}"
    loaded = load_study(options.name, "small", [data, *options.set])
    items = study_named(options.name).items(loaded.settings, loaded.plan.seed)[: options.items]
    with tempfile.TemporaryDirectory() as logs, ray_cluster(Path(logs)):
        ours, recorded = held(options.name, loaded, items)
    ceiling = replayed(settings_of("embedded", loaded.plan.engines), recorded)
    least = prefix_tree_tokens([request["prompt"] for request in recorded])
    table = Table("", *ours)
    for name, row in (("product", ours), ("ceiling", ceiling)):
        table.add_row(name, *(f"{row[key]:.4g}" for key in ours))
    Console(width=200).print(table)
    write_results(
        "studies",
        {
            "product": ours,
            "ceiling": ceiling,
            "prefix_tree_tokens": least,
            "requests_in_flight": in_flight(recorded, ours["seconds"]),
            "items": len(items),
            "plan": loaded.plan.model_dump(mode="json", exclude={"settings": {"data"}}),
        },
        [
            goal(
                "generated tokens a second, share of the ceiling's",
                ours["generated_tokens_a_second"] / ceiling["generated_tokens_a_second"],
                least=0.9,
            ),
            goal(
                "prefilled tokens, times the prefix tree's",
                ours["prefilled_tokens"] / least,
                most=1.3,
            ),
        ],
        variant=options.name,
    )


if __name__ == "__main__":
    main()
