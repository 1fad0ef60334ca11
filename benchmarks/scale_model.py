"""Past this machine: where 1 to 1000 engines and 1 to 64 workers spend their time.

    python -m benchmarks.scale_model RUN --check OTHER_RUN --alone-tokens-per-s 35

A simulation of debates (event by event: every request of every debate, engines that share their
speed among requests, one driver, engines that are lost and come back) and the arithmetic of PPO
steps. Costs are measured: RUN is a finished run's folder, PPO's parts are from
benchmarks/results/ppo.json, the driver's time from benchmarks/results/orchestration.json. Prints
what limits each size and what the plan should do, and writes benchmarks/results/scale_model.json.

Not in it, as nothing here measures them: the network, reductions between training workers (its
PPO speeds are upper bounds past one worker), and an object store.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import RESULTS, write_results
from benchmarks.scale_costs import Costs, PpoMeasured, RunMeasured, costs_of
from benchmarks.scale_events import Load, Simulation, Spot, simulate

ENGINES = (1, 4, 16, 64, 256, 1000)
WORKERS = (1, 2, 4, 8, 16, 64)
SPOT_RATES = (0.0, 0.1, 1.0, 10.0)
SPOT_ENGINES = 64
# Four debates' worth of work for every request an engine decodes at once keeps it from running dry.
DEBATES_AN_ENGINE = 60
BUSY = 0.8


@dataclass(frozen=True)
class Limit:
    """What limits a size and what to change in the plan."""

    what: str
    advice: str


def load_of(run: RunMeasured, costs: Costs, debates: int, in_flight: int) -> Load:
    """Debates like the run's: what one request costs an engine, on average."""
    shape = run.shape
    reading = run.read * costs.read_s / shape.requests
    # Scores and rankings are a few tokens; nearly all that is generated is statements.
    spoken = run.generated / shape.statements
    return Load(
        debates=debates,
        in_flight=in_flight,
        rounds=shape.rounds,
        debaters=shape.debaters,
        slots=shape.slots,
        speak_s=reading + spoken * costs.generate_s,
        judge_s=reading,
        share_alone=min(1.0, costs.generate_s / costs.alone_s),
        driver_s=costs.driver_s or 0.0,
    )


def limit_of(load: Load, engines: int, found: Simulation) -> Limit:
    if found.driver_busy > BUSY:
        return Limit("the driver", "split the debates over several runs, each with a driver")
    if found.engines_busy > BUSY:
        return Limit("engines", "raise engines.count: time falls with it")
    wanted = engines * max(1, round(1 / load.share_alone))
    if load.in_flight < wanted:
        return Limit("debates in flight", f"raise debate.in_flight to {wanted} or more")
    return Limit("the length of a debate", "more engines do not help; more debates at once would")


def debates_table(run: RunMeasured, costs: Costs) -> list[dict[str, Any]]:
    """Sizes of engines, each with debates in flight in proportion and with the run's own."""
    rows = []
    for engines in ENGINES:
        debates = DEBATES_AN_ENGINE * engines
        for in_flight in sorted({run.shape.in_flight, run.shape.in_flight * engines}):
            load = load_of(run, costs, debates, in_flight)
            found = simulate(load, engines)
            limit = limit_of(load, engines, found)
            statements = debates * load.rounds * load.debaters
            rows.append(
                {
                    "engines": engines,
                    "in_flight": in_flight,
                    "statements_per_s": statements / found.seconds,
                    **asdict(found),
                    **asdict(limit),
                }
            )
    return rows


def spot_table(run: RunMeasured, costs: Costs, start_s: float) -> list[dict[str, Any]]:
    """Engines that are lost at a rate (an hour and engine) and are back after `start_s`."""
    rows = []
    in_flight = run.shape.in_flight * SPOT_ENGINES
    load = load_of(run, costs, DEBATES_AN_ENGINE * SPOT_ENGINES, in_flight)
    for rate in SPOT_RATES:
        found = simulate(load, SPOT_ENGINES, Spot(rate, start_s))
        rows.append({"losses_an_hour": rate, **asdict(found)})
    return rows


