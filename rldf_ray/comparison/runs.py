"""The runs behind a comparison: which there are, what each does itself, what it takes from another.

    debate runs     a plan of debates (or samples) each: topics, audit, debates
    data runs       the data that these debates become
    training runs   a source, a seed and a stage each: SFT; the reward model, DPO or KTO, on equal
                    pairs; PPO

All are ordinary run folders in OUT/runs. Topics are written once, a referee is fitted (where it is
trained) and audited once, and debates are held once for all seeds and for every method that trains
on them. The plan of a stage has the settings of the stages up to it: where later ones are changed,
or the number of pairs, it stands.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rldf_ray import pipeline
from rldf_ray.comparison.earlier import (
    DEBATES,
    Shared,
    earlier_run,
    referee_shared,
    topics_shared,
)
from rldf_ray.comparison.method import Last, Method, Training
from rldf_ray.comparison.plans import Learning, debated, gathered, trained
from rldf_ray.console import Progress
from rldf_ray.plan import Plan, Speaker
from rldf_ray.stages.run import StageFunction
from rldf_ray.storage.results import DataResult, recorded, stage_result
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, SPEAKING

DEBATED = SPEAKING
# What leads to the model that answers, and what the run of each stage carries out itself.
LEARNING: dict[Last, tuple[Learning, ...]] = {
    "sft": ("sft",),
    "ppo": ("sft", "reward", "ppo"),
    "dpo": ("sft", "dpo"),
    "kto": ("sft", "kto"),
}
CARRIED_OUT: dict[Learning, tuple[str, ...]] = {
    "sft": ("data", "sft"),
    "reward": ("data", "reward"),
    "ppo": ("ppo",),
    "dpo": ("data", "dpo"),
    "kto": ("data", "kto"),
}


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run folder of the comparison.

    Attributes:
        name: of the folder, below OUT/runs.
        stages: what is carried out in it.
        taken: stage -> the run it is taken from.
    """

    name: str
    plan: Plan
    stages: tuple[str, ...]
    taken: Mapping[str, str]
    stages_of: Mapping[str, StageFunction] = field(repr=False, compare=False)


def debate_runs(methods: Sequence[Method], out: Path) -> list[PlannedRun]:
    """A run for every distinct source of debates, in the order of the methods.

    One writes the topics, and one fits and audits a referee, for all others: who has done it
    already in OUT, in an earlier comparison of this plan, too, or else the first.
    """
    trainings = {debate_run_name(training): training for training in _trainings(methods)}
    sources = {name: training.source for name, training in trainings.items()}
    refereed: dict[Speaker, dict[str, Plan]] = {}  # referee -> the runs that it scores
    for name, source in sources.items():
        refereed.setdefault(source.speaker_of("referee"), {})[name] = source
    writer = _first_with("topics", sources, out, topics_shared)
    auditor = {
        referee: _first_with("audit", plans, out, referee_shared)
        for referee, plans in refereed.items()
    }
    planned = []
    for name, training in trainings.items():
        audited = auditor[training.source.speaker_of("referee")]
        taken = {"topics": writer, "referee": audited, "audit": audited}
        taken = {stage: run for stage, run in taken.items() if run != name}
        stages = tuple(stage for stage in DEBATED if stage not in taken)
        planned.append(
            PlannedRun(
                name=name,
                plan=debated(training.source),
                stages=stages,
                taken=taken,
                stages_of=training.stages_of,
            )
        )
    return planned


def data_runs(methods: Sequence[Method]) -> list[PlannedRun]:
    """A run for every distinct source of data, in the order of the methods."""
    planned = {}
    for training in _trainings(methods):
        name, taken = data_run_name(training), dict.fromkeys(DEBATED, debate_run_name(training))
        planned[name] = PlannedRun(
            name=name,
            plan=gathered(training.source),
            stages=("data",),
            taken=taken,
            stages_of=training.stages_of,
        )
    return list(planned.values())


def _first_with(stage: str, sources: Mapping[str, Plan], out: Path, shared: Shared) -> str:
    """The first of the runs that has finished the stage, else an earlier one that they can share.

    Else the first of all.
    """
    for name in sources:
        if RunFolder(out / "runs" / name).manifest(stage) is not None:
            return name
    for name, source in sources.items():
        return earlier_run(stage, shared, source, out) or name
    return ""


