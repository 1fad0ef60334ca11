"""SFT, reward model, PPO, DPO and KTO, each a training job into a folder of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from rldf_ray.models.embedded import located
from rldf_ray.stages.run import Run
from rldf_ray.storage.results import History
from rldf_ray.storage.stages import TRAINING, begins_as
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.loggers.logger import TrackedRun

TRACKING = "tracking.json"
"""The id by which experiment trackers know the run folder, and the stages that were begun under it,
each with its first row in the whole run, in their order; there where a tracker is used."""


def train_in_folder(
    run: Run,
    name: str,
    train: Callable[..., list[dict[str, Any]]],
    folders: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
    kept: str = "",
) -> History:
    """One training job into the stage's own folder, on "data" unless `folders` names another.

    A job that was cut off goes on from its last checkpoint, or begins again where it wrote none;
    one that had ended, in a stage that had not, is not done again.

    Args:
        kept: pattern of files that stay in the stage's folder when the job begins again.

    Raises:
        DivergedError: the training diverged.
    """
    from rldf_ray.train.worker import BEGAN, TrainJob

    ended = f"{name}/trained.json"
    if run.folder.fetched(ended).exists():
        run.progress.say(f"  {name}: trained before")
        history: History = run.folder.read_object(ended, ("history",))["history"]
        return history
    if run.plan.train.checkpoint_every is None:
        run.folder.fresh_folder(name, kept)
    run.folder.path(f"{name}/model")
    job = TrainJob(
        run.plan,
        run.placement,
        {
            "data": run.folder.address("data"),
            **{given: located(where) for given, where in folders.items()},
            "out": run.folder.address(name),
        },
        extra or {},
        tracked_run(run, name),
    )
    begun = f"{name}/{BEGAN}"
    run.folder.remove(begun)
    asked = time.time()
    with run.progress.bar(f"{name} steps", 1) as bar:
        history = train(job, on_progress=bar.update)
    if run.folder.fetched(begun).exists():
        run.clock.add_start(run.folder.read_object(begun, ("at",))["at"] - asked)
    for entry in history:
        check_finite(name, entry)
    for scrap in (BEGAN, "trainer", "ray_train"):
        run.folder.remove(f"{name}/{scrap}")
    run.folder.write_json(ended, {"history": history})
    run.folder.shared(ended)
    return history


def policy_start(run: Run, name: str) -> dict[str, str]:
    """The folders that one of the plan's `train.after` begins with: the policy before it.

    With adapters, the plan's model and the adapter before: what is trained stays one adapter.
    """
    before = begins_as(name, run.plan.train.after)
    if run.plan.train.lora.rank:
        return {"model": run.plan.model, "adapter": run.folder.address(f"{before}/adapter")}
    return {"model": run.folder.address(f"{before}/model")}


def tracked_run(run: Run, name: str) -> TrackedRun:
    """The run folder as experiment trackers know it, in the stage `name`.

    Its id is written before a tracker hears of it, so that a killed run goes on under it. Trackers
    take rows in their order alone: where a stage goes on after another was begun, or one that was
    begun is left unfinished, another run begins.
    """
    if set(run.plan.train.loggers) <= {"tensorboard"}:
        return TrackedRun()
    known = (run.folder.root / TRACKING).exists()
    tracked = run.folder.read_object(TRACKING, ("id",)) if known else {}
    first: dict[str, int] = tracked.get("first_rows", {})
    if [*first][-1:] != [name]:
        goes_on = name not in first and all(map(run.folder.manifest, first))
        if not (known and goes_on):
            tracked, first = {"id": secrets.token_hex(8)}, {}
        manifests = [run.folder.manifest(stage) or {} for stage in TRAINING if stage != name]
        first[name] = sum(len(manifest.get("history", ())) for manifest in manifests)
        run.folder.write_json(TRACKING, {**tracked, "first_rows": first})
        run.folder.shared(TRACKING)
    return TrackedRun(id=tracked["id"], rows_before=first[name])
