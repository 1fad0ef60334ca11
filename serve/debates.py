"""POST /v1/debate: one multi-role debate now, streamed as server-sent events.

The protocol is the one of the runs (`rldf_ray.protocols.multirole`); it is listened to where it
speaks with its models, so nothing of it is repeated here.

    debate -> statement ... -> scores -> statement ... -> scores -> done      (or error)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from rldf_ray.apps.serve import unfolding
from rldf_ray.apps.serve.bodies import DebateBody
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.referees import Judge
from rldf_ray.apps.serve.served_model import ServedChatModel
from rldf_ray.apps.serve.service import Service
from rldf_ray.apps.serve.unfolding import Tell
from rldf_ray.models.base import ChatModel, ChatRequest, Completion
from rldf_ray.protocols.multirole.debate import MultiRoleDebate, whole_sentences
from rldf_ray.protocols.multirole.debater import Debater
from rldf_ray.records import Context
from rldf_ray.referee.verdict import Referee, Verdict
from rldf_ray.topics.bias_type import BiasType, bias_type, shipped_bias_types


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


def events(
    body: DebateBody, found: BiasType, service: Service, caller: Caller
) -> AsyncIterator[str]:
    """The debate's events."""
    return unfolding.events(lambda tell: _hold(body, found, service, caller, tell), service, caller)


async def _hold(
    body: DebateBody, found: BiasType, service: Service, caller: Caller, tell: Tell
) -> None:
    model = body.model or service.settings.default_model
    speaker = ServedChatModel(service, caller, model)
    prompted = ServedChatModel(service, caller, service.settings.referee_model)
    judge = Judge.of(service.trained, prompted, body.seed, caller)
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
    await MultiRoleDebate(body.rounds, "simultaneous", "said").hold(
        Context(body.topic), debaters, _Watched(judge.referee, tell), debate_id="served"
    )
