"""Whether the models and endpoints of a plan are there, before anything starts."""

from __future__ import annotations

import os

from rldf_ray.errors import UserError
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import Plan


class PreflightError(UserError):
    """An input is missing or wrong; the message names it and says what to do."""


def check_model(plan: Plan) -> str:
    """The model, and every local one that speaks, are there."""
    local = [speaker.model for speaker in plan.speakers() if speaker.local]
    names = list(dict.fromkeys([plan.model, *local]))
    for name in names:
        try:
            resolve_model(name)
        except FileNotFoundError as error:
            raise PreflightError(str(error)) from error
    return ", ".join(names)


def check_endpoint(plan: Plan) -> str:
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
