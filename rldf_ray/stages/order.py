"""Which stages are carried out, which have to have finished before, and which are done anew."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.plan import Plan
from rldf_ray.stages.run import StageError
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, depending_on, needed_by, pipeline


def with_referee(plan: Plan, folder: RunFolder, names: Sequence[str]) -> list[str]:
    """The stages `names`, and the fit of a trained referee before the first that asks it."""
    others = [name for name in names if name != "referee"]
    asking = any(PIPELINE[n].asks_referee and folder.manifest(n) is None for n in others)
    fitted = plan.referee.fitted and (asking or "referee" in names)
    return ["referee", *others] if fitted else others


def check_order(plan: Plan, folder: RunFolder, names: Sequence[str]) -> None:
    """The stages `names` are the plan's, and all that they need has finished or is among them.

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
        for earlier in needed_by(name, after):
            if earlier not in names and folder.manifest(earlier) is None:
                raise StageError(
                    f"{name} needs {earlier}, which has not finished in {folder.where}: "
                    f"`rldf run` does all stages in order"
                )


def forget(plan: Plan, folder: RunFolder, names: Sequence[str]) -> None:
    """Drop the manifests of the stages `names` and of all that depends on them."""
    for name in depending_on(names, plan.train.after):
        folder.remove(f"stages/{name}.json")
        if PIPELINE[name].trains:
            # Its checkpoints are of what is now to be done anew.
            folder.fresh_folder(name)
