"""`rldf eval compare`: from a plan to tables. Whatever has finished is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rldf_ray.cluster.ray_cluster import reported_resources
from rldf_ray.comparison.answers import answer_all
from rldf_ray.comparison.earlier import read_topics
from rldf_ray.comparison.free_answers import FILE as FREE_ANSWERS
from rldf_ray.comparison.free_answers import answer_freely, held_out_prompts
from rldf_ray.comparison.general_ability import measure_perplexities
from rldf_ray.comparison.method import Method, methods_of
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.multirole import multirole_rows, queries_of
from rldf_ray.comparison.result import ComparisonResult, build_result, write_files
from rldf_ray.comparison.results import given_rows
from rldf_ray.comparison.runs import (
    carry_out,
    data_runs,
    debate_run_name,
    debate_runs,
    fewest_pairs,
    finished,
    training_run_name,
    training_runs,
)
from rldf_ray.comparison.selection import Selection
from rldf_ray.comparison.settings import Settings
from rldf_ray.comparison.tables import JUDGE
from rldf_ray.comparison.weights import other_revision
from rldf_ray.console import Progress
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.evaluate.judge.judging_model import judge_plan
from rldf_ray.evaluate.judge.run import (
    JUDGED,
    LONG_SCORES,
    Request,
    evaluate,
    judged_before,
)
from rldf_ray.models.base import ModelError
from rldf_ray.models.limits import spent_together
from rldf_ray.plan import Plan, PlanError
from rldf_ray.preflight.checks import check_inputs
from rldf_ray.preflight.disk import check_room, kept_gib, passing_gib
from rldf_ray.preflight.memory import check_policy_memory, check_shared_memory
from rldf_ray.prompts import own_prompts
from rldf_ray.records import Topic
from rldf_ray.report.comparison import write_figures
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import POLICIES


def compare(plan: Plan, settings: Settings, out: Path, progress: Progress) -> ComparisonResult:
    """Carry out what is left of a comparison and write OUT/compare.

    Raises:
        PlanError, PreflightError, StageError and the like: as a run; what finished is kept.
        ModelError: no reply of the judge is a score; everything else is written.
    """
    # Rows without a debate are told what debaters are, in the plan's own words where it has some.
    with own_prompts(plan.prompts):
        return _compare(plan, settings, RunFolder(out.resolve()), progress)


def _compare(
    plan: Plan, settings: Settings, folder: RunFolder, progress: Progress
) -> ComparisonResult:
    methods = methods_of(plan, settings.methods, settings.teachers, settings.controls)
    _check_scores(plan, methods, settings)
    _check_thoughts(plan, methods)
    _check_runs(plan, methods, settings.repeats, folder.root)
    selection = Selection.of(settings.dev_items, plan)
    with folder.locked(), spent_together(folder.root, _speaking(plan, methods, settings)):
        items = load_items(plan, without=selection.items)
        queries = queries_of(plan, settings, selection.queries)
        pairs = _train(methods, settings, folder.root, progress)
        kept = RunFolder(folder.root / "compare")
        method_runs = _method_runs(plan, methods, settings, pairs, folder.root)
        keys = {
            mode: answer_all(plan, method_runs, items, mode, kept, progress)
            for mode in settings.modes
        }
        others = multirole_rows(plan, settings, queries, method_runs, kept, progress)
        measure_perplexities(plan, method_runs, kept, progress)
        topics = _topics(methods, folder.root)

        def written(given: Settings) -> ComparisonResult:
            result = build_result(
                plan,
                given,
                methods,
                method_runs,
                keys,
                items,
                others,
                pairs,
                topics,
                selection,
                folder.root,
            )
            write_files(result, kept)
            return result

        result = written(settings)
        answer_freely(
            plan, method_runs, held_out_prompts(plan, methods, folder.root), kept, progress
        )
        judge = settings.judge
        scored = judge is not None and _judge(plan, judge, settings.audit_pairs, kept)
        if scored:
            scores = str(kept.root / LONG_SCORES)
            result = written(replace(settings, figures=(*settings.figures, scores)))
        texts = kept.read_table(FREE_ANSWERS if judge is None else JUDGED).to_pylist()
        figures = kept.root / "figures"
        for line in write_figures(result.answered, result.results, texts, result.titles, figures):
            progress.say(line)
        if judge is not None and not scored:
            raise ModelError(
                f"--judge {judge}: none of its replies is a score (they are in "
                f"{kept.root / JUDGED}), so there are no Tables 3 to 5; everything else is in "
                f"{kept.root}"
            )
    return result


def _speaking(plan: Plan, methods: Sequence[Method], settings: Settings) -> list[Plan]:
    """The plans whose models may be asked at an endpoint; its budget is the whole comparison's."""
    sources = [method.training.source for method in methods if method.training is not None]
    judges = [] if settings.judge is None else [judge_plan(plan, settings.judge)]
    return [plan, *sources, *judges]


