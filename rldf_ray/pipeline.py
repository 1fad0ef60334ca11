"""The whole story: debates make data, data makes a reward model, PPO makes a less biased policy.

    [referee ->] topics -> audit -> debates -> data -> sft -> reward -> ppo -> eval -> report

`train.after` may have dpo or kto in the place of reward and ppo, or beside them. The referee is a
stage where the plan has it fitted. A stage that has finished is never done again:
its manifest is in the run folder. What a killed stage had finished is in the journal, and the stage
goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rldf_ray.cluster.clock import Clock
from rldf_ray.cluster.environment import versions
from rldf_ray.cluster.memory import watch_memory
from rldf_ray.cluster.node_shares import check_ppo_nodes
from rldf_ray.cluster.placement import ELSEWHERE, place
from rldf_ray.cluster.provenance import source_commit
from rldf_ray.cluster.ray_cluster import ray_cluster, this_machine
from rldf_ray.console import Progress
from rldf_ray.engines.speakers import Speakers
from rldf_ray.loops import check_cancelled
from rldf_ray.models.journaled import EarlierCalls
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import settle_plan
from rldf_ray.preflight.checks import check_inputs, computes_here
from rldf_ray.preflight.memory import check_policy_memory, check_shared_memory
from rldf_ray.prompts import own_prompts
from rldf_ray.referee.labelled_statements import given_statements
from rldf_ray.report.build import write_report
from rldf_ray.report.model_card import export_model
from rldf_ray.report.notes import stage_notes
from rldf_ray.stages.order import (
    audited_on_given,
    check_order,
    forget,
    freed_gib,
    unfinished,
    with_referee,
    without_idle_referee,
)
from rldf_ray.stages.prompt_room import check_prompts
from rldf_ray.stages.run import Run, StageFunction
from rldf_ray.stages.table import STAGES as STAGES
from rldf_ray.storage.results import as_manifest
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, POLICIES, depending_on, whole_run

LEARNING = ("sft", "reward", *POLICIES)
"""Stages that learn from the data."""


def run(
    plan: Plan,
    out: str | Path,
    progress: Progress,
    only: Sequence[str] | None = None,
    redo: bool = False,
    bbq: Path | None = None,
    earlier: EarlierCalls | None = None,
    statements: Path | None = None,
    stages_of: Mapping[str, StageFunction] = STAGES,
) -> None:
    """Do the stages in `only` that have not finished, and write the report.

    Args:
        only: names of stages; None is a whole run of the plan.
        out: the run folder, or its address in an object store.
        redo: do them again even if they have finished; what depends on them is undone.
        bbq: evaluate on BBQ's files in this folder instead of the plan's items.
        earlier: calls of other runs, which are not made again.
        statements: audit the referee on this file's labelled statements instead of our own; without
            one, an audit on a file is done again on ours.
        stages_of: what each stage's name stands for, where a method makes its data in another way.

    Raises:
        RunFolderError: the folder is in use, or holds a run of another plan.
        ObjectStoreError: the store does not answer, or refuses.
        PlacementError, ModelError, TrainingError, StageError: with what to do about it.
    """
    folder = RunFolder.at(out)
    with folder.locked(), own_prompts(plan.prompts):
        settle_plan(plan, folder)
        begun = plan
        if bbq is not None:
            items = plan.evaluate.model_copy(update={"bbq": str(bbq)})
            plan = plan.model_copy(update={"evaluate": items})
        if only is None:
            only = whole_run(plan.train.after)
            only = without_idle_referee(plan, folder, only, only if redo else ())
        again: Sequence[str] = only if redo or bbq is not None else ()
        if statements is not None:
            given_statements(statements)
            again = ["audit"]
        elif "audit" in only and audited_on_given(folder):
            again = [*again, "audit"]
        anew = depending_on(again, plan.train.after)
        only = with_referee(plan, folder, only, anew)
        check_order(plan, folder, only, anew)
        todo = unfinished(folder, only, anew)
        for name in only:
            if name not in todo:
                progress.say(f"{name}: finished before")
        if todo:
            for remark in check_inputs(plan, folder.root, todo, freed_gib(folder, anew)):
                progress.say(f"warning: {remark}")
            _do(todo, anew, plan, folder, progress, earlier, statements, stages_of)
        if folder.manifest(plan.train.last):
            folder.fetched("model")
            folder.fetched(f"{plan.train.last}/model")
            export_model(folder, begun)
        write_report(folder, begun)
    progress.say(f"report: {folder.address('report.html')}")


def _do(
    todo: Sequence[str],
    anew: Sequence[str],
    plan: Plan,
    folder: RunFolder,
    progress: Progress,
    earlier: EarlierCalls | None,
    statements: Path | None,
    stages_of: Mapping[str, StageFunction],
) -> None:
    """The unfinished stages, on Ray where models compute, engines and trainers taking turns.

    What earlier ones left of the stages `anew` goes once nothing is known to be in the way.
    """
    progress.say(f"run {plan.name}, plan {plan.digest()}, logs in {folder.root / 'logs'}")
    here = computes_here(plan, todo)
    with (ray_cluster if here else this_machine)(folder.root / "logs") as resources:
        placement = place(plan, resources) if here else ELSEWHERE
        if {*POLICIES} & {*todo}:
            check_policy_memory(plan, resources)
        if "ppo" in todo:
            check_ppo_nodes(placement, resources.nodes)
            check_shared_memory(plan, resources)
        forget(folder, anew)
        progress.say(f"placement: {placement.describe()}")
        clock = Clock()
        speakers = Speakers(
            plan=plan,
            folder=folder,
            placement=placement,
            progress=progress,
            earlier=earlier,
            clock=clock,
        )
        current = Run(
            plan=plan,
            folder=folder,
            placement=placement,
            progress=progress,
            run_id=plan.digest(),
            speakers=speakers,
            statements=statements,
            clock=clock,
        )
        # What none of them has room for ends the run before the first.
        prompted = next((name for name in todo if name in (*LEARNING, "eval")), None)
        try:
            for name in todo:
                if not PIPELINE[name].speaks:
                    speakers.end()
                if name == prompted:
                    check_prompts(current, todo)
                _stage(name, stages_of[name], current)
        finally:
            speakers.end()


def _stage(name: str, stage: StageFunction, current: Run) -> None:
    check_cancelled()
    current.progress.say(f"{name}: started")
    current.clock.lap()
    with watch_memory() as peak:
        result = stage(current)
    spent = current.clock.lap()
    current.folder.finish(
        name,
        current.run_id,
        {
            **asdict(spent),
            "peak_pss_gib": round(peak.gib, 2),
            "versions": versions(),
            "commit": source_commit(),
            **as_manifest(result),
        },
    )
    for note in stage_notes(result, current.plan):
        current.progress.say(f"  {note}")
    current.progress.say(f"{name}: done in {spent.seconds:.0f} s, peak memory {peak.gib:.1f} GiB")
