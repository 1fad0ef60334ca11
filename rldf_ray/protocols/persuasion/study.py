"""The study of persuasion: bounds, consultancies and debates of each question, judged by all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rldf_ray.plan.study import StudyPlan
from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.persuasion.estimate import estimate as estimate
from rldf_ray.protocols.persuasion.holding import Debating, Dialogue
from rldf_ray.protocols.persuasion.items import item_table as item_table
from rldf_ray.protocols.persuasion.items import read_items
from rldf_ray.protocols.persuasion.judging import Judging, Verdict
from rldf_ray.protocols.persuasion.matches import Pair, matches, next_round
from rldf_ray.protocols.persuasion.page import write_pages
from rldf_ray.protocols.persuasion.readings import readings_table
from rldf_ray.protocols.persuasion.records import (
    PEOPLE,
    Row,
    argument_rows,
    candidate_rows,
    verdict_row,
)
from rldf_ray.protocols.persuasion.records import TABLES as TABLES
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.summary import summary as summary
from rldf_ray.protocols.persuasion.training import training_rows as training_rows
from rldf_ray.protocols.persuasion.transcript import (
    POSITIONS,
    PersuasionItem,
    Position,
    Side,
    drawn_position,
)
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import Held, StudyCast
from rldf_ray.storage.run_folder import RunFolder

TITLE = "Whether persuasion leads a judge who cannot read the story to the truth"
SETTINGS = PersuasionSettings
GIVEN = {"people": PEOPLE}


def models(settings: PersuasionSettings) -> Sequence[str]:
    return settings.models()


def items(settings: PersuasionSettings, seed: int) -> ItemSet[PersuasionItem]:
    return read_items(settings, seed)


def again(outcomes: Sequence[Row], settings: PersuasionSettings) -> list[Pair] | None:
    """The matches of the next Swiss round, which need the verdicts of all questions before it."""
    return next_round(outcomes, settings) if "debate" in settings.protocols else None


def write_for_people(
    folder: RunFolder,
    items: Sequence[PersuasionItem],
    tables: Mapping[str, pa.Table],
    settings: PersuasionSettings,
    plan: StudyPlan,
) -> Mapping[str, str]:
    """What judges say over both positions, and a page for each question: title and place."""
    folder.write_table("data/readings.parquet", readings_table(tables["outcomes"].to_pylist()))
    index = write_pages(folder, items, tables, plan.name)
    return {"What was argued, question by question": index} if index else {}


async def hold(item: PersuasionItem, cast: StudyCast) -> Held:
    """Everything about one question, or its matches of a further Swiss round."""
    one = _Question(item, cast)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in one.parts()]
    # In the plan's order, whichever ended first.
    for task in tasks:
        for name, rows in task.result().items():
            one.rows[name] += rows
    return Held(turns=one.seats.turns, tables=one.rows)


Rows = dict[str, list[Row]]


class _Question:
    """One question of a study at work."""

    def __init__(self, item: PersuasionItem, cast: StudyCast) -> None:
        self.settings: PersuasionSettings = cast.settings
        self.item = item
        self.again: Sequence[Pair] | None = cast.again
        self.seats = Seats(
            item=item.item_id, models=cast.models, seed=cast.seed, affinity=item.group
        )
        self.rows: Rows = {name: [] for name in TABLES}

    def parts(self) -> list[Any]:
        """What is held, as the plan says."""
        settings, held = self.settings, list[Any]()
        protocols = settings.protocols if self.again is None else ("debate",)
        pairs = matches(settings) if self.again is None else self.again
        held += [self._bound(name) for name in ("naive", "expert") if name in protocols]
        for interactive in settings.interactive:
            askers = settings.judges if interactive else (None,)
            for asker in askers:
                if "consultancy" in protocols:
                    held += [
                        self._held({side: name}, asker)
                        for name in settings.debaters
                        for side in ("correct", "incorrect")
                    ]
                if "debate" in protocols:
                    held += [
                        self._held({"correct": one, "incorrect": other}, asker)
                        for one, other in pairs
                    ]
        return held

    def _judging(self, judge: str) -> Judging:
        return Judging(item=self.item, judge=judge, settings=self.settings, seats=self.seats)

    async def _bound(self, protocol: str) -> Rows:
        """The naive or the expert judge in both positions."""
        rows = []
        for judge in self.settings.judges:
            judging = self._judging(judge)
            for position in POSITIONS:
                verdict = await getattr(judging, protocol)(position)
                rows.append(
                    verdict_row(self.item, verdict, protocol=protocol, key=protocol, judge=judge)
                )
        return {"outcomes": rows}

    async def _held(self, names: Mapping[Any, str], asker: str | None) -> Rows:
        """A debate or consultancy, held and judged.

        Static ones are held once, in a position drawn for the item, and judged in both; those in
        which letters are named, as the judge's questions do, or speakers know theirs, are held in
        each.
        """
        sides: dict[Side, str] = dict(names)
        in_turn = len(sides) == 2 and self.settings.order == "sequential"
        twice = asker is not None or in_turn
        rows: Rows = {name: [] for name in TABLES}
        for position in POSITIONS if twice else (drawn_position(self.item),):
            key = _key(sides, asker, position if twice else None)
            dialogue = await self._debating(sides, asker, position, key).hold()
            judges = (asker,) if asker is not None else self.settings.judges
            judged = (position,) if twice else POSITIONS
            for judge in judges:
                for where in judged:
                    await self._judged(rows, sides, asker, key, dialogue, judge, where)
            conceded = await self._conceded(sides, key, dialogue, judges[0])
            rows["arguments"] += argument_rows(self.item, key, sides, dialogue, conceded)
            for turn in dialogue.turns:
                rows["candidates"] += candidate_rows(self.item, key, sides, turn)
        return rows

    def _debating(
        self, sides: dict[Side, str], asker: str | None, position: Position, key: str
    ) -> Debating:
        return Debating(
            key=key,
            item=self.item,
            position=position,
            sides={side: self.settings.debaters[name] for side, name in sides.items()},
            asks=asker,
            settings=self.settings,
            seats=self.seats,
        )

    async def _judged(
        self,
        rows: Rows,
        sides: dict[Side, str],
        asker: str | None,
        key: str,
        dialogue: Dialogue,
        judge: str,
        position: Position,
    ) -> None:
        """The verdict at the end, and the course of the judge's mind on the way."""
        side = next(iter(sides)) if len(sides) == 1 else None
        of = {
            "protocol": dialogue.transcript.kind,
            "key": key,
            "judge": judge,
            "correct_debater": sides.get("correct"),
            "incorrect_debater": sides.get("incorrect"),
            "interactive": asker is not None,
            "side": side,
        }
        if dialogue.failure is not None:
            none = Verdict(position=position, letter=None, p_a=None, correct=None, p_correct=None)
            rows["outcomes"].append(verdict_row(self.item, none, **of, failure=dialogue.failure))
            return
        judging, whole = self._judging(judge), dialogue.transcript
        verdict = await judging.of_transcript(whole, position, side, key)
        rows["outcomes"].append(verdict_row(self.item, verdict, **of))
        if verdict.p_a is None:
            # A judge that tells no probabilities at the end tells none on the way.
            return
        for number in range(1, whole.rounds + 1):
            # Asked aside: nobody in the debate is shown it. A verdict that was thought about is no
            # point of a course of those that were not.
            so_far = replace(whole, said=tuple(s for s in whole.said if s.round <= number))
            found = verdict
            if number < whole.rounds or self.settings.reasons_first:
                found = await judging.at_once(so_far, position, side, f"{key}/after {number}")
            rows["course"].append(self._course(key, judge, position, number, found))

    def _course(
        self, key: str, judge: str, position: Position, number: int, verdict: Verdict
    ) -> Row:
        return {
            "item_id": self.item.item_id,
            "key": key,
            "judge": judge,
            "position": position,
            "round": number,
            "p_correct": verdict.p_correct,
        }

    async def _conceded(
        self, sides: dict[Side, str], key: str, dialogue: Dialogue, judge: str
    ) -> dict[Side, bool | None]:
        """Whether a side argued for the other answer, by a referee that knows who was to."""
        if dialogue.failure is not None:
            return {}
        judging, transcript = self._judging(judge), dialogue.transcript
        return {side: await judging.concedes(transcript, side, key) for side in sides}


def _key(sides: Mapping[Side, str], asker: str | None, position: Position | None) -> str:
    """Names a dialogue: its kind, who argues for what, who asks, and the position it is held in."""
    if len(sides) == 2:
        named = f"debate/{sides['correct']} v {sides['incorrect']}"
    else:
        ((side, name),) = sides.items()
        named = f"consultancy/{name} {side}"
    asked = f", {asker} asks" if asker is not None else ""
    return f"{named}{asked}{f', {position}' if position is not None else ''}"
