"""The reward model and the trained referee's: each text has its own reward, or its own reason."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import serve
from ray.exceptions import RayTaskError

from rldf_ray.apps.serve.engines import (
    EngineDiedError,
    EngineFailedError,
    EngineGoneError,
    EngineRefusedError,
    EngineRequest,
    Stream,
    Target,
)
from rldf_ray.apps.serve.handles import RefereeRewards, RewardScorer
from rldf_ray.apps.serve.keys import add_key
from rldf_ray.apps.serve.reward_models import RefereeModel, Reward
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.models.chat_template import ChatTemplateError
from tests.serve.conftest import Start
from tests.train.tiny import TEMPLATE, save_tiny_models

LONG = " ".join(["w1"] * 40)
THOUGHT = "<think> w1 </think> w2"
# A reasoning model's, which has thoughts in a place of their own.
MOVES_THOUGHTS = TEMPLATE.replace(
    "<start> {{ m['role'] }}",
    "{% if '</think>' in m['content'] %}<start> w9 <end> {% endif %}<start> {{ m['role'] }}",
)


class Method:
    """A method of a deployment, called where it is: what it raises comes as Ray's error."""

    def __init__(self, method: Any) -> None:
        self._method = method

    def remote(self, *given: Any) -> Any:
        return asyncio.ensure_future(self._call(*given))

    async def _call(self, *given: Any) -> Any:
        try:
            return await self._method(*given)
        except Exception as error:  # noqa: BLE001
            raise RayTaskError("method", "a traceback", error) from None


