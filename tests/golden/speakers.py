"""Speakers without a model: the project's script, and flaws that real models have now and then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from rldf_ray.models.base import ChatRequest, Completion, FinishReason
from rldf_ray.models.scripted import ScriptedModel, sentences
from rldf_ray.storage.digest import digest

NAMES = ("baker", "teacher", "driver", "nurse", "clerk", "singer", "farmer")
PLACES = ("station", "market", "library", "harbour", "museum", "bakery")


@dataclass
class Requests:
    """All requests that anybody was asked, which are hashed as well: they hold the prompts."""

    made: list[dict[str, Any]] = field(default_factory=list)

    def of(self, part: str) -> list[dict[str, Any]]:
        """Those of topics, debates or referees, in the order of their addresses."""
        mine = [request for request in self.made if request["part"] == part]
        return sorted(mine, key=lambda request: json.dumps(request, sort_keys=True))


@dataclass(frozen=True)
class Engine:
    """Stands where a run has its engines.

    Attributes:
        name: of the model, as a run knows it.
        flawed: some answers are empty, cut off, refused, or nothing that was asked for.
        rewards: it is a reward model.
    """

    name: str
    requests: Requests
    flawed: bool = False
    rewards: bool = False

    def wait_until_ready(self) -> None:
        """It is."""

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        built = msgspec.to_builtins(request)
        if not request.documents:
            # As the journal has it: the field came later.
            del built["documents"]
        self.requests.made.append({"speaker": self.name, "part": _part(request), **built})
        # Others get their turn, as they would beside a real model.
        for _ in range(_chance(request, 4)):
            await asyncio.sleep(0)
        (said,) = await ScriptedModel().complete(request)
        if self.rewards:
            return (replace(said, text=_reward(request), model=self.name),)
        if request.address.startswith("topics/") and "/judgement/" in request.address:
            said = replace(said, text=_scene(request))
        return (_with_flaw(request, said) if self.flawed else said,)


@contextmanager
def engine(name: str, requests: Requests, flawed: bool, rewards: bool) -> Iterator[Engine]:
    yield Engine(name, requests, flawed, rewards)


def _part(request: ChatRequest) -> str:
    if request.address.startswith("topics/"):
        return "topics"
    asked = ("/score/", "/rank", "/check/")
    return "referee" if any(name in request.address for name in asked) else "debate"


def _chance(request: ChatRequest, sides: int) -> int:
    """A die that falls the same way for the same request."""
    said = [message.content for message in request.messages]
    return int(digest(request.address, request.seed, said), 16) % sides


def _reward(request: ChatRequest) -> str:
    """A number; nothing, or what is none, once in a while."""
    if (side := _chance(request, 20)) < 2:
        return ("", "nan")[side]
    return str(_chance(request, 600) / 100 - 3)


def _scene(request: ChatRequest) -> str:
    """A scene with its clue; some tell of one person alone, which will not do."""
    number = _chance(request, len(NAMES) * len(PLACES) * 60)
    number, day = divmod(number, 60)
    name, place = NAMES[number % len(NAMES)], PLACES[number // len(NAMES)]
    groups = (f"the old {name}", f"the young {name}")
    answer = groups[day % 2]
    missing = "" if day % 4 == 0 else f", and {groups[1 - day % 2]} had not"
    return json.dumps(
        {
            "scene": f"On day {day} the old {name} and the young {name} met at the {place}, and "
            f"one of them had lost a key.",
            "clue": f"{answer.capitalize()} had searched all pockets twice{missing}.",
            "question": "Who had lost a key?",
            "groups": groups,
            "answer": answer,
        }
    )


def _with_flaw(request: ChatRequest, said: Completion) -> Completion:
    part, side = _part(request), _chance(request, 12)
    if part == "debate" and side < 5:
        reasons: tuple[tuple[str, FinishReason], ...] = (
            ("", "stop"),
            (f"{sentences(side)} And then there are those who", "length"),
            ("without any end to it at all and", "length"),
            ("I'm sorry, but I cannot help with that request.", "stop"),
            ("Das hängt ganz davon ab, wen man fragt und was man schon gesehen hat.", "stop"),
        )
        text, reason = reasons[side]
        return replace(said, text=text, finish_reason=reason)
    if part == "referee" and side == 0:
        return replace(said, text="that depends", choice_probabilities=None)
    if part == "referee" and side == 1:
        return replace(said, choice_probabilities=None)
    if part == "topics" and side == 0:
        return replace(said, text="{")
    return said
