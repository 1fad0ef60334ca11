"""Which stages are carried out, which have to have finished before, and which are done anew."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rldf_ray.dataset.origin import is_given
from rldf_ray.plan import Plan
from rldf_ray.protocols.known import source_names
from rldf_ray.stages.run import StageError
from rldf_ray.stages.training import TRACKING
from rldf_ray.storage.results import AuditResult, DebatesResult, if_recorded, stage_result
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, needed_by, pipeline

GOES_ON_FROM = ("trained.json", "trainer", "checkpoints")
"""What a training stage that was cut off goes on from, in its folder."""


def unfinished(folder: RunFolder, names: Sequence[str], anew: Collection[str] = ()) -> list[str]:
    """Those of the stages `names` that have not finished, or are to be done `anew`."""
    return [name for name in names if name in anew or folder.manifest(name) is None]


def debating(plan: Plan) -> tuple[str, ...]:
    """The stages of `rldf debate`: the referee is audited where debates are left to it."""
    audit = () if plan.debate.protocol in source_names() else ("audit",)
    return ("topics", *audit, "debates")


def without_idle_referee(
    plan: Plan, folder: RunFolder, names: Sequence[str], anew: Collection[str] = ()
) -> list[str]:
    """The stages `names`, without the referee's where it labels nothing that the run learns from.

    A source has preferences of its own, and statements or pairs that were given have theirs. What
    has finished of these stages stays.

    Args:
        anew: stages that are to be done again: debates that are held have labels to be given.
    """
    debates = None if "debates" in anew else stage_result(folder, DebatesResult)
    given = debates is not None and is_given(debates)
    idle = given or plan.debate.protocol in source_names()
    return [name for name in names if not (idle and name in ("referee", "audit"))]


def with_referee(
    plan: Plan, folder: RunFolder, names: Sequence[str], anew: Collection[str] = ()
) -> list[str]:
    """The stages `names`, and the fit of a trained referee before the first that asks it.

    Args:
        anew: stages that are to be done again, whether or not they have finished.
    """
    others = [name for name in names if name != "referee"]
    asks = {name for name in others if PIPELINE[name].asks_referee}
    if plan.debate.protocol in source_names():
        asks -= {"debates"}
    asking = any(name in asks for name in unfinished(folder, others, anew))
    fitted = plan.referee.fitted and (asking or "referee" in names)
    return ["referee", *others] if fitted else others


def check_order(
    plan: Plan, folder: RunFolder, names: Sequence[str], anew: Collection[str] = ()
) -> None:
    """The stages `names` are the plan's, and all that they need has finished or is among them.

    Args:
        anew: stages that are to be done again, whether or not they have finished.

    Raises:
        StageError: one is not, or something has not.
    """
    after = plan.train.after
    for name in names:
        if name not in pipeline(after):
            raise StageError(
                f"{name} is no stage of this run: its plan has train.after=[{', '.join(after)}]; "
                f"begin another with train.after=[{name}] (`rldf run PLAN --out DIR --set "
                f"train.after=[{name}]`)"
            )
        for earlier in unfinished(folder, needed_by(name, after), anew):
            if earlier not in names:
                raise StageError(
                    f"{name} needs {earlier}, which has not finished in {folder.where}: "
                    f"`rldf run` does all stages in order"
                )


def audited_on_given(folder: RunFolder) -> bool:
    """Whether the audit was last done on a file's statements, which is no audit of the run."""
    audited = stage_result(folder, AuditResult)
    summary = None if audited is None else if_recorded(audited.referee)
    return bool(summary and summary.get("file"))


def forget(folder: RunFolder, names: Sequence[str]) -> None:
    """Drop the manifests of the stages `names`, and the models that they trained.

    What is killed meanwhile leaves no stage that looks finished, or that goes on from what it had
    trained, after one that is to be done anew: manifests go first, those of later stages before
    those of earlier ones.

    Args:
        names: in the order of the pipeline.
    """
    trained = [name for name in reversed(names) if PIPELINE[name].trains]
    if trained:
        # A tracker takes the place of no figure that it has: what is done anew is a run of its own.
        folder.remove(TRACKING)
    for name in reversed(names):
        folder.remove(f"stages/{name}.json")
        for left in GOES_ON_FROM if name in trained else ():
            folder.remove(f"{name}/{left}")
    for name in trained:
        folder.fresh_folder(name)


def freed_gib(folder: RunFolder, names: Collection[str]) -> float:
    """What `forget` removes of the local disk, GiB."""
    trained = [folder.root / name for name in names if PIPELINE[name].trains]
    files = [path for stage in trained for path in stage.rglob("*") if path.is_file()]
    return sum(path.lstat().st_size for path in files) / 2**30
