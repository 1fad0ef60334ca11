"""POST /v1/evince: two models argue over a text's label now, streamed as server-sent events.

dialogue -> turn A -> turn B -> round -> turn A ... -> decision -> done      (or error)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict

from rldf_ray.apps.serve import unfolding
from rldf_ray.apps.serve.bodies import EvinceBody
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.protocol_settings import evince_settings
from rldf_ray.apps.serve.served_model import ServedChatModel
from rldf_ray.apps.serve.service import Service
from rldf_ray.apps.serve.unfolding import Tell
from rldf_ray.errors import UserError
from rldf_ray.protocols.evince.arms import stances
from rldf_ray.protocols.evince.baselines import answer
from rldf_ray.protocols.evince.decision import decide
from rldf_ray.protocols.evince.dialogue import Dialogue, Spoken
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.prompt import text_prompt
from rldf_ray.protocols.evince.records import any_flagged
from rldf_ray.protocols.evince.scale import load_scale, scale_names
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.steering import phase_of
from rldf_ray.protocols.evince.trace import Round, Side
from rldf_ray.protocols.seats import Seats


class NoLabelError(UserError):
    """A dialogue came to no label."""


def checked(body: EvinceBody, service: Service) -> EvinceSettings:
    """The settings of the dialogue.

    Raises:
        BodyError: a limit is exceeded, or scale or label are none there are.
        UnknownModelError: no such model.
    """
    limits = service.settings.limits
    if body.rounds > limits.debate_rounds:
        raise BodyError(f"rounds: this server holds at most {limits.debate_rounds}", "rounds")
    if body.max_tokens > limits.max_tokens:
        raise BodyError(f"max_tokens: this server takes {limits.max_tokens}", "max_tokens")
    service.routes.target(body.model)
    if body.scale not in scale_names():
        # Elsewhere a path may stand here; over HTTP it would open any file of this machine.
        raise BodyError(f"scale: one of {', '.join(scale_names())}", "scale")
    if body.given is not None and body.given not in load_scale(body.scale).names:
        raise BodyError(f"given: one of {', '.join(load_scale(body.scale).names)}", "given")
    return evince_settings(rounds=body.rounds, max_tokens=body.max_tokens, scale=body.scale)


def events(
    body: EvinceBody, settings: EvinceSettings, service: Service, caller: Caller
) -> AsyncIterator[str]:
    """The dialogue's events."""
    return unfolding.events(
        lambda tell: _hold(body, settings, service, caller, tell), service, caller
    )


async def _hold(
    body: EvinceBody, settings: EvinceSettings, service: Service, caller: Caller, tell: Tell
) -> None:
    scale = load_scale(settings.scale)
    model = body.model or service.settings.default_model
    seats = Seats(
        item="served",
        models={
            "a": ServedChatModel(service, caller, model),
            "judge": ServedChatModel(service, caller, service.settings.referee_model),
        },
        seed=body.seed,
    )
    item = EvinceItem(item_id="served", text_id="served", text=body.text, target=body.target)
    text = text_prompt(item, scale, settings)
    given = body.given
    if given is None:
        own = await answer(seats, text, scale, settings, 1, settings.temperature)
        if own.distribution is None:
            raise NoLabelError(f"the model names no label to defend ({own.failure}); give one")
        given = scale.label_of(own.distribution)
    tell("dialogue", {"labels": scale.names, "given": given, "model": model})

    def turn(side: Side, number: int, spoken: Spoken) -> None:
        said = {
            "arguments": [asdict(one) for one in spoken.said.arguments],
            "answers": dict(spoken.said.answers),
            "concedes": spoken.said.concedes,
        }
        distribution = spoken.distributions[0]
        tell("turn", {"side": side, "round": number, "distribution": distribution, **said})

    def measured(number: int, one: Round) -> None:
        tell(
            "round",
            {
                "round": number,
                "level": one.level,
                "phase": phase_of(one.level),
                "a": one.a[0],
                "b": one.b[0],
                **asdict(one.metrics),
                "crit": {"A": one.crit_a, "B": one.crit_b},
            },
        )

    dispute = await Dialogue(
        key="main",
        text=text,
        source=body.text,
        stances=stances((given,), "main"),
        scale=scale,
        settings=settings,
        seats=seats,
        on_turn=turn,
        on_round=measured,
    ).hold()
    if dispute.status == "failed":
        raise NoLabelError(f"the dialogue failed: {dispute.failure}")
    decision = decide(
        dispute.rounds,
        dispute.status,
        {} if body.given is None else {"given": body.given},
        settings.crit,
        scale,
        any_flagged(dispute, settings.crit.weak),
    )
    tell("decision", {"status": dispute.status, **asdict(decision)})