def ppo_table(ppo: PpoMeasured) -> list[dict[str, Any]]:
    """Episodes a second, engines and workers taking turns, or rollouts of the next step ahead."""
    rows = []
    for workers in WORKERS:
        for engines in sorted({1, workers, 4 * workers}):
            rollout, train = ppo.rollout_s / engines, ppo.train_s / workers
            turns, overlap = rollout + train + ppo.sync_s, max(rollout, train) + ppo.sync_s
            parts = {"rollouts": rollout, "training": train, "weight sync": ppo.sync_s}
            rows.append(
                {
                    "workers": workers,
                    "engines": engines,
                    "episodes_per_s": ppo.batch / turns,
                    "episodes_per_s_overlapped": ppo.batch / overlap,
                    "what": max(parts, key=lambda name: parts[name]),
                }
            )
    return rows


PPO_ADVICE = {
    "rollouts": "raise engines.count, or set ppo.overlap",
    "training": "raise train.workers; engines beyond one a worker do not help",
    "weight sync": "raise ppo.rollout_batch: one sync for more episodes",
}


def agreement(costs: Costs, run: RunMeasured) -> dict[str, float]:
    """The simulated seconds of a real run's debates, and the real ones."""
    load = load_of(run, costs, run.shape.debates, run.shape.in_flight)
    seconds = simulate(load, run.shape.engines).seconds
    return {"simulated_s": seconds, "measured_s": run.seconds, "ratio": seconds / run.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a finished run, for the costs")
    parser.add_argument("--check", type=Path, help="another run, which the simulation must meet")
    parser.add_argument("--alone-tokens-per-s", type=float, required=True,
                        help="measured tokens/s of one request alone on an engine")  # fmt: skip
    parser.add_argument("--engine-start-s", type=float, help="measured start of an engine")
    parser.add_argument("--ppo", type=Path, default=RESULTS / "ppo.json")
    parser.add_argument("--orchestration", type=Path, default=RESULTS / "orchestration.json")
    args = parser.parse_args()
    run, ppo = RunMeasured.of(args.run), PpoMeasured.of(args.ppo)
    costs = costs_of(run, args.alone_tokens_per_s, args.orchestration)
    figures: dict[str, Any] = {
        "costs": asdict(costs),
        "debates": debates_table(run, costs),
        "agreement": agreement(costs, RunMeasured.of(args.check or args.run)),
        "checked_on": "another run" if args.check else "the run the costs are from",
    }
    if args.engine_start_s is not None:
        figures["spot"] = spot_table(run, costs, args.engine_start_s)
    if ppo is not None:
        figures["ppo"] = {"measured": asdict(ppo), "sizes": ppo_table(ppo)}
    _print(figures, ppo, costs)
    ratio = figures["agreement"]["ratio"]
    met = 1 / 1.15 <= ratio <= 1.15
    write_results(
        "scale_model",
        figures,
        [
            {
                "name": "simulated over measured seconds of a real run's debates",
                "value": ratio,
                "goal": "within 15 %",
                "met": met,
            }
        ],
    )


def _print(figures: dict[str, Any], ppo: PpoMeasured | None, costs: Costs) -> None:
    _show("debates", figures["debates"], ("engines", "in_flight", "statements_per_s",
          "engines_busy", "driver_busy", "what"))  # fmt: skip
    if costs.driver_s is None:
        print("the driver's time is not measured (benchmarks.orchestration): taken as none")
    if "spot" in figures:
        _show(f"spot loss, {SPOT_ENGINES} engines", figures["spot"],
              ("losses_an_hour", "seconds", "lost", "engines_busy"))  # fmt: skip
    if ppo is None:
        print("PPO: not measured (benchmarks.ppo), so not scaled")
        return
    rows = [{**row, "advice": PPO_ADVICE[row["what"]]} for row in figures["ppo"]["sizes"]]
    _show("PPO", rows, ("workers", "engines", "episodes_per_s", "episodes_per_s_overlapped",
          "what"))  # fmt: skip


def _show(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    table = Table(*(name.replace("_", " ") for name in columns), title=title)
    for row in rows:
        cells = [row[name] for name in columns]
        table.add_row(*(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells))
    Console().print(table)
    for what, advice in {row["what"]: row["advice"] for row in rows if "advice" in row}.items():
        print(f"  limited by {what}: {advice}")


if __name__ == "__main__":
    main()
