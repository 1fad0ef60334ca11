"""Calls of deployments that are gone: what the API says of them, whatever cancelling them does."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ray.serve.exceptions import DeploymentUnavailableError

from rldf_ray.apps.serve.engines import EngineGoneError, EngineRequest, Target
from rldf_ray.apps.serve.handles import RefereeRewards, RewardScorer, ServeEngines
from rldf_ray.apps.serve.settings import read_settings


class Unassigned:
    """A call that found no deployment. Serve's own raises the same from `cancel` too."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __aiter__(self) -> Unassigned:
        return self

    async def __anext__(self) -> Any:
        raise self.error

    def __await__(self) -> Any:
        raise self.error
        yield

    def cancel(self) -> None:
        raise self.error


class Deleted:
    """The handle of a deployment that has been deleted."""

    def __init__(self) -> None:
        error = DeploymentUnavailableError(cast(Any, "engine"))
        self.generate = self.score = self.reward = self
        self.remote = lambda *_: Unassigned(error)


async def test_a_request_to_a_deleted_engine_says_that_it_is_gone() -> None:
    engines = ServeEngines(read_settings({"models": {"policy": {"folder": "p"}}}))
    engines._handles["policy.v0001"] = cast(Any, Deleted())
    stream = engines.generate(Target("policy", "v0001", "policy.v0001"), EngineRequest("chat", {}))
    with pytest.raises(EngineGoneError, match="engine of policy is gone"):
        await anext(stream)
    assert engines._handles == {}


async def test_a_deleted_reward_model_or_referee_is_gone_too() -> None:
    handle = cast(Any, Deleted())
    with pytest.raises(EngineGoneError, match="reward model"):
        await RewardScorer(handle).score("prompt", ["text", "another"])
    with pytest.raises(EngineGoneError, match="referee"):
        await RefereeRewards(handle).reward([], "text")
