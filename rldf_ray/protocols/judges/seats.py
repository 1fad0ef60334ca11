"""Who sits where: a seat's prompt goes to the model that sits in it, and the turn is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, seed_of
from rldf_ray.protocols.judges.prompt import HELPER, Segments
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.study import StudyTurn, turn_of
from rldf_ray.storage.digest import digest


@dataclass(frozen=True, kw_only=True)
class Seats:
    """The models of a study at work on one item.

    Attributes:
        item: its id; all addresses begin with it.
        turns: everything that was said, as it came.
    """

    item: str
    models: Mapping[str, ChatModel]
    settings: JudgesSettings
    seed: int
    turns: list[StudyTurn] = field(default_factory=list)

    async def say(
        self,
        seat: str,
        name: str,
        prompt: Segments | str,
        place: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> StudyTurn:
        """What the model `name` says to a seat's prompt.

        Raises:
            ModelError: it could not answer.
        """
        address = f"{self.item}/{place}"
        text, documents = (
            (prompt, ()) if isinstance(prompt, str) else (prompt.text, prompt.documents)
        )
        agent = Agent(model=self.models[name], seed=self.seed, system=HELPER)
        settings = self.settings
        completion = await agent.say(
            text,
            address,
            max_tokens=settings.max_tokens if max_tokens is None else max_tokens,
            temperature=settings.temperature if temperature is None else temperature,
            affinity=self.item,
            documents=documents,
        )
        turn = turn_of(
            completion,
            item_id=self.item,
            address=address,
            seat=seat,
            speaker=name,
            seed=seed_of(self.seed, address),
            prompt_digest=digest(HELPER, text),
        )
        self.turns.append(turn)
        return turn
