"""What the eighteen settings of Figure 8 cost when nothing is computed twice.

    python -m benchmarks.sweep_reuse [--scale 10]

Two counts of generated debate tokens, each as a share of running every setting separately:

- executed: paper-7b divided by `--scale` (debates and topics), every debate really held by
  scripted engines through the product's path: protocol, referee, journal, store;
- counted: the paper's own sizes, from which debates each setting holds. A statement is taken as
  `debate.max_tokens` tokens, a score as one, a ranking as one a debater.

The count is checked on the executed size, call by call, before it is believed on the paper's.
Writes benchmarks/results/sweep_reuse.json.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from rldf_ray.apps.tune.grids import FIGURE_8, PAPER_GRIDS, Sweep, sweep_of
from rldf_ray.apps.tune.prefix import first_topics
from rldf_ray.apps.tune.store import Store, generated_tokens
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Debate, Topic, TopicKind, topic_id
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.storage.journal import Journal
from rldf_ray.topics.writer import split_of, wanted_by_kind

PLAN = "paper-7b"
ALL_TYPES = "bias_types=[age, nationality, institution, beauty, profession]"
ONE_TYPE = "bias_types=[age]"


@dataclass(frozen=True)
class Cost:
    """Calls and generated tokens of debates."""

    calls: int
    tokens: int


def figure_8(scale: int, bias_types: str) -> Sweep:
    """The eighteen settings, sizes divided by `scale`."""
    sizes = ("dataset_size", "topics")
    over = [
        f"{name}={','.join(str(v // scale if name in sizes else v) for v in PAPER_GRIDS[name][1])}"
        for name in FIGURE_8
    ]
    best = [f"debate.debates={5000 // scale}", f"topics.per_bias_type={2000 // scale}"]
    return sweep_of(PLAN, [bias_types, *best], over, repeats=1)


def topics_for(sweep: Sweep) -> list[Topic]:
    """As many topics as the sweep needs, made up; their splits are by hash, as always."""
    plan = sweep.trials[0].plan
    wanted = wanted_by_kind(sweep.most_topics, plan.topics.judgement_share)
    return [
        _topic(name, kind, i, plan)
        for name in plan.bias_types
        for kind, number in wanted.items()
        for i in range(number)
    ]


def _topic(name: str, kind: TopicKind, number: int, plan: Plan) -> Topic:
    text = f"Should {kind} {number} of the {name} statutes stay?"
    split = split_of(topic_id(name, text), plan.topics)
    clue, question = "It was the clerk.", "Who wrote it?"
    return Topic(
        topic_id=topic_id(name, text),
        bias_type=name,
        kind=kind,
        text=text,
        origin="written",
        split=split,
        clue=clue,
        question=question,
    )


def debates_of(plan: Plan, topics: Sequence[Topic]) -> list[Debate]:
    return multirole.items(first_topics(topics, plan), plan)


def counted(plans: Sequence[Plan], topics: Sequence[Topic]) -> Cost:
    """What `plans` cost together when no call is made twice.

    Of one debate (topic, clue, repetition), the first round of n debaters begins the first round
    of more; later rounds are those of the same n debaters, and longer debates go on from shorter.
    """
    speakers: dict[tuple[str, bool], int] = {}
    rounds: dict[tuple[str, bool, int], int] = {}
    for plan in plans:
        n, k = plan.debate.debaters, plan.debate.rounds
        for debate in debates_of(plan, topics):
            same = (debate.debate_id, debate.clue_shown)
            speakers[same] = max(n, speakers.get(same, 0))
            rounds[(*same, n)] = max(k, rounds.get((*same, n), 0))
    statements = sum(speakers.values()) + sum(n * (k - 1) for (*_, n), k in rounds.items())
    rankings = sum(rounds.values())
    ranked = sum(n * k for (*_, n), k in rounds.items())
    longest = plans[0].debate.max_tokens
    return Cost(2 * statements + rankings, (longest + 1) * statements + ranked)


def executed(sweep: Sweep, folder: Path) -> tuple[Cost, dict[str, int]]:
    """Hold the debates of all trials with a shared store.

    Returns what was generated, and the tokens of every trial's debates by the trial's key.
    """
    topics, store = topics_for(sweep), Store.at(str(folder / "store"))
    made, held = Cost(0, 0), {}
    for trial in sweep.trials:
        path = folder / trial.key / "calls.jsonl"
        with closing(store.calls(folder / "cache")) as calls, closing(Journal(path)) as journal:
            model = JournaledModel(ScriptedModel(), journal, calls)
            asyncio.run(_hold(trial.plan, debates_of(trial.plan, topics), model))
        held[trial.key] = model.usage.generated
        made = Cost(made.calls + model.made, made.tokens + generated_tokens(path))
        store.keep_calls(trial.key, path)
    return made, held


async def _hold(plan: Plan, debates: Sequence[Debate], model: JournaledModel) -> None:
    cast = Cast(
        plan=plan,
        run_id="benchmark",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
    )
    await hold_all(multirole, debates, cast, lambda place, statements: None)


def of_paper(bias_types: str) -> dict[str, Any]:
    """The count at the paper's sizes: separately, together, and each axis alone."""
    sweep = figure_8(1, bias_types)
    topics = topics_for(sweep)
    plans = {trial.key: trial.plan for trial in sweep.trials}
    each = {key: counted([plan], topics).tokens for key, plan in plans.items()}
    separately = sum(each[setting.trial] for setting in sweep.settings)
    together = counted(list(plans.values()), topics)
    axes = {
        axis.name: sum(each[s.trial] for s in sweep.settings if s.axis == axis.name)
        for axis in sweep.axes
    }
    return {
        "settings": len(sweep.settings),
        "distinct_plans": len(plans),
        "separately_tokens": separately,
        "separately_by_axis": axes,
        "together_tokens": together.tokens,
        "share": together.tokens / separately,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=10)
    scale: int = parser.parse_args().scale
    sweep = figure_8(scale, ALL_TYPES)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made, held = executed(sweep, Path(folder))
    separately = sum(held[setting.trial] for setting in sweep.settings)
    expected = counted([trial.plan for trial in sweep.trials], topics_for(sweep))
    paper, one_type = of_paper(ALL_TYPES), of_paper(ONE_TYPE)
    table = Table("", "settings", "separately, tokens", "together, tokens", "share")
    for name, settings, apart, together in (
        (f"executed, 1/{scale}", len(sweep.settings), separately, made.tokens),
        ("counted, five bias types", 18, paper["separately_tokens"], paper["together_tokens"]),
        ("counted, one bias type", 18, one_type["separately_tokens"], one_type["together_tokens"]),
    ):
        table.add_row(name, *map(str, (settings, apart, together)), f"{together / apart:.3f}")
    Console().print(table)
    write_results(
        "sweep_reuse",
        {
            "plan": PLAN,
            "executed": {
                "scale": scale,
                "seconds": round(time.monotonic() - began, 1),
                "calls_made": made.calls,
                "calls_counted": expected.calls,
                "separately_tokens": separately,
                "together_tokens": made.tokens,
                "share": made.tokens / separately,
            },
            "counted_at_paper_sizes": paper,
            "counted_for_one_bias_type": one_type,
        },
        [
            goal("share of generated debate tokens, paper's sizes", paper["share"], most=0.36),
            goal("share of generated debate tokens, executed", made.tokens / separately, most=0.36),
            {
                "name": "calls executed over calls counted",
                "value": made.calls / expected.calls,
                "goal": "= 1",
                "met": made.calls == expected.calls,
            },
        ],
    )


if __name__ == "__main__":
    main()
