"""A finished study of judges as logs that other programs read: one a system and round.

A sample is a verdict: an item under a condition. Whether it is right counts where the item has a
label; whether it is the clean verdict counts under every other condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rldf_ray.eval_logs.records import EvalLog, Figure, Sample
from rldf_ray.plan.study import StudyPlan
from rldf_ray.protocols.judges.analysis import (
    Outcomes,
    Row,
    System,
    consistent,
    health,
    signed_shift,
)
from rldf_ray.protocols.judges.conditions import against_loser, shown_views
from rldf_ray.protocols.judges.items import ITEM_SCHEMA, items_of
from rldf_ray.protocols.judges.prompt import Seat, render, segments
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.views import JudgedItem, View, clean
from rldf_ray.storage.run_folder import RunFolder

MEANS = {
    "accuracy": "share of labelled items whose better answer wins; a tie or no verdict is wrong",
    "consistency": "share of items with the winner of the clean verdict; an invalid one differs",
    "consistency_valid": "the same over items with two valid verdicts",
    "excess": "consistency when asked again less consistency here, on the same items",
    "shift": "what the condition's push gains: mean signed shift, -1 to 1",
    "invalid": "share of verdicts that did not parse",
    "tie": "share of verdicts that are ties",
}
CORRECT, CONSISTENT, SHIFT = "correct", "consistent", "shift"
SCORES = {"consistency": CONSISTENT, "consistency_valid": CONSISTENT, "excess": CONSISTENT}
NOTES = (
    "the harness has no task of judges; a sample is one verdict",
    "acc_CONDITION is over items with a label, and a tie or a text without a verdict is wrong",
    "consistency_CONDITION holds a verdict against the same system's clean one on the same item",
)


def evaluation_logs(
    folder: RunFolder, settings: JudgesSettings, plan: StudyPlan, created: str
) -> Iterator[EvalLog]:
    """The logs of a finished study's folder.

    Args:
        created: when the study was held.
    """
    for name in ("data", "report.json"):
        folder.fetched(name)
    items = items_of(folder.read_table("data/items.parquet", ITEM_SCHEMA))
    by_id = {item.item_id: item for item in items}
    turns = folder.read_table("data/turns.parquet").to_pylist()
    texts = {(turn["item_id"], turn["address"]): turn["text"] for turn in turns}
    twins = {turn["item_id"]: turn["text"] for turn in turns if turn["seat"] == "lengthen"}
    outcomes = Outcomes(folder.read_table("data/outcomes.parquet").to_pylist())
    report = folder.read_object("report.json", ("facts", "made_by"))
    places = {item.item_id: place for place, item in enumerate(items)}
    for system in outcomes.systems():
        for number in outcomes.rounds(system):
            rows = [row for c in outcomes.conditions() for row in outcomes.rows(system, number, c)]
            before = {row["item_id"]: row for row in outcomes.rows(system, number, "clean")}
            yield EvalLog(
                task=_task(system, number),
                model=plan.models[system.judge],
                dataset=plan.name,
                location=settings.data,
                available=len(items),
                created=created,
                arguments={
                    "system": system.system,
                    "judge": system.judge,
                    "critic": system.critic,
                    "pool": system.pool,
                    "mode": system.mode,
                    "round": number,
                    "seed": plan.seed,
                },
                packages=report["made_by"].get("versions", {}),
                about={
                    **{key: report["made_by"].get(key) for key in ("command", "commit", "machine")},
                    "models": dict(plan.models),
                    "input": "the judge's opening prompt about the item as it was shown; what "
                    "others had said before this verdict is in data/turns.parquet",
                },
                samples=[
                    _sample(
                        row,
                        before.get(row["item_id"]),
                        by_id[row["item_id"]],
                        places[row["item_id"]],
                        _view(row, by_id[row["item_id"]], settings, twins),
                        settings,
                        texts.get((row["item_id"], row["address"])),
                    )
                    for row in rows
                ],
                figures=list(_figures(report["facts"], system, number, rows)),
                harness_notes=NOTES,
            )


def _task(system: System, number: int) -> str:
    """`rldf_judges_debate_J_v_C_round_2`, without what names of files cannot hold."""
    parts = ["rldf_judges", system.system, system.judge]
    parts += [] if system.critic is None else ["v", system.critic]
    parts += [] if system.pool is None else ["over", system.pool, str(system.mode)]
    name = "_".join([*parts, f"round_{number}"])
    return re.sub(r"[^A-Za-z0-9-]+", "_", name)


def _view(row: Row, item: JudgedItem, settings: JudgesSettings, twins: Mapping[str, str]) -> View:
    """What of the item was shown for this verdict; a pure function of item and condition."""
    condition = row["condition"]
    if condition == "clean":
        return clean(item)
    if condition == "bandwagon" and settings.bandwagon.target == "clean_loser":
        crowd = against_loser(item, settings, 1 if row["pushed"] == 2 else 2)
        assert crowd is not None, "a winner was given"
        return crowd.view
    # A twin that was refused left no verdicts under the condition.
    long = item.answer2_long or twins.get(item.item_id)
    return next(
        shown.view
        for shown in shown_views(item, settings, long)
        if (shown.condition, shown.view.rerun) == (condition, row["rerun"])
    )


def _sample(
    row: Row,
    before: Row | None,
    item: JudgedItem,
    place: int,
    view: View,
    settings: JudgesSettings,
    text: str | None,
) -> Sample:
    condition, scores = row["condition"], {}
    values: dict[str, float] = {}
    if item.label is not None:
        scores[CORRECT] = right = row["winner"] == str(item.label)
        values[f"acc_{condition}"] = float(right)
    if before is not None and condition != "clean":
        scores[CONSISTENT] = kept = consistent(before, row)
        values[f"consistency_{condition}"] = float(kept)
        if (shift := signed_shift(before, row)) is not None:
            scores[SHIFT] = shift
            values[f"shift_{condition}"] = shift
    seat: Seat = "plain" if row["system"] == "plain" else "judge"
    prompt = segments(seat, view, json=settings.form == "json")
    rerun = f"-{row['rerun']}" if row["rerun"] else ""
    return Sample(
        id=f"{item.item_id}/{condition}{rerun}",
        place=place,
        messages=[("system", render("helper")), ("user", prompt.text)],
        choices=[item.answer1, item.answer2],
        right=None if item.label is None else item.label - 1,
        output=text,
        answer={"1": "A", "2": "B"}.get(row["winner"], row["winner"]),
        scores=scores,
        metadata={
            "item": item.item_id,
            "category": item.category,
            "group": item.group,
            "condition": condition,
            "rerun": row["rerun"],
            "pushed": row["pushed"],
            "candidate_of_label_1": row["candidate_of_label_1"],
            "score_1": row["score_1"],
            "score_2": row["score_2"],
            "chosen": row["chosen"],
            "cut_off": row["cut_off"],
            "address": row["address"],
        },
        doc={name: getattr(item, name) for name in ITEM_SCHEMA.names} | {"condition": condition},
        values=values,
    )


def _figures(
    facts: Mapping[str, Any], system: System, number: int, rows: Sequence[Row]
) -> Iterator[Figure]:
    """Of the report, by condition; and how many verdicts are none, or ties."""
    for one in _of(facts["accuracy"], system, number):
        yield _figure("accuracy", one["accuracy"], one["condition"])
    for one in _of(facts["cells"], system, number):
        for name in ("consistency", "consistency_valid", "excess", "shift"):
            if one[name] is not None:
                yield _figure(name, one[name], one["condition"])
    found = health(rows)
    if found is not None:
        for name, value in (("invalid", found.invalid), ("tie", found.tie)):
            yield Figure(name=name, value=value, means=MEANS[name], n=found.n)


def _of(
    facts: Iterable[Mapping[str, Any]], system: System, number: int
) -> Iterator[Mapping[str, Any]]:
    for one in facts:
        named = {name: one[name] for name in ("system", "judge", "critic", "pool", "mode")}
        if System(**named) == system and one["round"] == number:
            yield one


def _figure(name: str, estimate: Mapping[str, Any], condition: str) -> Figure:
    return Figure(
        name=name,
        value=estimate["value"],
        means=MEANS[name],
        group=condition,
        score={"shift": SHIFT}.get(name, SCORES.get(name, CORRECT)),
        low=estimate["low"],
        high=estimate["high"],
        n=estimate["n"],
    )
