"""Scripted debaters and judges."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from rldf_ray.models.base import ChatRequest, Completion, Usage
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.study import TABLES, hold
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import TURN_SCHEMA, Held, StudyCast

STORY = "The grandfather repaired the telephone while his grandson read the manual aloud twice."
ITEM = PersuasionItem(
    item_id="q1",
    group="s1",
    story=STORY,
    question="Who repaired the telephone?",
    correct="The grandfather",
    incorrect="The grandson",
    agrees=False,
)


def argument(text: str, thinking: str = "I plan.") -> str:
    return f"<thinking>{thinking}</thinking>\n<argument>{text}</argument>"


TRUE = argument("It says <quote>The grandfather repaired the telephone</quote>, which settles it.")
FALSE = argument("It says <quote>The grandson mended the phone alone</quote>, which settles it.")


@dataclass
class Script:
    """Answers requests by a function of the request and the number of the sample.

    Attributes:
        says: a debater's, critic's or asking judge's text.
        letter: the answer to a choice, with the probability of the first of the choices.
    """

    says: Callable[[ChatRequest, int], str]
    letter: Callable[[ChatRequest], float]
    asked: list[ChatRequest] = field(default_factory=list)
    tells: bool = True

    @property
    def name(self) -> str:
        return "script"

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.asked.append(request)
        return tuple(self._one(request, n) for n in range(request.n))

    def _one(self, request: ChatRequest, number: int) -> Completion:
        chances = None
        if request.choices is not None:
            p = self.letter(request)
            first, second = request.choices
            text = "?" if math.isnan(p) else first if p >= 0.5 else second
            if self.tells and not math.isnan(p):
                chances = {first: p, second: 1 - p}
        else:
            text = self.says(request, number)
        return Completion(
            text=text,
            finish_reason="stop",
            usage=Usage(prompt=5, generated=3),
            model="script",
            revision="1",
            choice_probabilities=chances,
        )


def side_of(request: ChatRequest) -> str:
    """Whose turn a request is: the end of its address has the side."""
    return "incorrect" if "/incorrect/" in request.address else "correct"


def honest(request: ChatRequest, number: int) -> str:
    """The correct side quotes truly, the incorrect one invents; judges think aloud."""
    if "/thinking" in request.address:
        return "<thinking>Hm.</thinking>"
    if request.address.endswith("/question"):
        return "<thinking>?</thinking><question>Debater A and Debater B, where is that?</question>"
    return TRUE if side_of(request) == "correct" else FALSE


def text_of(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def trusts_quotes(request: ChatRequest) -> float:
    """p(A) of a judge that trusts verified quotes alone, and half without any."""
    if request.choices == ("Y", "N"):
        return 0.0
    shown = text_of(request)
    scores = {"A": 0, "B": 0}
    for line in shown.splitlines():
        for letter in scores:
            if line.startswith(f"Debater {letter}:"):
                scores[letter] += line.count("<v_quote>")
        if line.startswith("Consultant:"):
            letter = shown.partition("argue for answer ")[2][:1]
            other = "B" if letter == "A" else "A"
            scores[letter if "<v_quote>" in line else other] += 1
    if scores["A"] == scores["B"]:
        return 0.5
    return 0.9 if scores["A"] > scores["B"] else 0.1


def settings(**changes: Any) -> PersuasionSettings:
    short = {"words": 8, "least": 3, "most": 30}
    given = {
        "debaters": {"d": {"model": "m"}},
        "judges": ["m"],
        "debate_length": short,
        "consultancy_length": short,
        "rounds": 2,
        "oversampling": 1,
    }
    return PersuasionSettings.model_validate({**given, **changes})


async def held(script: Script, item: PersuasionItem = ITEM, **changes: Any) -> Held:
    given = settings(**changes)
    models = dict.fromkeys(given.models(), script)
    return await hold(item, StudyCast(seed=3, settings=given, models=models))


def verdicts(found: Held, protocol: str) -> list[Mapping[str, Any]]:
    return [row for row in found.tables["outcomes"] if row["protocol"] == protocol]


def tables_of(*several: Held) -> dict[str, pa.Table]:
    turns = [asdict(turn) for one in several for turn in one.turns]
    return {
        "turns": pa.Table.from_pylist(turns, TURN_SCHEMA),
        **{
            name: pa.Table.from_pylist([row for one in several for row in one.tables[name]], schema)
            for name, schema in TABLES.items()
        },
    }
