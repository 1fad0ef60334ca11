"""POST /v1/debate: one multi-role debate now, streamed as server-sent events.

The protocol is the one of the runs (`rldf_ray.protocols.multirole`); it is listened to where it
speaks with its models, so nothing of it is repeated here.

    debate -> statement ... -> scores -> statement ... -> scores -> done      (or error)
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, ModelError, Usage
from rldf_ray.models.thinking import split_thinking
from rldf_ray.protocols.multirole.debate import MultiRoleDebate, whole_sentences
from rldf_ray.protocols.multirole.debater import Debater
from rldf_ray.records import Context
from rldf_ray.referee.verdict import Referee, Verdict
from rldf_ray.storage.json_text import json_text
from rldf_ray.topics.bias_type import BiasType, bias_type, shipped_bias_types
from serve.bodies import BodyError, DebateBody
from serve.engines import EngineFailedError, EngineGoneError, EngineRefusedError
from serve.guard import Caller
from serve.referees import Judge
from serve.service import Service

Tell = Callable[[str, dict[str, Any]], None]

log = logging.getLogger("rldf.serve")


class BusyError(UserError):
    """A debate did not get its turn."""


@dataclass
class ServedChatModel:
    """A served model behind the interface that debaters and referees speak with."""

    service: Service
    caller: Caller
    model: str

    @property
    def name(self) -> str:
        return self.model

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer with the served engine.

        Raises:
            ModelError: the engine refused, is gone, or took too long.
        """
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        try:
            if request.choices is not None and request.choice_probabilities:
                return (await self._choose(request, messages),)
            body = {**_sampling(request), "messages": messages}
            found = await self.service.answer(self.caller, self.model, "chat", body)
        except (EngineRefusedError, EngineGoneError, EngineFailedError) as error:
            raise ModelError(f"model {self.model}: {error}") from error
        except TimeoutError:
            raise ModelError(f"model {self.model} gave no answer in time") from None
        return tuple(self._completion(found, i) for i in range(len(found["choices"])))

    async def _choose(self, request: ChatRequest, messages: list[dict[str, str]]) -> Completion:
        body = {"messages": messages, "choices": list(request.choices or ())}
        found = await self.service.answer(self.caller, self.model, "choose", body)
        return Completion(
            text=found["text"],
            finish_reason="stop",
            usage=_usage(found),
            model=self.model,
            revision=self.caller.version,
            choice_probabilities=found["probabilities"],
        )

    def _completion(self, found: dict[str, Any], i: int) -> Completion:
        choice = found["choices"][i]
        apart = choice["message"].get("reasoning_content") or choice["message"].get("reasoning")
        said = split_thinking(choice["message"]["content"] or "", apart=apart or "")
        return Completion(
            text=said.answer,
            thinking=said.thinking,
            finish_reason="stop" if choice["finish_reason"] == "stop" and said.ended else "length",
            usage=_usage(found) if i == 0 else Usage(),
            model=self.model,
            revision=self.caller.version,
        )


def _sampling(request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "n": request.n,
    }
    if request.choices is not None:
        body["structured_outputs"] = {"choice": list(request.choices)}
    elif request.json_schema is not None:
        body["structured_outputs"] = {"json": request.json_schema}
    return body


def _usage(found: dict[str, Any]) -> Usage:
    usage = found.get("usage") or {}
    return Usage(
        prompt=usage.get("prompt_tokens") or 0, generated=usage.get("completion_tokens") or 0
    )


@dataclass(kw_only=True)
class _Heard:
    """A debater's model; tells each statement as it is made."""

    model: ChatModel
    role: int
    identity: str
    tell: Tell
    round: int = 0

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.round += 1
        samples = await self.model.complete(request)
        self.tell(
            "statement",
            {
                "round": self.round,
                "role": self.role,
                "identity": self.identity,
                "text": whole_sentences(samples[0]),
                "finish_reason": samples[0].finish_reason,
            },
        )
        return samples


@dataclass
class _Watched:
    """A referee; tells the scores and ranks of each round."""

    referee: Referee
    tell: Tell
    round: int = field(default=0)

    @property
    def kind(self) -> str:
        return self.referee.kind

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        self.round += 1
        verdicts = await self.referee.judge(context, texts, address, affinity)
        scores = [
            {
                "role": role,
                "score": verdict.score,
                "expected_score": verdict.expected_score,
                "rank": verdict.rank,
                "failure": verdict.failure,
            }
            for role, verdict in enumerate(verdicts)
        ]
        self.tell("scores", {"round": self.round, "scores": scores})
        return verdicts