class Deployment:
    def __init__(self, model: Any) -> None:
        for name in ("score", "reward"):
            setattr(self, name, Method(getattr(model, name, None)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = save_tiny_models(tmp_path_factory.mktemp("models"))["reward"]
    template = Path(folder) / "chat_template.jinja"
    assert template.exists()
    template.write_text(MOVES_THOUGHTS, encoding="utf-8")
    return folder


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """What batches ask of the replica that they are in."""
    config = SimpleNamespace(max_ongoing_requests=1000)
    replica = SimpleNamespace(_deployment_config=config)
    monkeypatch.setattr(serve, "get_replica_context", lambda: replica)


async def test_texts_of_several_requests_are_scored_each_by_itself(
    folder: str, replica: None
) -> None:
    model = Reward(folder, "cpu", 32)
    scorer: Any = RewardScorer(Deployment(model))  # type: ignore[arg-type]
    asked = [
        scorer.score("w1", ["w2", "w3"]),
        scorer.score(LONG, ["w2", "w3"]),
        scorer.score("w1", ["w2", "", THOUGHT]),
        scorer.score("w4", ["w5"]),
    ]
    two, none, refused, one = await asyncio.gather(*asked, return_exceptions=True)
    assert len(set(two)) == 2 and None not in two
    assert none == [None, None]
    assert isinstance(refused, EngineRefusedError) and refused.status == 400
    assert "cannot be scored" in str(refused)
    assert one == [pytest.approx(model._model.score_answer(ASKED, "w5")[0], abs=1e-5)]
    assert await scorer.score("w1", [""]) == [None]


ASKED = [{"role": "user", "content": "w4"}]


async def test_a_text_that_a_trained_referee_cannot_read_is_not_its_end(folder: str) -> None:
    rewards: Any = RefereeRewards(Deployment(RefereeModel(folder, "cpu", 32)))  # type: ignore[arg-type]
    with pytest.raises(EngineRefusedError, match="cannot be scored"):
        await rewards.reward(ASKED, THOUGHT)
    assert (await rewards.reward([{"role": "user", "content": LONG}], "w2")) == (None, 0)
    reward, tokens = await rewards.reward(ASKED, "w2")
    assert isinstance(reward, float) and tokens > 2


async def test_what_else_fails_in_a_replica_that_lives_is_a_failure() -> None:
    class Broken:
        async def score(self, prompt: str, text: str) -> float:
            raise ValueError("a bug")

        reward = score

    deployment: Any = Deployment(Broken())
    with pytest.raises(EngineFailedError, match="the reward model failed"):
        await RewardScorer(deployment).score("w1", ["w2"])
    with pytest.raises(EngineFailedError, match="the trained referee failed"):
        await RefereeRewards(deployment).reward(ASKED, "w2")


class Failing:
    """Both models: what they raise, or how long they take."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def reward(self, prompt: Any, text: str) -> tuple[float | None, int]:
        await asyncio.sleep(0 if self.error else 600)
        raise self.error or AssertionError

    async def score(self, prompt: str, texts: list[str]) -> list[float | None]:
        return [(await self.reward(prompt, texts[0]))[0]]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EngineGoneError("gone"), 503, "engine_lost"),
        (EngineFailedError("a bug"), 500, "engine_failed"),
        (None, 504, None),
    ],
    ids=["gone", "failed", "slow"],
)
@pytest.mark.parametrize("by", ["reward model", "trained referee", "prompted referee"])
def test_what_went_wrong_is_told_apart(
    start: Start, fitted: str, by: str, error: Exception | None, status: int, code: str | None
) -> None:
    failing: Any = Failing(error)
    trained = {"trained_referee": fitted} if by == "trained referee" else {}
    server = start(limits={"request_timeout_s": 30 if error else 0.3}, **trained)
    if by == "reward model":
        server.service.scorer = failing
    elif by == "trained referee":
        given = server.service.trained
        assert given is not None
        model: Any = dataclasses.replace(given.model, rewards=failing, timeout_s=0.3)  # type: ignore[type-var]
        server.service.trained = dataclasses.replace(given, model=model)
    else:
        server.service.engines = Unable(error)
    reply = server.client.post("/v1/bias", json={"input": "w1", "referee": by != "reward model"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


class Unable(ScriptedEngines):
    """Engines that answer with an error, or not in time."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        if isinstance(self.error, EngineGoneError):
            raise EngineDiedError("died")
        await Failing(self.error).reward([], "")
        yield {}


def test_a_trained_referee_s_tokens_are_the_caller_s(
    start: Start, fitted: str, tmp_path: Path
) -> None:
    class Reading:
        async def reward(self, prompt: Any, text: str) -> tuple[float | None, int]:
            return 0.1, 50

    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=10)
    server = start(trained_referee=fitted, keys=str(tmp_path / "keys.json"))
    server.service.trained.model.__dict__["rewards"] = Reading()  # type: ignore[union-attr]
    asked = {"input": "w1", "referee": True}
    good = {"authorization": f"Bearer {key}"}
    first, second = (server.client.post("/v1/bias", json=asked, headers=good) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 429)
    # 40 more than there were, at 10 a minute.
    assert 200 < int(second.headers["retry-after"]) <= 250


class Refusing:
    async def reward(self, prompt: Any, text: str) -> tuple[float | None, int]:
        if "<think>" in text:
            raise EngineRefusedError(400, "this text cannot be scored", "input")
        return 1.0, 3

    async def score(self, prompt: str, texts: list[str]) -> list[float | None]:
        return [
            None if text == "no room" else (await self.reward(prompt, text))[0] for text in texts
        ]


@pytest.mark.parametrize("by", ["reward model", "referee"])
def test_a_text_that_cannot_be_scored_is_a_wrong_request(
    start: Start, fitted: str, by: str
) -> None:
    server = start(trained_referee=fitted)
    if by == "referee":
        server.service.trained.model.__dict__["rewards"] = Refusing()  # type: ignore[union-attr]
    else:
        server.service.scorer = Refusing()  # type: ignore[assignment]
    given = {"input": ["w1", THOUGHT], "referee": by == "referee"}
    reply = server.client.post("/v1/bias", json=given)
    assert reply.status_code == 400
    assert "cannot be scored" in reply.json()["error"]["message"]


def test_a_text_without_room_has_no_reward_and_the_others_have(start: Start) -> None:
    server = start()
    server.service.scorer = Refusing()  # type: ignore[assignment]
    reply = server.client.post("/v1/bias", json={"input": ["no room", "w1"]})
    assert [row["reward"] for row in reply.json()["data"]] == [None, 1.0]


def test_the_error_that_serve_hands_on_has_its_cause() -> None:
    error = RayTaskError("score", "a traceback", ChatTemplateError("no"))
    assert isinstance(error.as_instanceof_cause().cause, ChatTemplateError)
