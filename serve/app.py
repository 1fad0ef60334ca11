"""The Ray Serve application.

    proxy --> Api (FastAPI behind the guard) --> an application of its own for every engine
                        |                             ^ started and ended by Rollouts
                        +--> Reward, and Limits where there are several replicas of it

`build` is what `rldf serve`, `serve run` and `serve deploy` all deploy; `Rollouts` then starts the
engines. An engine is an application of its own so that one can be added or taken away without
touching the others or the API: that is what a rollout is.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from rldf_ray.apps.serve.api import build_guarded, with_cors
from rldf_ray.apps.serve.handles import RefereeRewards, RewardScorer, ServeEngines, SharedLimits
from rldf_ray.apps.serve.keys import KeyRing
from rldf_ray.apps.serve.limits import Allowances
from rldf_ray.apps.serve.metrics import Metrics
from rldf_ray.apps.serve.referees import trained_referee
from rldf_ray.apps.serve.rollout import Rollouts
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.service import Service
from rldf_ray.apps.serve.settings import Settings, check_address, read_settings
from rldf_ray.referee.trained import TrainedReferee

REWARD = "Reward"

log = logging.getLogger("rldf.serve")


def build(args: dict[str, Any]) -> serve.Application:
    """The application of `settings`, given as a mapping (the `args` of a Serve config file)."""
    settings = read_settings(args)
    told = settings.model_dump(mode="json")
    reward = _reward(settings) if settings.reward is not None else None
    referee = _referee(settings) if settings.trained_referee is not None else None
    rollouts = serve.deployment(ray_actor_options={"num_cpus": 0}, graceful_shutdown_timeout_s=1)(
        Rollouts
    ).bind(told)
    limits = _limits() if settings.keys is not None and settings.api_replicas > 1 else None
    api = serve.deployment(
        num_replicas=settings.api_replicas,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=10_000,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=settings.drain_s,
    )(Api)
    return api.bind(told, rollouts, reward, referee, limits)


def _limits() -> serve.Application:
    """What keys may still use, counted once for all API replicas."""
    deployment = serve.deployment(
        name="Limits", ray_actor_options={"num_cpus": 0}, max_ongoing_requests=10_000
    )(Allowances)
    return deployment.bind()


def _reward(settings: Settings) -> serve.Application:
    from rldf_ray.apps.serve.reward_models import Reward

    deployment = serve.deployment(
        name=REWARD,
        ray_actor_options={"num_cpus": settings.reward_cpus, "num_gpus": settings.reward_gpus},
        max_ongoing_requests=1000,
    )(Reward)
    device = "cuda" if settings.reward_gpus else "cpu"
    return deployment.bind(settings.reward, device, settings.reward_max_length)


def _referee(settings: Settings) -> serve.Application:
    from rldf_ray.apps.serve.reward_models import RefereeModel

    assert settings.trained_referee is not None
    deployment = serve.deployment(
        name="Referee",
        ray_actor_options={"num_cpus": settings.reward_cpus, "num_gpus": settings.reward_gpus},
        max_ongoing_requests=1000,
    )(RefereeModel)
    device = "cuda" if settings.reward_gpus else "cpu"
    folder = str(Path(settings.trained_referee) / "model")
    return deployment.bind(folder, device, settings.referee_max_length)


@serve.ingress()
class Api:
    """The HTTP side, in every API replica."""

    async def __init__(  # type: ignore[misc]
        self,
        args: dict[str, Any],
        rollouts: DeploymentHandle[Any],
        reward: DeploymentHandle[Any] | None,
        referee: DeploymentHandle[Any] | None,
        limits: DeploymentHandle[Any] | None,
    ) -> None:
        self._rollouts = rollouts
        settings = read_settings(args)
        _check_proxy(settings)
        logging.getLogger("rldf.serve").setLevel(logging.INFO)
        logging.getLogger("rldf.serve").parent = logging.getLogger("ray.serve")
        engines = ServeEngines(settings)
        routes = Routes(settings, engines.up)
        self._watching = asyncio.get_running_loop().create_task(engines.watch(routes))
        scorer = RewardScorer(reward) if reward is not None else None
        trained = _trained(settings, referee)
        self._service = Service(
            settings=settings,
            engines=engines,
            routes=routes,
            scorer=scorer,
            metrics=Metrics(),
            trained=trained,
        )
        keys = KeyRing(Path(settings.keys)) if settings.keys is not None else None
        shared = SharedLimits(limits) if limits is not None else None
        self._guard = build_guarded(self._service, keys, shared)

    async def __serve_build_asgi_app__(self) -> Any:
        return with_cors(self._guard, self._service.settings)

    async def drain(self) -> int:
        """Let no more requests in; the number of those under way."""
        self._guard.draining = True
        return self._guard.under_way


def _trained(settings: Settings, referee: DeploymentHandle[Any] | None) -> TrainedReferee | None:
    if referee is None or settings.trained_referee is None:
        return None
    timeout_s = settings.limits.request_timeout_s
    return trained_referee(Path(settings.trained_referee), RefereeRewards(referee), timeout_s)


def _check_proxy(settings: Settings) -> None:
    """The same rule however it was deployed: what the proxy really listens on decides."""
    from ray.serve.context import _get_global_client

    client = _get_global_client()
    assert client is not None
    check_address(client.http_config.host or "", settings.keys)
