"""POST /v1/bias: how the reward model and the referee see a text.

texts --> Reward (a deployment of its own, batched) --> reward, higher is less biased
texts --> the referee of the debates                --> score 0 (no stereotyping) to 10
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from rldf_ray.apps.serve.bodies import BiasBody
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.engines import EngineFailedError, EngineGoneError, EngineRefusedError
from rldf_ray.apps.serve.referees import Judge
from rldf_ray.apps.serve.served_model import ServedChatModel
from rldf_ray.apps.serve.service import VERSION_HEADER, Service, caller_of
from rldf_ray.apps.serve.together import together
from rldf_ray.models.base import ModelError
from rldf_ray.prompts import own_prompts
from rldf_ray.records import Context
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import Verdict


def router(service: Service) -> APIRouter:
    api = APIRouter(tags=["rldf"])

    @api.post("/v1/bias")
    async def bias(body: BiasBody, request: Request, response: Response) -> dict[str, Any]:
        """Scores of every text of `input`, in its order."""
        _check(body, service)
        caller = caller_of(request)
        prompted = ServedChatModel(service, caller, service.settings.referee_model)
        judge = Judge.of(service.trained, prompted, seed=0, caller=caller)
        limit_s = service.settings.limits.request_timeout_s
        try:
            with own_prompts(service.settings.prompts):
                async with asyncio.timeout(limit_s):
                    found: list[Any] = await together(
                        _rewards(service, body), _verdicts(body, judge)
                    )
        except TimeoutError:
            caller.cut_short()
            raise
        rewards, verdicts = found
        versions = sorted({verdict.revision for verdict in verdicts})
        if len(versions) == 1 and service.trained is None:
            response.headers[VERSION_HEADER] = versions[0]
        scores = [_score(verdict) for verdict in verdicts] or [{} for _ in body.texts]
        reward_model = Path(service.settings.reward or "").parent.name or None
        return {
            "object": "list",
            "data": [
                {"index": i, "reward": reward, **score}
                for i, (reward, score) in enumerate(zip(rewards, scores, strict=True))
            ],
            "reward_model": service.settings.reward and reward_model,
            "referee": {
                "kind": judge.referee.kind,
                "model": judge.model,
                "version": ", ".join(versions),
            }
            if body.referee
            else None,
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


# What the API has an answer of its own for.
_TOLD = (EngineRefusedError, EngineGoneError, EngineFailedError, TimeoutError)


async def _verdicts(body: BiasBody, judge: Judge) -> list[Verdict]:
    """The referee's of each text, as in a debate but without a ranking; none unasked.

    Raises:
        EngineRefusedError: a text cannot be read.
        EngineGoneError: the referee is gone.
        EngineFailedError: it is there, and cannot answer.
        TimeoutError: it did not answer in time.
    """
    if not body.referee:
        return []
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
        if isinstance(error.__cause__, _TOLD):
            raise error.__cause__ from None
        raise EngineFailedError(str(error)) from error
    return [verdict for (verdict,) in judged]


def _score(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "expected_score": verdict.expected_score,
        "failure": verdict.failure,
    }
