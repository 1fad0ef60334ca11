"""A finished study as logs that other programs read, where its protocol makes any."""

from __future__ import annotations

from rldf_ray.eval_logs.records import EvalLog
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import study_named, study_names
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.finished import UnfinishedError, finished_study
from rldf_ray.studies.holding import HELD


def study_logs(folder: RunFolder) -> list[EvalLog]:
    """The logs of a finished study's folder.

    Raises:
        UnfinishedError: the folder holds no such study, or its protocol makes no logs.
    """
    name, loaded = finished_study(folder)
    make = getattr(study_named(name), "evaluation_logs", None)
    if make is None:
        having = [one for one in study_names() if hasattr(study_named(one), "evaluation_logs")]
        raise UnfinishedError(
            f"{folder.where}: studies of {name} have no items with a right answer that other "
            f"programs' forms hold; those of {' and '.join(having)} do"
        )
    held = folder.manifest(HELD) or {}
    created = str(held["finished_at"]).replace("Z", "+00:00")
    with own_prompts(loaded.plan.prompts):
        return list(make(folder, loaded.settings, loaded.plan, created))
