"""A scripted model: what each side says in each round, and what the judge makes of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rldf_ray.models.base import ChatRequest, Completion, Usage
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.study import hold
from rldf_ray.protocols.study import Held, StudyCast

FIVE = load_scale("toward")
TEXT = "The mayor opened the bridge on Monday. Critics call the bill a scandal, and it was late."
ITEM = EvinceItem(
    item_id="t1, the mayor",
    text_id="t1",
    text=TEXT,
    target="the mayor",
    given={"ann": "negative", "ben": "neutral"},
)


def percent(*values: int) -> dict[str, int]:
    return dict(zip(FIVE.names, values, strict=True))


def turn(
    *values: int,
    label: str = "neutral",
    claim: str = "It reports.",
    reason: str = "It says what was opened.",
    quote: str = "opened the bridge",
    **more: object,
) -> dict[str, object]:
    """A turn with one argument."""
    argument = {"label": label, "claim": claim, "reason": reason, "quote": quote}
    return {"arguments": [argument], "distributions": {"the text": percent(*values)}, **more}


@dataclass
class Script:
    """Answers by the end of a request's address.

    Attributes:
        turns: by "A1", "B1" and so on; text as it is, anything else as JSON. A list is used up
            from its front, for requests that are made again.
        scores: a judge's score by its prompt.
    """

    turns: Mapping[str, object]
    scores: Callable[[str], int] = lambda prompt: 8
    repeated: Callable[[str], int] = lambda prompt: 0
    asked: list[ChatRequest] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "script"

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.asked.append(request)
        return tuple(self._completion(self._text(request)) for _ in range(request.n))

    def _completion(self, text: str) -> Completion:
        usage = Usage(prompt=10, generated=len(text.split()))
        return Completion(
            text=text, finish_reason="stop", usage=usage, model="script", revision="1"
        )

    def _text(self, request: ChatRequest) -> str:
        address = request.address.split("/")
        prompt = request.messages[-1].content
        if address[1] == "crit":
            return str(self.scores(prompt))
        if address[1] == "repeated":
            return str(self.repeated(prompt))
        if "remediation" in address:
            return json.dumps(self.turns.get("remediation", CASE))
        if address[1] == "one shot":
            return json.dumps(self.turns["one shot"])
        said = self.turns[f"{address[2]}{' again' if address[-1] == 'again' else ''}"]
        return said if isinstance(said, str) else json.dumps(said)


CASE = {
    "justification": "It reports an opening and a quarrel over its bill.",
    "findings": [{"kind": "language", "passage": "call the bill a scandal", "how": "It colours."}],
    "action": "show both with a note",
    "proposal": "Readers rated this text differently.",
}


def settings(**changes: object) -> EvinceSettings:
    return EvinceSettings.model_validate(
        {"a": "m", "b": "m", "judge": "m", "baselines": [], **changes}
    )


async def held(script: Script, item: EvinceItem = ITEM, **changes: object) -> Held:
    cast = StudyCast(seed=7, settings=settings(**changes), models={"m": script})
    return await hold(item, cast)


def outcome(found: Held, arm: str = "main") -> Mapping[str, object]:
    (row,) = [row for row in found.tables["outcomes"] if row["arm"] == arm]
    return row


def rows(found: Held, table: str, arm: str = "main") -> Sequence[Mapping[str, object]]:
    return [row for row in found.tables[table] if row["arm"] == arm]


def without_label(item: EvinceItem = ITEM) -> EvinceItem:
    return replace(item, given={})
