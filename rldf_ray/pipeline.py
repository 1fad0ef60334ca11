"""The whole story: debates make data, data makes a reward model, PPO makes a less biased policy.

    [referee ->] topics -> audit -> debates -> data -> sft -> reward -> ppo -> eval -> report

The referee is a stage where the plan has it fitted. A stage that has finished is never done again:
its manifest is in the run folder. What a killed stage had finished is in the journal, and the stage
goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from rldf_ray.cluster.environment import versions
from rldf_ray.cluster.memory import watch_memory
from rldf_ray.cluster.placement import place
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.console import Progress
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.journaled import EarlierCalls
from rldf_ray.plan import RUNTIME_FIELDS, Plan
from rldf_ray.preflight.checks import check_inputs, check_ppo_memory
from rldf_ray.report.build import write_report
from rldf_ray.report.model_card import export_model
from rldf_ray.report.notes import stage_notes
from rldf_ray.stages.audit import audit
from rldf_ray.stages.data import data
from rldf_ray.stages.debates import debates
from rldf_ray.stages.evaluation import evaluate
from rldf_ray.stages.ppo import ppo
from rldf_ray.stages.referee import referee
from rldf_ray.stages.reward import reward
from rldf_ray.stages.run import Facts, Run, StageError
from rldf_ray.stages.sft import sft
from rldf_ray.stages.topics import topics
from rldf_ray.stages.training import TRAINING
from rldf_ray.storage.run_folder import RunFolder, RunFolderError

Stage = Callable[[Run], Facts]
STAGES: dict[str, Stage] = {
    "referee": referee,
    "topics": topics,
    "audit": audit,
    "debates": debates,
    "data": data,
    "sft": sft,
    "reward": reward,
    "ppo": ppo,
    "eval": evaluate,
}
SPEAKING = ("topics", "audit", "debates")
ASKING = ("audit", "debates")


def run(
    plan: Plan,
    out: str | Path,
    progress: Progress,
    only: Sequence[str] = tuple(STAGES),
    redo: bool = False,
    bbq: Path | None = None,
    earlier: EarlierCalls | None = None,
    statements: Path | None = None,
    stages_of: Mapping[str, Stage] = STAGES,
) -> None:
    """Do the stages in `only` that have not finished, and write the report.

    Args:
        out: the run folder, or its address in an object store.
        redo: do them again even if they have finished; what depends on them is then redone too.
        bbq: evaluate on BBQ's files in this folder instead of the plan's items.
        earlier: calls of other runs, which are not made again.
        statements: audit the referee on this file's labelled statements instead of our own.
        stages_of: what each stage's name stands for, where a method makes its data in another way.

    Raises:
        RunFolderError: the folder is in use, or holds a run of another plan.
        ObjectStoreError: the store does not answer, or refuses.
        PlacementError, ModelError, TrainingError, StageError: with what to do about it.
    """
    folder = RunFolder.at(out)
    with folder.locked():
        _settle_plan(plan, folder)
        if bbq is not None:
            items = plan.evaluate.model_copy(update={"bbq": str(bbq)})
            plan = plan.model_copy(update={"evaluate": items})
        if redo or bbq is not None or statements is not None:
            _forget(folder, "audit" if statements is not None else only[0])
        only = _with_referee(plan, folder, only)
        _check_order(folder, only)
        todo = [name for name in only if folder.manifest(name) is None]
        for name in only:
            if name not in todo:
                progress.say(f"{name}: finished before")
        if todo:
            check_inputs(plan, folder.root, todo)
            _do(todo, plan, folder, progress, earlier, statements, stages_of)
        if folder.manifest("ppo"):
            folder.fetched("model")
            folder.fetched("ppo/model")
            export_model(folder, plan)
        write_report(folder, plan)
    progress.say(f"report: {folder.address('report.html')}")


def _do(
    todo: Sequence[str],
    plan: Plan,
    folder: RunFolder,
    progress: Progress,
    earlier: EarlierCalls | None,
    statements: Path | None,
    stages_of: Mapping[str, Stage],
) -> None:
    """The unfinished stages, on Ray, engines and trainers taking turns."""
    progress.say(f"run {plan.name}, plan {plan.digest()}, logs in {folder.root / 'logs'}")
    with ray_cluster(folder.root / "logs") as resources:
        placement = place(plan, resources)
        if "ppo" in todo:
            check_ppo_memory(plan, resources)
        progress.say(f"placement: {placement.describe()}")
        speakers = Speakers(
            plan=plan, folder=folder, placement=placement, progress=progress, earlier=earlier
        )
        current = Run(
            plan=plan,
            folder=folder,
            placement=placement,
            progress=progress,
            run_id=plan.digest(),
            speakers=speakers,
            statements=statements,
        )
        try:
            for name in todo:
                if name not in SPEAKING:
                    speakers.end()
                _stage(name, stages_of[name], current)
        finally:
            speakers.end()


def _stage(name: str, stage: Stage, current: Run) -> None:
    current.progress.say(f"{name}: started")
    began = time.monotonic()
    with watch_memory() as peak:
        facts = stage(current)
    seconds = time.monotonic() - began
    current.folder.finish(
        name,
        current.run_id,
        {
            "seconds": round(seconds, 1),
            "peak_pss_gib": round(peak.gib, 2),
            "versions": versions(),
            **facts,
        },
    )
    for note in stage_notes(name, facts):
        current.progress.say(f"  {note}")
    current.progress.say(f"{name}: done in {seconds:.0f} s, peak memory {peak.gib:.1f} GiB")


def _settle_plan(plan: Plan, folder: RunFolder) -> None:
    """The folder's plan is this plan; a folder of another plan is refused, not overwritten."""
    path = folder.root / "plan.yaml"
    if path.exists():
        theirs = Plan.with_added_fields(yaml.safe_load(path.read_text()))
        differing = set(_differences(theirs, plan.model_dump(mode="json"))) - set(RUNTIME_FIELDS)
        if differing:
            raise RunFolderError(
                f"{folder.where} holds a run of another plan (differs in "
                f"{', '.join(sorted(differing))}): give another --out, or the plan it was begun "
                "with (its plan.yaml)"
            )
    folder.write_text("plan.yaml", plan.to_yaml())


