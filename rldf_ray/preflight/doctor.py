"""`rldf doctor`: what is here, and whether a plan fits; every line says what to change."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rldf_ray.cluster.environment import versions
from rldf_ray.cluster.node_shares import check_ppo_nodes
from rldf_ray.cluster.placement import Resources, place
from rldf_ray.cluster.ray_cluster import reported_resources
from rldf_ray.cluster.session_folder import check_session_folder
from rldf_ray.engines.checks import check_endpoint, check_model
from rldf_ray.extras import advice
from rldf_ray.plan import Plan
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.preflight.checks import (
    check_bias_types,
    check_items,
    check_language,
    check_loggers,
    check_protocol,
    check_referee,
    check_rewards,
    check_searches,
    check_seed_scenes,
)
from rldf_ray.preflight.debate_room import described
from rldf_ray.preflight.disk import check_disk
from rldf_ray.preflight.memory import check_policy_memory, check_shared_memory
from rldf_ray.preflight.models import check_templates
from rldf_ray.preflight.unsent_prompts import unsent_prompts

IMPORTED = ("ray", "torch", "transformers", "trl", "deepspeed", "vllm", "datasets")


@dataclass(frozen=True)
class Check:
    """One thing checked; `found` is its result, or what to change (a key of --json)."""

    name: str
    ok: bool
    found: str


def examine(plan: Plan, out: Path) -> list[Check]:
    """All checks; none of them starts an engine or a training job."""
    resources, with_ppo = reported_resources(), "ppo" in plan.train.after
    return [
        checked("packages", lambda: packages_of(IMPORTED)),
        checked("protocol", lambda: check_protocol(plan)),
        *([checked("searches", lambda: check_searches(plan))] if plan.debate.settings else []),
        checked("bias types", lambda: f"{check_bias_types(plan)}; {check_seed_scenes(plan)}"),
        checked("language", lambda: check_language(plan)),
        checked("model", lambda: check_model(plan)),
        checked("chat templates", lambda: check_templates(plan)),
        checked("debate prompts", lambda: described(plan)),
        *([checked("own prompts", lambda: own_prompts_of(plan))] if plan.prompts else []),
        checked("referee", lambda: check_referee(plan)),
        checked("evaluation items", lambda: check_items(plan)),
        checked("loggers", lambda: check_loggers(plan)),
        *([checked("rewards", lambda: check_rewards(plan))] if with_ppo else []),
        checked("endpoint", lambda: endpoint_answers(plan)),
        checked("temporary folder", check_session_folder),
        checked("disk", lambda: check_disk(plan, out)),
        Check(
            "resources",
            True,
            f"{resources.cpus:g} CPUs, {resources.gpus:g} GPUs, {resources.memory_gib:.1f} GiB",
        ),
        checked("placement", lambda: placed(plan, resources)),
        checked("memory", lambda: check_policy_memory(plan, resources)),
        *(
            [checked("shared memory", lambda: check_shared_memory(plan, resources))]
            if with_ppo
            else []
        ),
    ]


def placed(plan: Plan, resources: Resources) -> str:
    """Where engines and workers go; raises where they have no room."""
    placement = place(plan, resources)
    if "ppo" in plan.train.after:
        check_ppo_nodes(placement, resources.nodes)
    return placement.describe()


def own_prompts_of(plan: Plan) -> str:
    """How many prompts of its own a plan has, and which of them are not sent."""
    return unsent_prompts(plan) or f"{len(plan.prompts or ())} in the place of shipped ones"


def checked(name: str, look: Callable[[], str]) -> Check:
    """What `look` reports, or what is wrong by what it raises."""
    try:
        return Check(name, True, look())
    except Exception as error:  # noqa: BLE001 - whatever is wrong is what doctor reports
        return Check(name, False, str(error))


def packages_of(imported: Sequence[str]) -> str:
    """The versions that shape results; raises where one of these does not import."""
    for name in imported:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing = advice(getattr(error, "name", None) or "")
            raise RuntimeError(
                missing or f"{name} does not import ({error}): install rldf-ray anew"
            ) from error
    return ", ".join(f"{name} {version}" for name, version in versions().items())


def endpoint_answers(plan: SpeakingPlan) -> str:
    """Where the plan has an endpoint: whether it answers and knows the model."""
    endpoint = check_endpoint(plan)
    wanted = [speaker.model for speaker in plan.speakers() if speaker.paid]
    if not wanted:
        return endpoint
    import openai

    key = os.environ.get(plan.endpoint.api_key_env, "none")
    client = openai.OpenAI(base_url=plan.endpoint.base_url, api_key=key, timeout=10, max_retries=0)
    try:
        known = [entry.id for entry in client.models.list()]
    except openai.OpenAIError as error:
        # The error's own text may repeat part of the key.
        status = getattr(error, "status_code", None)
        raise RuntimeError(
            f"{endpoint} does not answer as it should: {type(error).__name__}"
            + (f", status {status}" if status else "")
            + f"; check endpoint.base_url and the key in {plan.endpoint.api_key_env}"
        ) from error
    for model in wanted:
        if model not in known:
            raise RuntimeError(
                f"{endpoint} does not have {model!r}; it has {', '.join(known[:10])}"
            )
    return f"{endpoint} answers and has {', '.join(wanted)}"
