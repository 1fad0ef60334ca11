"""Calls of deployments that are gone: what the API says of them, whatever cancelling them does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from ray.serve.exceptions import DeploymentUnavailableError, RayServeException

from rldf_ray.apps.serve import handles
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


SETTINGS = read_settings({"models": {"policy": {"folder": "p"}}})
TARGET = Target("policy", "", "policy")


class Answering:
    """The handle of an engine that has one word to say."""

    def __init__(self) -> None:
        self.generate = self.running = self

    def options(self, stream: bool) -> Answering:
        return self

    def remote(self, *given: Any) -> Any:
        async def pieces() -> Any:
            yield ["data: word\n\n"]

        async def number() -> int:
            return 7

        return pieces() if given else number()


class Controller:
    """`serve.get_app_handle`, which waits until it is let go, and then fails `fails` times."""

    def __init__(self, fails: int = 0) -> None:
        self.asked, self.fails = 0, fails
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, app: str) -> Any:
        self.asked += 1
        self.begun.set()
        assert self.go.wait(30), "nothing else made progress"
        if self.asked <= self.fails:
            raise RayServeException(f"Application {app!r} does not exist.")
        return Answering()


async def answer(engines: ServeEngines) -> list[Any]:
    return [piece async for piece in engines.generate(TARGET, EngineRequest("chat", {}))]


async def test_other_requests_go_on_while_serve_is_asked_for_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = Controller()
    monkeypatch.setattr(handles.serve, "get_app_handle", controller)
    engines = ServeEngines(SETTINGS)
    asked = [asyncio.create_task(answer(engines)) for _ in range(5)]
    while not controller.begun.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    # A client that goes does not take what the others wait for with it.
    asked[0].cancel()
    await asyncio.sleep(0.01)
    controller.go.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [[["data: word\n\n"]]] * 4
    assert await engines.generating(["policy"]) == [7]
    assert controller.asked == 1


async def test_an_engine_that_does_not_exist_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = Controller(fails=2)
    controller.go.set()
    monkeypatch.setattr(handles.serve, "get_app_handle", controller)
    engines = ServeEngines(SETTINGS)
    with pytest.raises(EngineGoneError):
        await answer(engines)
    assert await engines.generating(["policy"]) == [None]
    assert await engines.generating(["policy"]) == [7]


async def test_only_the_handle_that_failed_is_given_up() -> None:
    engines = ServeEngines(SETTINGS)
    fresh = cast(Any, Answering())

    class Replaced(Deleted):
        """By another request's handle while this one's call was under way."""

        def __init__(self) -> None:
            super().__init__()
            call = self.remote

            def remote(*given: Any) -> Any:
                engines._handles["policy"] = fresh
                return call(*given)

            self.remote = remote

    engines._handles["policy"] = cast(Any, Replaced())
    with pytest.raises(EngineGoneError):
        await answer(engines)
    assert engines._handles == {"policy": fresh}
