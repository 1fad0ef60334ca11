"""What a trial leaves on the cluster when its program is cut off, and its end.

Ray ends the actors of a job with its driver. Ray Train's detached PlacementGroupCleaner is no part
of the job and was seen to stay, as placement groups have been (ray issue 54305), so both are looked
for and removed. Detached actors with a name are the cluster's own (Ray Data's
_AutoscalingCoordinatorActor, started once and shared by all jobs) and are left alone. Identifiers
of actors and placement groups end with that of their job.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.state import state  # the public tables need the dashboard
from ray.util import placement_group_table, remove_placement_group
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rldf_ray.errors import UserError

PROGRAM = "rldf_ray.apps.tune.trial"
PATIENCE_S = 30.0


class LeftoversError(UserError):
    """A trial's actors or placement groups could not be removed."""


@dataclass(frozen=True)
class Leftovers:
    """Actors and placement groups that are alive, by identifier."""

    actors: dict[str, dict[str, Any]]
    groups: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.actors or self.groups)


def leftovers(jobs: set[str]) -> Leftovers:
    """What is alive of `jobs`."""
    actors = {
        name: actor
        for name, actor in state.actor_table(None).items()
        if actor["State"] != "DEAD" and actor["JobID"] in jobs and not _of_cluster(actor)
    }
    groups = [
        name
        for name, group in placement_group_table().items()
        if group["state"] != "REMOVED" and name[-8:] in jobs
    ]
    return Leftovers(actors, tuple(groups))


def _of_cluster(actor: dict[str, Any]) -> bool:
    return bool(actor["IsDetached"] and actor["Name"])


def ended_jobs() -> set[str]:
    """Jobs of trials whose program has ended."""
    return {
        job["JobID"] for job in state.job_table() if job["IsDead"] and PROGRAM in job["Entrypoint"]
    }


def clear_ended_trials() -> None:
    """Remove what ended trials left; returns when nothing of them is alive.

    Raises:
        LeftoversError: something is still there after PATIENCE_S.
    """
    deadline = time.monotonic() + PATIENCE_S
    while left := leftovers(ended_jobs()):
        if time.monotonic() > deadline:
            names = [actor["ActorClassName"] for actor in left.actors.values()]
            raise LeftoversError(
                f"of ended trials {len(left.groups)} placement group(s) and the actors "
                f"{', '.join(names) or 'none'} are left; end this Ray cluster before going on"
            )
        _remove(left)
        time.sleep(0.5)


def _remove(left: Leftovers) -> None:
    for name in left.groups:
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(name))))
    for actor in left.actors.values():
        # Others die with their job; a detached one without a name has no handle to end it by.
        if actor["IsDetached"] and actor["Pid"]:
            _end_process(actor["Address"]["NodeID"], actor["Pid"])


def _end_process(node: str, pid: int) -> None:
    """End a process of Ray's on its own node."""
    task: Any = ray.remote(_kill).options(
        num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
    )
    ray.get(task.remote(pid), timeout=PATIENCE_S)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
