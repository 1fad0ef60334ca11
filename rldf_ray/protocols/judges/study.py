"""The study of judges: every system under every condition, for each item (the paper, section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.judges.conditions import Shown, against_loser, long_twin, shown_views
from rldf_ray.protocols.judges.estimate import estimate as estimate
from rldf_ray.protocols.judges.exported import evaluation_logs as evaluation_logs
from rldf_ray.protocols.judges.items import item_table as item_table
from rldf_ray.protocols.judges.items import read_items
from rldf_ray.protocols.judges.judging import Judgement, Judging
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.summary import summary as summary
from rldf_ray.protocols.judges.verdict import Winner, parse_scores_loosely
from rldf_ray.protocols.judges.views import JudgedItem, clean
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import Held, StudyCast

TITLE = "How biased judges are: alone, in debate, and above a pool"
SETTINGS = JudgesSettings

OUTCOMES = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("condition", pa.string()),
        pa.field("rerun", pa.int16()),
        pa.field("system", pa.string()),
        pa.field("judge", pa.string()),
        pa.field("critic", pa.string()),
        pa.field("pool", pa.string()),
        pa.field("mode", pa.string()),
        pa.field("round", pa.int16()),
        pa.field("address", pa.string()),
        # By label, as the judge wrote them; null where the verdict is invalid.
        pa.field("score_1", pa.float64()),
        pa.field("score_2", pa.float64()),
        # The candidate: "1", "2", "tie", or null.
        pa.field("winner", pa.string()),
        pa.field("candidate_of_label_1", pa.int8()),
        pa.field("pushed", pa.int8()),
        pa.field("chosen", pa.string()),
        pa.field("cut_off", pa.bool_()),
        # As the paper's code would have read the same text.
        pa.field("loose_1", pa.float64()),
        pa.field("loose_2", pa.float64()),
    ]
)

TABLES = {"outcomes": OUTCOMES}


def models(settings: JudgesSettings) -> Sequence[str]:
    return settings.models()


def items(settings: JudgesSettings, seed: int) -> list[JudgedItem]:
    return read_items(settings.data, settings.items_per_category, seed)


async def hold(item: JudgedItem, cast: StudyCast) -> Held:
    """All systems under all conditions; a judge's opening about a view is asked for once."""
    settings: JudgesSettings = cast.settings
    seats = Seats(item=item.item_id, models=cast.models, seed=cast.seed)
    clean_view = Shown("clean", "clean", clean(item))
    undisturbed = Judging(seats, settings, "clean", clean_view.view)
    async with asyncio.TaskGroup() as group:
        begun = [group.create_task(_systems(clean_view, undisturbed, settings))]
        long = await long_twin(item, settings, seats)
        for shown in shown_views(item, settings, long):
            judging = Judging(seats, settings, shown.key, shown.view)
            begun.append(group.create_task(_systems(shown, judging, settings)))
        if "bandwagon" in settings.conditions and settings.bandwagon.target == "clean_loser":
            begun += [
                group.create_task(_against_loser(item, undisturbed, judge, settings))
                for judge in settings.alone
            ]
    rows = [row for task in begun for row in task.result()]
    return Held(turns=seats.turns, tables={"outcomes": rows})


async def _against_loser(
    item: JudgedItem, undisturbed: Judging, judge: str, settings: JudgesSettings
) -> list[dict[str, Any]]:
    """The judge's systems under a crowd that holds what the judge itself held the worse."""
    opening = await undisturbed.single(judge)
    winner: Winner | None = None
    if opening.scores is not None:
        winner = undisturbed.view.candidate(opening.scores.winner)
    shown = against_loser(item, settings, winner)
    if shown is None:
        return []
    judging = Judging(undisturbed.seats, settings, shown.key, shown.view)
    return await _systems(shown, judging, settings, only=judge)


async def _systems(
    shown: Shown, judging: Judging, settings: JudgesSettings, only: str | None = None
) -> list[dict[str, Any]]:
    """The outcomes of all systems about one view, or of those with one judge."""
    asked: list[tuple[dict[str, Any], asyncio.Task[list[Judgement]]]] = []
    async with asyncio.TaskGroup() as group:
        for system in _all_systems(settings):
            if only in (None, system["judge"]):
                asked.append((system, group.create_task(_held(judging, **system))))
    return [
        _outcome(judging.seats.item, shown, system, number, judgement)
        for system, task in asked
        for number, judgement in enumerate(task.result())
    ]


def _all_systems(settings: JudgesSettings) -> Iterator[dict[str, Any]]:
    """What is held for each view: system, judge, and whatever else names it."""
    for judge in settings.alone:
        yield {"system": "single", "judge": judge}
    if settings.plain:
        yield from ({"system": "plain", "judge": judge} for judge in settings.alone)
    for judge, critic in settings.debates:
        yield {"system": "debate", "judge": judge, "critic": critic}
    for judge, pool in settings.above_pools():
        for mode in settings.meta.modes:
            yield {"system": "meta", "judge": judge, "pool": pool, "mode": mode}


async def _held(
    judging: Judging,
    system: str,
    judge: str,
    critic: str | None = None,
    pool: Sequence[str] = (),
    mode: Any = None,
) -> list[Judgement]:
    """One system's verdicts, by round."""
    if critic is not None:
        return await judging.debate(judge, critic)
    if pool:
        return [await judging.meta(judge, pool, mode)]
    return [await judging.single(judge, "plain" if system == "plain" else "judge")]


def _outcome(
    item: str, shown: Shown, system: Mapping[str, Any], number: int, judgement: Judgement
) -> dict[str, Any]:
    scores, view = judgement.scores, shown.view
    loose = parse_scores_loosely(judgement.text)
    pushed = 2 if shown.condition == "verbosity" else None
    if view.bandwagon is not None:
        pushed = int(view.candidate(view.bandwagon.label))
    return {
        "item_id": item,
        "condition": shown.condition,
        "rerun": view.rerun,
        "system": system["system"],
        "judge": system["judge"],
        "critic": system.get("critic"),
        "pool": "+".join(system["pool"]) if "pool" in system else None,
        "mode": system.get("mode"),
        "round": number,
        "address": judgement.turn.address,
        "score_1": None if scores is None else scores.one,
        "score_2": None if scores is None else scores.two,
        "winner": None if scores is None else str(view.candidate(scores.winner)),
        "candidate_of_label_1": view.candidate(1),
        "pushed": pushed,
        "chosen": judgement.chosen,
        "cut_off": judgement.turn.cut_off,
        "loose_1": None if loose is None else loose.one,
        "loose_2": None if loose is None else loose.two,
    }
