"""What a caller has dropped, or one failure has made useless, is not computed further."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from rldf_ray.apps.serve.engines import EngineGoneError
from rldf_ray.apps.serve.handles import RefereeRewards, RewardScorer
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.apps.serve.together import together
from tests.serve.conftest import Start


class Call:
    """A call of a deployment as Serve's handles give it."""

    def __init__(self, answer: asyncio.Future[Any]) -> None:
        self.answer = answer
        self.cancelled = False

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.shield(self.answer).__await__()

    def cancel(self) -> None:
        self.cancelled = True


class Deployment:
    """Both methods of a deployment; its calls are answered when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.score = self.reward = self

    def remote(self, *given: Any) -> Call:
        self.calls.append(Call(asyncio.get_running_loop().create_future()))
        return self.calls[-1]


async def test_rewards_that_nobody_waits_for_are_cancelled_where_they_are_computed() -> None:
    deployment: Any = Deployment()
    scorer, referee = RewardScorer(deployment), RefereeRewards(deployment)
    asked = [
        asyncio.create_task(scorer.score("x", ["a", "b", "c"])),
        asyncio.create_task(referee.reward([], "d")),
    ]
    await asyncio.sleep(0.05)
    deployment.calls[0].answer.set_result(1.0)
    await asyncio.sleep(0.05)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    assert [call.cancelled for call in deployment.calls].count(True) == 3


async def test_the_others_end_with_the_first_that_fails() -> None:
    ended = []

    async def part(fails: bool) -> int:
        try:
            await asyncio.sleep(0 if fails else 600)
        except asyncio.CancelledError:
            ended.append(fails)
            raise
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await together(part(False), part(True), part(False))
    assert ended == [False, False]


class GoneScorer:
    async def score(self, prompt: str, texts: Sequence[str]) -> list[float]:
        await asyncio.sleep(0.1)
        raise EngineGoneError("the reward model is gone")


def test_the_referee_stops_where_the_reward_model_is_gone(start: Start) -> None:
    engines = ScriptedEngines()
    server = start(engines)
    asked = []

    async def slowly(target: Any, request: Any) -> Any:
        asked.append(1)
        try:
            await asyncio.sleep(600)
        finally:
            asked.pop()
        yield {}

    engines.generate = slowly  # type: ignore[method-assign]
    server.service.scorer = GoneScorer()
    reply = server.client.post("/v1/bias", json={"input": ["one", "two"], "referee": True})
    assert reply.status_code == 503 and reply.json()["error"]["code"] == "engine_lost"
    assert not asked
