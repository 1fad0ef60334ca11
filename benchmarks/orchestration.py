"""What the orchestration costs: whole debates on scripted engines that only take their time.

    python -m benchmarks.orchestration [--actors 1 4 16 64] [--seconds 60] [--debates 20000]

Every engine actor answers after a log-normal delay of mean 2 s, 32 requests at once. For each
number of actors, over `--seconds`, once as many debates have ended as are held at once (until then
all are at their beginning together, and their transcripts grow):

- efficiency: what the engines answered over what they could have (actors x 32 x seconds);
- overhead: CPU milliseconds of all processes (driver, Ray, actors) a refereed statement;
- memory: the driver's, against the number of finished debates (least squares).

The path is the product's: protocol, prompts, journal on disk, pool, transcripts on disk. The
engines' own work (a hash) is part of the overhead.

Before that the driver alone holds all `--debates` to the end, on a scripted model of its own that
answers at once: its memory once a tenth of them has ended, and after the last one. Writes
benchmarks/results/orchestration.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.engines.pool import EnginePool, engines
from rldf_ray.engines.scripted_actor import ScriptedSettings
from rldf_ray.models.base import ChatModel
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import Plan, load_plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.protocols.transcripts import Transcripts
from rldf_ray.records import Debate, Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.storage.journal import Journal
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics

AT_ONCE = 32
# A debate has three or four requests under way, or waits for the slowest of them.
DEBATES_AN_ENGINE = 24
ENGINE = ScriptedSettings(delay_s=2.0, sigma=0.5, max_num_seqs=AT_ONCE)


@dataclass
class Progress:
    """What has come out so far, and the driver's memory on the way."""

    statements: int = 0
    debates: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)

    def memory_now(self) -> None:
        self.memory.append((self.debates, psutil.Process().memory_info().rss))


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Counters at one time, to be subtracted."""

    at_s: float
    busy_s: float
    cpu_s: float
    driver_cpu_s: float
    statements: int


def debates_of(plan: Plan) -> list[Debate]:
    topics = [
        replace(topic, split="debate")
        for name in plan.bias_types
        for kind in ("opinion", "judgement")
        for topic in seed_topics(bias_type(name), kind, plan)
    ]
    return multirole.items(topics, plan)


@contextlib.asynccontextmanager
async def holding(
    plan: Plan, chat: ChatModel, folder: Path, progress: Progress
) -> AsyncIterator[asyncio.Task[None]]:
    """All debates of `plan`, held with a journal and transcripts on disk, as a stage holds them."""
    debates = debates_of(plan)
    journal = Journal(folder / "calls.jsonl")
    transcripts = Transcripts(folder / "debates.jsonl", len(debates))
    model = JournaledModel(chat, journal)

    def keep(place: int, statements: Sequence[Statement]) -> None:
        transcripts.keep(place, statements)
        journal.forget(debates[place].debate_id)
        progress.debates += 1

    def count(statements: int) -> None:
        progress.statements += statements

    cast = Cast(
        plan=plan,
        run_id="benchmark",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
        on_statements=count,
    )
    work = asyncio.create_task(hold_all(multirole, debates, cast, keep))
    try:
        yield work
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await model.settle()  # of every debate that was cut off, the calls under way
        transcripts.close()
        journal.close()


async def hold_debates(
    plan: Plan, pool: EnginePool, seconds: float, folder: Path, progress: Progress
) -> tuple[Moment, Moment]:
    """Hold debates until the time is over (or all are held); the counters at begin and end."""
    async with holding(plan, pool, folder, progress) as work:
        # Ten looks a second are no load.
        while not work.done() and progress.debates < plan.debate.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        begin = await moment(pool, progress)
        while not work.done() and time.monotonic() - begin.at_s < seconds:
            progress.memory_now()
            await asyncio.sleep(1)
        return begin, await moment(pool, progress)


async def hold_to_the_end(plan: Plan, folder: Path) -> dict[str, float]:
    """The driver's memory while it holds all debates, without engines and without delays."""
    progress = Progress()
    async with holding(plan, ScriptedModel(), folder, progress) as work:
        while not work.done():
            progress.memory_now()
            await asyncio.sleep(0.2)
        await work
    progress.memory_now()
    done, memory = np.array(progress.memory, dtype=float).T
    tenth = np.argmax(done >= plan.debate.debates / 10)
    return {
        "debates": plan.debate.debates,
        "memory_mib_after_a_tenth": float(memory[tenth]) / 2**20,
        "memory_mib_at_the_end": float(memory[-1]) / 2**20,
        "memory_growth_bytes_a_debate": slope(done[tenth:], memory[tenth:]),
    }


