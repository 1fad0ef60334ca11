"""The study of MABRF: each item through the loop in every arm, or a reader in those of SQuAD."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.mabrf.agents import Agents
from rldf_ray.protocols.mabrf.estimate import estimate as estimate
from rldf_ray.protocols.mabrf.evidence import Evidence, same_passage
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.items import item_table as item_table
from rldf_ray.protocols.mabrf.loop import Solved, mitigate, solve
from rldf_ray.protocols.mabrf.reading import read_items
from rldf_ray.protocols.mabrf.records import (
    OUTCOMES,
    PASSES,
    TOLD,
    cost,
    looked_up,
    loop_row,
    pass_rows,
)
from rldf_ray.protocols.mabrf.settings import MabrfSettings, SquadArm
from rldf_ray.protocols.mabrf.squad.metrics import holds
from rldf_ray.protocols.mabrf.squad.reading import read, reasoning
from rldf_ray.protocols.mabrf.summary import summary as summary
from rldf_ray.protocols.mabrf.training import training_rows as training_rows
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import Held, StudyCast, StudyTurn

TITLE = "Whether judging, searching and rewriting make answers less biased"
SETTINGS = MabrfSettings
TABLES = {"outcomes": OUTCOMES, "passes": PASSES}


def models(settings: MabrfSettings) -> Sequence[str]:
    return settings.models()


def searches(settings: MabrfSettings) -> Mapping[str, str]:
    """What is searched, by arm."""
    return settings.searching


def items(settings: MabrfSettings, seed: int) -> ItemSet[MabrfItem]:
    return read_items(settings, seed)


async def hold(item: MabrfItem, cast: StudyCast) -> Held:
    """All arms of one item; the first reasoning is shared by them."""
    settings: MabrfSettings = cast.settings
    seats = Seats(item=item.item_id, models=cast.models, seed=cast.seed)
    one = _Item(item, settings, seats, cast)
    rows = await (one.read() if settings.kind == "squad" else one.mitigated())
    return Held(turns=seats.turns, tables=rows)


Rows = dict[str, list[dict[str, Any]]]


class _Item:
    """One item of a study at work."""

    def __init__(
        self, item: MabrfItem, settings: MabrfSettings, seats: Seats, cast: StudyCast
    ) -> None:
        self._item, self._settings, self._seats, self._cast = item, settings, seats, cast

    def _agents(self, search: str) -> Agents:
        return Agents(
            item=self._item,
            settings=self._settings,
            seats=self._seats,
            search=self._cast.searches.get(search),
        )

    async def mitigated(self) -> Rows:
        """The loop, in an arm for each search."""
        agents = self._agents("")
        solved = await solve(agents)
        again, *arms = await asyncio.gather(
            self._judged_again(agents, solved),
            *(self._arm(search, solved) for search in self._settings.searches),
        )
        rows: Rows = {"outcomes": [], "passes": []}
        for search, found in zip(self._settings.searches, arms, strict=True):
            spent = self._spent(f"{search}/")
            rows["outcomes"].append(loop_row(self._item, search, solved, found, again, spent))
            rows["passes"] += pass_rows(self._item.item_id, search, solved, found)
        return rows

    async def _arm(self, search: str, solved: Solved) -> Any:
        return await mitigate(self._agents(search), solved, search)

    async def _judged_again(self, agents: Agents, solved: Solved) -> list[Any]:
        """Verdicts on the same steps: how far the judge is from itself."""
        loop = self._settings.loop
        if solved.verdict is None:
            return []
        return await asyncio.gather(
            *(
                agents.judge(solved.steps, f"retest {n}", loop.retest_temperature)
                for n in range(1, loop.retests + 1)
            )
        )

    def _spent(self, *places: str) -> list[StudyTurn]:
        begins = tuple(f"{self._item.item_id}/{place}" for place in places)
        return [turn for turn in self._seats.turns if turn.address.startswith(begins)]

    async def read(self) -> Rows:
        """The reader in every arm; those with search are held for each search."""
        plain = [arm for arm in self._settings.squad.arms if "search" not in arm]
        searching = [arm for arm in self._settings.squad.arms if "search" in arm]
        rows = await asyncio.gather(
            *(self._plain(arm) for arm in plain),
            *(self._searched(name, searching) for name in self._settings.searching if searching),
        )
        return {"outcomes": [row for several in rows for row in several], "passes": []}

    async def _plain(self, arm: SquadArm) -> list[dict[str, Any]]:
        answer = await read(self._agents(""), arm, None, arm)
        return [self._reading(arm, answer.prediction, None, f"{arm}/")]

    async def _searched(self, search: str, arms: Sequence[SquadArm]) -> list[dict[str, Any]]:
        agents = self._agents(search)
        evidence = await agents.look_up(reasoning(), f"{search}/look up")
        rows = []
        for arm in arms:
            answer = await read(agents, arm, evidence, f"{search}/{arm}")
            # Looked up once; each arm with search would have to.
            places = (f"{search}/look up/", f"{search}/{arm}/")
            rows.append(self._reading(f"{arm}, {search}", answer.prediction, evidence, *places))
        return rows

    def _reading(
        self, arm: str, prediction: str | None, evidence: Evidence | None, *places: str
    ) -> dict[str, Any]:
        context = self._item.context
        row: Mapping[str, Any] = {
            **dict.fromkeys(OUTCOMES.names),
            "item_id": self._item.item_id,
            "arm": arm,
            "prediction": prediction,
            "gold_found": any(same_passage(found.hit.text, context) for found in evidence.found)
            if evidence
            else None,
            **self._told(evidence),
            **looked_up(self._item, [evidence] if evidence else []),
            **cost(self._spent(*places)),
        }
        return dict(row)

    def _told(self, evidence: Evidence | None) -> dict[str, bool | None]:
        """Whether queries, what was shown of the hits, and the summary hold the answer."""
        golds = self._item.golds
        if evidence is None or not golds or holds(self._item.question, golds):
            return dict.fromkeys(TOLD)
        texts = (evidence.searched, evidence.told, [evidence.summary])
        return {
            name: any(holds(text, golds) for text in several)
            for name, several in zip(TOLD, texts, strict=True)
        }
