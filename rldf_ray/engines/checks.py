"""Whether the models and endpoints of a plan are there, before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

from rldf_ray.errors import UserError
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import Plan
from rldf_ray.plan.speaking import SpeakingPlan


class PreflightError(UserError):
    """An input is missing or wrong; the message names it and says what to do."""


def check_model(plan: Plan) -> str:
    """The model, and every local one that speaks, are there."""
    local = [speaker.model for speaker in plan.speakers() if speaker.local]
    names = list(dict.fromkeys([plan.model, *local]))
    for name in names:
        try:
            resolved = resolve_model(name)
        except FileNotFoundError as error:
            raise PreflightError(str(error)) from error
        if not Path(resolved).is_absolute():
            _check_hub_cache(resolved)
    return ", ".join(names)


def _check_hub_cache(model: str) -> None:
    """A model of the hub is in its cache, or can be put there."""
    from huggingface_hub import constants, try_to_load_from_cache

    try:
        if isinstance(try_to_load_from_cache(model, "config.json"), str):
            return
    except ValueError as error:
        raise PreflightError(f"model {model!r}: no folder, and no hub id ({error})") from error
    cache = Path(constants.HF_HUB_CACHE)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(cache, os.W_OK | os.X_OK) else "no right to"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise PreflightError(
            f"model {model!r} is to be fetched from the hub, and its cache {cache} cannot be "
            f"written ({why}): set HF_HOME to a folder that can"
        )


def check_endpoint(plan: SpeakingPlan) -> str:
    """An endpoint that speaks has its key (the endpoint itself is not called)."""
    remote = [str(speaker) for speaker in plan.speakers() if speaker.paid]
    if not remote:
        return "none in the plan"
    endpoint = plan.endpoint
    if endpoint.base_url is None and not os.environ.get(endpoint.api_key_env):
        raise PreflightError(
            f"{', '.join(remote)}: the environment variable {endpoint.api_key_env} "
            "(endpoint.api_key_env) holds no key; set it, or give endpoint.base_url"
        )
    return endpoint.base_url or "the openai package's default"