def training_runs(methods: Sequence[Method], repeats: int, pairs: int | None) -> list[PlannedRun]:
    """A run for every distinct source, seed and stage, in an order in which they can be done."""
    planned: dict[str, PlannedRun] = {}
    for repeat in range(repeats):
        for training in _trainings(methods):
            taken = dict.fromkeys(DEBATED, debate_run_name(training))
            for stage in LEARNING[training.last]:
                name = training_run_name(training, stage, repeat, pairs)
                stages = CARRIED_OUT[stage]
                planned[name] = PlannedRun(
                    name=name,
                    plan=_trained(training, stage, repeat, pairs),
                    stages=stages,
                    taken={before: run for before, run in taken.items() if before not in stages},
                    stages_of=training.stages_of,
                )
                taken |= dict.fromkeys(stages, name)
    return list(planned.values())


def debate_run_name(training: Training) -> str:
    """The folder of a source's debates."""
    return f"{DEBATES}/{_slug(debated(training.source))}"


def data_run_name(training: Training) -> str:
    """The folder of the data that a source's debates become."""
    return f"data/{_slug(gathered(training.source))}{_of_data(training)}"


def training_run_name(training: Training, stage: Learning, repeat: int, pairs: int | None) -> str:
    """The folder of one stage of training on a source in one repeat.

    By the seed that the source was debated with, too: its second repeat has the seed, but not the
    debates, of another comparison's first.
    """
    plan = _trained(training, stage, repeat, pairs)
    seeds = f"seed{training.source.seed}-repeat{repeat}"
    return f"trained/{_slug(plan)}{_of_data(training)}-{seeds}-{stage}"


def fewest_pairs(methods: Sequence[Method], out: Path) -> int | None:
    """What every reward model is given: the pairs of the source that has the fewest."""
    sources = {data_run_name(t) for t in _trainings(methods) if t.last != "sft"}
    counts = [pairs_of(RunFolder(out / "runs" / name)) for name in sources]
    return min(counts, default=None)


def pairs_of(folder: RunFolder) -> int:
    """Pairs that a data run has made."""
    result = stage_result(folder, DataResult)
    assert result is not None
    return recorded(result.pairs, "data", "pairs")


def carry_out(planned: PlannedRun, out: Path, progress: Progress) -> None:
    """Do what is left of a run; a run that has finished is left alone."""
    folder = RunFolder(out / "runs" / planned.name)
    for stage, name in planned.taken.items():
        take(stage, RunFolder(out / "runs" / name), folder)
    if finished(planned, out):
        progress.say(f"{planned.name}: finished before")
        return
    progress.say(f"\n{planned.name}: {', '.join(planned.stages)}")
    pipeline.run(
        planned.plan,
        folder.root,
        progress,
        only=planned.stages,
        stages_of=planned.stages_of,
    )


def finished(planned: PlannedRun, out: Path) -> bool:
    """Whether nothing is left of the run to do."""
    folder = RunFolder(out / "runs" / planned.name)
    done = all(folder.manifest(stage) is not None for stage in planned.stages)
    # The report is what a run writes last.
    return done and (folder.root / "report.json").exists()


def take(stage: str, source: RunFolder, folder: RunFolder) -> None:
    """Make `stage`, finished in `source`, finished in `folder` as well."""
    manifest = source.manifest(stage)
    if manifest is None or folder.manifest(stage) is not None:
        return
    for name in PIPELINE[stage].files:
        if (source.root / name).is_dir():
            folder.remove(name)
            shutil.copytree(source.root / name, folder.path(name), copy_function=_linked)
        elif (source.root / name).exists():
            shutil.copyfile(source.root / name, folder.path(name))
    # The manifest keeps the key of the run that did it, and is written last.
    folder.write_json(f"stages/{stage}.json", {**manifest, "taken_from": source.root.name})


def _linked(source: str, target: str) -> None:
    """Models are large, and files of a finished stage are replaced, never written to."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _trainings(methods: Sequence[Method]) -> list[Training]:
    return [method.training for method in methods if method.training is not None]


def _trained(training: Training, stage: Learning, repeat: int, pairs: int | None) -> Plan:
    return trained(training.source, stage, training.source.seed + repeat, pairs)


def _of_data(training: Training) -> str:
    return f"-{training.data}" if training.data else ""


def _slug(plan: Plan) -> str:
    """Readable, and different for plans that compute something else."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', plan.name).strip('-.')}-{plan.digest()[:6]}"
