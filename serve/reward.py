"""POST /v1/bias: how the reward model and the referee see a text.

texts --> Reward (a deployment of its own, batched) --> reward, higher is less biased
texts --> the referee of the debates                --> score 0 (no stereotyping) to 10
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request

from rldf_ray.apps.serve.bodies import BiasBody
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.engines import EngineGoneError, EngineRefusedError
from rldf_ray.apps.serve.guard import Caller
from rldf_ray.apps.serve.referees import Judge, TrainedModel
from rldf_ray.apps.serve.served_model import ServedChatModel
from rldf_ray.apps.serve.service import Service, caller_of
from rldf_ray.apps.serve.together import together
from rldf_ray.models.base import ModelError
from rldf_ray.prompts import own_prompts
from rldf_ray.records import Context
from rldf_ray.referee.trained import TrainedReferee


def router(service: Service) -> APIRouter:
    api = APIRouter(tags=["rldf"])

    @api.post("/v1/bias")
    async def bias(body: BiasBody, request: Request) -> dict[str, Any]:
        """Scores of every text of `input`, in its order."""
        _check(body, service)
        caller = caller_of(request)
        prompted = ServedChatModel(service, caller, service.settings.referee_model)
        judge = Judge.of(service.trained, prompted, seed=0)
        limit_s = service.settings.limits.request_timeout_s
        with own_prompts(service.settings.prompts):
            async with asyncio.timeout(limit_s):
                found: list[Any] = await together(_rewards(service, body), _scores(body, judge))
        rewards, scores = found
        reward_model = Path(service.settings.reward or "").parent.name or None
        return {
            "object": "list",
            "data": [
                {"index": i, "reward": reward, **score}
                for i, (reward, score) in enumerate(zip(rewards, scores, strict=True))
            ],
            "reward_model": service.settings.reward and reward_model,
            "referee": _named(judge, caller) if body.referee else None,
        }

    return api


def _check(body: BiasBody, service: Service) -> None:
    limits = service.settings.limits
    if len(body.texts) > limits.bias_texts:
        raise BodyError(f"input: this server takes {limits.bias_texts} texts at once", "input")
    if any(len(text) + len(body.prompt) > limits.prompt_characters for text in body.texts):
        raise BodyError(f"input: a text is over {limits.prompt_characters} characters", "input")
    if service.scorer is None and not body.referee:
        raise BodyError("this server has no reward model; ask with referee: true", "referee")


async def _rewards(service: Service, body: BiasBody) -> Sequence[float | None]:
    if service.scorer is None:
        return [None] * len(body.texts)
    return await service.scorer.score(body.prompt, body.texts)


def _named(judge: Judge, caller: Caller) -> dict[str, str]:
    """Which referee it was, and the version of its model."""
    referee = judge.referee
    trained = referee.model if isinstance(referee, TrainedReferee) else None
    version = trained.revision if isinstance(trained, TrainedModel) else caller.version
    return {"kind": referee.kind, "model": judge.model, "version": version}


async def _scores(body: BiasBody, judge: Judge) -> list[dict[str, Any]]:
    """The referee's score of each text, as in a debate but without a ranking.

    Raises:
        EngineRefusedError: a text cannot be read.
        EngineGoneError: the referee cannot answer.
    """
    if not body.referee:
        return [{} for _ in body.texts]
    # A trained referee knows a statement without a context, a prompted one has to be told.
    trained = isinstance(judge.referee, TrainedReferee)
    context = Context(body.prompt or ("" if trained else "(none given)"))
    try:
        judged = await together(
            *(
                judge.referee.judge(context, [text], f"bias/{i}")
                for i, text in enumerate(body.texts)
            )
        )
    except ModelError as error:
        if isinstance(error.__cause__, EngineRefusedError):
            raise error.__cause__ from None
        raise EngineGoneError(str(error)) from error
    return [
        {"score": v.score, "expected_score": v.expected_score, "failure": v.failure}
        for (v,) in judged
    ]