def _check_runs(plan: Plan, methods: Sequence[Method], repeats: int, out: Path) -> None:
    """What is left to do will find what it reads, PPO its memory, and every model room."""
    for planned in debate_runs(methods, out):
        if not finished(planned, out):
            check_inputs(planned.plan, out, planned.stages)
    made = all(finished(planned, out) for planned in data_runs(methods))
    training = training_runs(methods, repeats, fewest_pairs(methods, out) if made else None)
    left = [run for run in training if not finished(run, out)]
    for last in POLICIES:
        policies = [run.plan for run in left if last in run.stages]
        if policies:
            resources = reported_resources()
            check_policy_memory(policies[0], resources)
            if last == "ppo":
                check_shared_memory(plan, resources)
    if left:
        kept = sum(kept_gib(run.plan, run.stages) for run in left)
        # What passes is gone when the next run begins.
        check_room(out, kept + max(passing_gib(run.plan, run.stages) for run in left))


def _check_thoughts(plan: Plan, methods: Sequence[Method]) -> None:
    """What is said before an answer leaves room for the question before it."""
    longest, room = plan.evaluate.thought_tokens, plan.engines.max_model_len
    if any(method.think for method in methods) and 2 * longest > room:
        raise PlanError(
            f"evaluate.thought_tokens={longest} with engines.max_model_len={room}: allowed is half "
            "of what an engine reads at most, as the question stands before it; lower the first "
            "or raise the second"
        )


def _check_scores(plan: Plan, methods: Sequence[Method], settings: Settings) -> None:
    """Scores that are given can be taken in, and those that are requested can be had."""
    given = given_rows(plan, settings, [method.name for method in methods])
    if settings.judge is None:
        return
    if any(row["set"] == JUDGE for row in given):
        raise PlanError("--judge with a judge's figures in --figures: give one of the two")
    if not any(method.training for method in methods):
        raise PlanError(
            "--judge: none of the methods is trained, so there are no topics to answer; add sft, "
            "rlaif, rldf_self or rldf_teacher, or leave the judge out"
        )
    judge_plan(plan, settings.judge)


def _judge(plan: Plan, judge: str, audit_pairs: int, kept: RunFolder) -> bool:
    """The judge's scores of all free answers, in a file for Tables 3 to 5 and Figures 5 and 6.

    Returns:
        Whether there is any.
    """
    source = kept.root / FREE_ANSWERS
    request = Request(
        source=source, judge=judge, plan=plan, theirs=None, audit_pairs=audit_pairs, seed=plan.seed
    )
    if not judged_before(request, kept):
        evaluate(request, kept)
    scores = kept.read_table(LONG_SCORES)["value"]
    return bool(scores.null_count < len(scores))


def _train(
    methods: Sequence[Method], settings: Settings, out: Path, progress: Progress
) -> int | None:
    """All runs; returns the number of pairs that every reward model was given."""
    for planned in (*debate_runs(methods, out), *data_runs(methods)):
        carry_out(planned, out, progress)
    pairs = fewest_pairs(methods, out)
    for planned in training_runs(methods, settings.repeats, pairs):
        carry_out(planned, out, progress)
    return pairs


def _topics(methods: Sequence[Method], out: Path) -> dict[str, list[Topic]]:
    """The topics of each run of debates, by its name; in the order of the methods."""
    trainings = [method.training for method in methods if method.training is not None]
    names = dict.fromkeys(debate_run_name(training) for training in trainings)
    return {name: read_topics(RunFolder(out / "runs" / name)) for name in names}


def _method_runs(
    plan: Plan, methods: Sequence[Method], settings: Settings, pairs: int | None, out: Path
) -> list[MethodRun]:
    method_runs = []
    other = other_revision(plan.model, RunFolder(out / "compare"))
    named = plan.model if other is None else f"{plan.model} {other}"
    for method in methods:
        for repeat in range(settings.repeats):
            folder, weights, revision = plan.model, named, other
            if method.training is not None:
                last = method.training.last
                name = training_run_name(method.training, last, repeat, pairs)
                run = RunFolder(out / "runs" / name)
                folder, manifest = str(run.root / last / "model"), run.manifest(last)
                revision = None
                assert manifest is not None
                # A stage that was redone has other weights in the same place.
                weights = f"{name}/{last} of {manifest['finished_at']}"
            method_runs.append(
                MethodRun(
                    method=method,
                    repeat=repeat,
                    seed=plan.seed + repeat,
                    folder=folder,
                    weights=weights,
                    revision=revision,
                )
            )
    return method_runs