def checked(body: DebateBody, service: Service) -> BiasType:
    """Whose identities debate.

    Raises:
        BodyError: a limit is exceeded, or the bias type is none that ships with the package.
        UnknownModelError: no such model.
    """
    limits = service.settings.limits
    if body.rounds > limits.debate_rounds:
        raise BodyError(f"rounds: this server holds at most {limits.debate_rounds}", "rounds")
    if body.max_tokens > limits.max_tokens:
        raise BodyError(f"max_tokens: this server takes {limits.max_tokens}", "max_tokens")
    service.routes.target(body.model)
    known = shipped_bias_types()
    if body.bias_type not in known:
        # Elsewhere a path may stand here; over HTTP it would open any file of this machine.
        raise BodyError(f"bias_type: one of {', '.join(known)}", "bias_type")
    return bias_type(body.bias_type)


async def events(
    body: DebateBody, found: BiasType, service: Service, caller: Caller
) -> AsyncIterator[str]:
    """The debate's events; if the client goes, the debate ends with it."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(kind: str, value: dict[str, Any]) -> None:
        queue.put_nowait(f"event: {kind}\ndata: {json_text(value)}\n\n")

    holding = asyncio.create_task(_hold(body, found, service, caller, tell))
    holding.add_done_callback(lambda task: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


@asynccontextmanager
async def _turn(service: Service, caller: Caller) -> AsyncIterator[None]:
    """A debate's turn; while it waits it holds a place among the requests under way.

    Raises:
        BusyError: it did not come in time, or the caller's key has as many as it may.
    """
    limits = service.settings.limits
    with _share(service, caller):
        try:
            async with asyncio.timeout(limits.debate_wait_s):
                await service.debates.acquire()
        except TimeoutError:
            wait_s = limits.debate_wait_s
            raise BusyError(f"other debates were under way for {wait_s:g} s: ask again") from None
        try:
            yield
        finally:
            service.debates.release()


@asynccontextmanager
async def _time(service: Service) -> AsyncIterator[None]:
    """Raise BusyError where a debate takes too long, so that its turn is another's."""
    most_s = service.settings.limits.debate_s
    try:
        async with asyncio.timeout(most_s):
            yield
    except TimeoutError:
        raise BusyError(f"the debate was not done in {most_s:g} s, and ends here") from None


@contextmanager
def _share(service: Service, caller: Caller) -> Iterator[None]:
    """One of the debates that a key may have; who needs no key has no share."""
    if caller.key is None:
        yield
        return
    most, name = service.settings.limits.debates_per_key, caller.key.sha256
    if service.debates_of[name] >= most:
        raise BusyError(f"{most} debates of this key are under way or wait: ask again")
    service.debates_of[name] += 1
    try:
        yield
    finally:
        service.debates_of[name] -= 1
        service.debates_of += Counter()  # forgets those that have none


async def _hold(
    body: DebateBody, found: BiasType, service: Service, caller: Caller, tell: Tell
) -> None:
    model = body.model or service.settings.default_model
    speaker = ServedChatModel(service, caller, model)
    prompted = ServedChatModel(service, caller, service.settings.referee_model)
    judge = Judge.of(service.trained, prompted, body.seed)
    identities = found.identities[: body.debaters]
    tell(
        "debate",
        {
            "topic": body.topic,
            "bias_type": body.bias_type,
            "identities": [identity.name for identity in identities],
            "rounds": body.rounds,
            "model": model,
            "referee": judge.model,
        },
    )
    debaters = [
        Debater(
            identity=identity,
            model=_Heard(model=speaker, role=role, identity=identity.name, tell=tell),
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            top_p=0.95,
            seed=body.seed,
            table=identities,
        )
        for role, identity in enumerate(identities)
    ]
    referee = _Watched(judge.referee, tell)
    try:
        async with _turn(service, caller), _time(service):
            await MultiRoleDebate(body.rounds, "simultaneous", "said").hold(
                Context(body.topic), debaters, referee, debate_id="served"
            )
        tell("done", {"tokens": caller.tokens})
    except (ModelError, BusyError) as error:
        tell("error", {"message": str(error)})
    except Exception:
        log.exception("a debate failed")
        tell("error", {"message": "internal error; the server's log has it"})