def _differences(theirs: dict[str, object], ours: dict[str, object]) -> list[str]:
    """Paths of the fields in which two plans differ."""
    found = []
    for name in sorted(theirs.keys() | ours.keys()):
        a, b = theirs.get(name), ours.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found += [f"{name}.{n}" for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
        elif a != b:
            found.append(name)
    return found


def _forget(folder: RunFolder, stage: str) -> None:
    """Drop the manifests of a stage and of everything after it; nothing depends on the audit."""
    names = list(STAGES)
    last = names.index("audit") + 1 if stage == "audit" else None
    for name in names[names.index(stage) : last]:
        folder.remove(f"stages/{name}.json")
        if name in TRAINING:
            # Its checkpoints are of what is now to be done anew.
            folder.fresh_folder(name)


def _with_referee(plan: Plan, folder: RunFolder, only: Sequence[str]) -> Sequence[str]:
    """A trained referee is fitted before the first stage that asks it; no other is."""
    others = [name for name in only if name != "referee"]
    asking = [name for name in others if name in ASKING and folder.manifest(name) is None]
    fitted = plan.referee.kind == "trained" and (asking or "referee" in only)
    return ["referee", *others] if fitted else others


def _check_order(folder: RunFolder, only: Sequence[str]) -> None:
    names = list(STAGES)
    for name in only:
        if name == "audit":
            # It reads nothing but the plan and the referee.
            continue
        for earlier in names[: names.index(name)]:
            # The audit is a measurement that the report alone reads, and the referee is in `only`
            # where it is needed.
            measured = earlier in ("referee", "audit")
            if earlier not in only and not measured and folder.manifest(earlier) is None:
                raise StageError(
                    f"{name} needs {earlier}, which has not finished in {folder.where}: "
                    f"`rldf run` does all stages in order"
                )