def slope(done: NDArray[np.float64], memory: NDArray[np.float64]) -> float:
    """Bytes a finished debate, least squares; 0 if none finished meanwhile."""
    return float(np.polyfit(done, memory, 1)[0]) if done[-1] > done[0] else 0.0


async def moment(pool: EnginePool, progress: Progress) -> Moment:
    busy = await asyncio.gather(*(_busy_s(engine._actor) for engine in pool._engines))
    me = psutil.Process()
    cpu = sum(map(_cpu_s, [me, *me.children(recursive=True)]))
    return Moment(
        at_s=time.monotonic(),
        busy_s=sum(busy),
        cpu_s=cpu,
        driver_cpu_s=_cpu_s(me),
        statements=progress.statements,
    )


async def _busy_s(actor: Any) -> float:
    busy: float = await actor.busy_s.remote()
    return busy


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def measured(actors: int, plan: Plan, seconds: float) -> dict[str, float]:
    """One row of the table."""
    began, progress = time.monotonic(), Progress()
    with (
        tempfile.TemporaryDirectory() as folder,
        engines(
            ENGINE, name="scripted", count=actors, num_cpus=0, num_gpus=0, timeout_s=120
        ) as pool,
    ):
        pool.wait_until_ready()
        up_s = time.monotonic() - began
        before, after = asyncio.run(hold_debates(plan, pool, seconds, Path(folder), progress))
    wall_s, statements = after.at_s - before.at_s, after.statements - before.statements
    done, memory = np.array(progress.memory, dtype=float).T
    return {
        "actors": actors,
        "seconds": wall_s,
        "start_seconds": up_s,
        "statements": statements,
        "debates_finished": progress.debates,
        "efficiency": (after.busy_s - before.busy_s) / (actors * AT_ONCE * wall_s),
        "cpu_ms_a_statement": 1000 * (after.cpu_s - before.cpu_s) / max(1, statements),
        "driver_cpu_ms_a_statement": 1000
        * (after.driver_cpu_s - before.driver_cpu_s)
        / max(1, statements),
        "driver_memory_mib": float(memory.max()) / 2**20,
        "memory_growth_bytes_a_debate": slope(done, memory),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--debates", type=int, default=20000, help="most debates for each size")
    options = parser.parse_args()
    # First, while no freed memory is at hand in which a growth could hide.
    alone = load_plan("opinions", [f"debate.debates={options.debates}"])
    with tempfile.TemporaryDirectory() as folder:
        to_the_end = asyncio.run(hold_to_the_end(alone, Path(folder)))
    Console().print("driver alone", to_the_end)
    rows = []
    with tempfile.TemporaryDirectory() as logs, ray_cluster(Path(logs)):
        for actors in options.actors:
            in_flight = actors * DEBATES_AN_ENGINE
            plan = load_plan(
                "opinions",
                [f"debate.debates={options.debates}", f"debate.in_flight={in_flight}"],
            )
            rows.append(measured(actors, plan, options.seconds))
            Console().print({key: round(value, 3) for key, value in rows[-1].items()})
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:.3g}" for value in row.values()))
    Console(width=200).print(table)
    largest = max(rows, key=lambda row: row["actors"])
    write_results(
        "orchestration",
        {"sizes": rows, "driver_alone": to_the_end},
        [
            goal("efficiency, least of all sizes", min(r["efficiency"] for r in rows), least=0.95),
            goal(
                f"driver memory a finished debate, {largest['actors']:g} actors, bytes",
                largest["memory_growth_bytes_a_debate"],
                most=1000,
            ),
            goal(
                f"driver memory a finished debate, {options.debates} held to the end, bytes",
                to_the_end["memory_growth_bytes_a_debate"],
                most=1000,
            ),
        ],
    )


if __name__ == "__main__":
    main()
