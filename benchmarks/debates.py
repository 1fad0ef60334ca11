"""Debates on a real engine against the same engine's ceiling, and against round-by-round debates.

    python -m benchmarks.debates [--referee engine|elsewhere] [--topics 64] [--max-tokens 64]

In one run, on one engine of the embedded model at a time, 3 debaters and 3 rounds:

1. the product: prompts in the shared layout, no barrier;
2. the ceiling: the prompts and answer lengths of 1, all at once, given to bare vLLM with the same
   settings, the prefix cache on;
3. what others do: the role first in every prompt, and a barrier after every round.

Prefilled tokens are the engine's own count (prompt tokens less cached ones). The prefix tree of
all prompts of 1 is the least that any engine can prefill.

The referee is a prompted model on the same engine, or (`elsewhere`) one that the engine never hears
of, as a trained referee is: a script then gives the marks at once, so that what is measured is the
debaters. A prompted referee reads every statement by itself, under both layouts alike, which no
layout of the debaters' prompts can save. Writes benchmarks/results/debates.json, for `elsewhere`
debates_elsewhere.json.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import replace
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
from rldf_ray.models.base import ChatModel, ChatRequest, Completion
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import Plan, load_plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Debate
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics

ROUNDS, DEBATERS = 3, 3


class Lockstep:
    """Lets no debate into a round, or to its referee, before all debates are that far.

    A round is one phase or two: every debater speaks; where the referee is on the engine as well,
    every statement is scored and the round ranked.
    """

    def __init__(self, model: ChatModel, debates: int, referee_here: bool) -> None:
        self._model = model
        speaking, judging = debates * DEBATERS, debates * (DEBATERS + 1)
        self._expected = (speaking, judging) if referee_here else (speaking,)
        self._done: Counter[int] = Counter()
        self._open = [asyncio.Event() for _ in range(len(self._expected) * ROUNDS + 1)]
        self._open[0].set()

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        _, _, number, kind, *_ = request.address.split("/")
        phases = len(self._expected)
        phase = phases * (int(number) - 1) + (kind != "role")
        await self._open[phase].wait()
        answer = await self._model.complete(request)
        self._done[phase] += 1
        if self._done[phase] == self._expected[phase % phases]:
            self._open[phase + 1].set()
        return answer


def debates_of(plan: Plan) -> list[Debate]:
    topics = [
        replace(topic, split="debate")
        for name in plan.bias_types
        for kind in ("opinion", "judgement")
        for topic in seed_topics(bias_type(name), kind, plan)
    ]
    return multirole.items(topics, plan)


def held(
    plan: Plan, barrier: bool, referee_here: bool
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Figures of all debates of `plan`, and what reached the engine."""
    debates = debates_of(plan)
    with recorded_engine(settings_of(plan.model, plan.engines)) as (pool, engine):

        async def hold() -> float:
            model = Lockstep(pool, len(debates), referee_here) if barrier else pool
            judge = model if referee_here else ScriptedModel()
            cast = Cast(
                plan=plan,
                run_id="benchmark",
                models={"debater": model},
                referee=PromptedReferee(judge, plan.seed),
            )
            began = time.monotonic()
            await hold_all(multirole, debates, cast, lambda place, statements: None)
            return time.monotonic() - began

        seconds = asyncio.run(hold())
        recorded: list[dict[str, Any]] = ray.get(engine._actor.recorded.remote())
    statements = len(debates) * DEBATERS * ROUNDS
    # The referee is greedy, and its prompts are the same under both layouts.
    debaters = sum(
        len(request["prompt"]) - request["cached"]
        for request in recorded
        if request["temperature"] > 0
    )
    return {
        "statements_a_second": statements / seconds,
        **figures(recorded, seconds),
        "prefilled_tokens_of_debaters": debaters,
    }, recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--referee", choices=("engine", "elsewhere"), default="engine")
    parser.add_argument("--topics", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=64, help="longest statement")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--set", action="append", default=[], help="a field of the plan")
    options = parser.parse_args()
    shape = [
        f"model={options.model}",
        f"debate.debates={options.topics}",
        f"debate.in_flight={options.topics}",
        f"debate.debaters={DEBATERS}",
        f"debate.rounds={ROUNDS}",
        f"debate.max_tokens={options.max_tokens}",
        "engines={max_model_len: 2048, kv_cache_gib: 2, block_size: 32, enforce_eager: true}",
        *options.set,
    ]
    plan = load_plan("opinions", shape)
    paper = load_plan("opinions", [*shape, "debate.layout=paper"])
    here = options.referee == "engine"
    console = Console(width=200)
    with tempfile.TemporaryDirectory() as logs, ray_cluster(Path(logs)):
        ours, recorded = held(plan, barrier=False, referee_here=here)
        console.print("product", ours)
        others, _ = held(paper, barrier=True, referee_here=here)
        console.print("round by round, role first", others)
    ceiling = replayed(settings_of(plan.model, plan.engines), recorded)
    console.print("ceiling", ceiling)
    least = prefix_tree_tokens([request["prompt"] for request in recorded])
    table = Table("", *ours)
    for name, row in (("product", ours), ("role first, barrier", others), ("ceiling", ceiling)):
        table.add_row(name, *(f"{row[key]:.4g}" if key in row else "" for key in ours))
    console.print(table)
    write_results(
        "debates",
        {
            "product": ours,
            "role_first_with_barrier": others,
            "ceiling": ceiling,
            "referee": options.referee,
            "prefix_tree_tokens": least,
            "times_fewer_prefilled_by_debaters": others["prefilled_tokens_of_debaters"]
            / ours["prefilled_tokens_of_debaters"],
            "plan": plan.model_dump(mode="json"),
        },
        goals_of(ours, others, ceiling, least),
        variant="" if here else options.referee,
    )


def goals_of(
    ours: dict[str, float], others: dict[str, float], ceiling: dict[str, float], least: int
) -> list[dict[str, Any]]:
    return [
        goal(
            "generated tokens a second, share of the ceiling's",
            ours["generated_tokens_a_second"] / ceiling["generated_tokens_a_second"],
            least=0.9,
        ),
        goal(
            "prefilled tokens, times the prefix tree's",
            ours["prefilled_tokens"] / least,
            most=1.15,
        ),
        goal(
            "prefilled tokens, role first with a barrier over ours",
            others["prefilled_tokens"] / ours["prefilled_tokens"],
            least=2.2,
        ),
        goal(
            "statements a second, ours over role first with a barrier",
            ours["statements_a_second"] / others["statements_a_second"],
            least=1.8,
        ),
    ]


if __name__ == "__main__":
    main()
