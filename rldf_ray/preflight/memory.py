"""Whether what trains the policy fits into memory, before it is trained."""

from __future__ import annotations

from rldf_ray.cluster.address import joined_address
from rldf_ray.cluster.memory_room import check_memory
from rldf_ray.cluster.placement import BYTES, Resources
from rldf_ray.cluster.shared_memory import SHARED, place_for
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import Plan
from rldf_ray.preflight.models import parameters_of, stored_dtype


def check_policy_memory(plan: Plan, resources: Resources) -> str:
    """What trains the policy fits in memory on CPU.

    Raises:
        PlacementError: it does not; says what to change.
    """
    model = resolve_model(plan.model)
    return check_memory(plan, parameters_of(model), resources, stored_dtype(model))


def check_shared_memory(plan: Plan, resources: Resources) -> str:
    """The policy has room on its way from PPO's trainer to the engines, on this machine.

    Raises:
        NoRoomError: it has none; says what to change.
    """
    if joined_address() is not None:
        return "that of the node where PPO will run"
    if resources.gpus and plan.train.lora.rank:
        return "adapters alone are handed to the engines"
    size = parameters_of(resolve_model(plan.model)) * BYTES[plan.ppo.dtype]
    place = place_for(round(size))
    slower = "" if place == SHARED else f", slower, as {SHARED} has too little room"
    return f"{size / 2**30:.2f} GiB of weights go to the engines through {place}{slower}"
