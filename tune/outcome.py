"""What a sweep found: each setting's mean over repeats, the best ones, and what was reused."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.apps.tune.grids import Axis, Sweep, by_value
from rldf_ray.plan import Plan, load_plan
from rldf_ray.storage.json_text import exact_json

Results = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of an axis.

    Attributes:
        mean, sd: of what was measured, over `n` repeats; the sample's deviation, None for one.
        whole: all of its repeats were measured. Of others the mean is over those that were.
    """

    value: Any
    n: int
    mean: float
    sd: float | None
    whole: bool


def names_of(sweep: Sweep) -> list[str]:
    """`overall`, then the bias types: what there is a page for."""
    types = sweep.trials[0].plan.bias_types
    return ["overall", *(Path(name).stem for name in types)]


def points(sweep: Sweep, results: Results, axis: Axis, name: str, rung: str) -> list[Point]:
    """The values of `axis` for which `name` was measured at `rung`."""
    found = []
    for value, trials in by_value(sweep, axis):
        measured = [results[key]["measured"].get(rung, {}) for key in trials if key in results]
        values = [m[name] for m in measured if m.get(name) is not None]
        if values:
            sd = statistics.stdev(values) if len(values) > 1 else None
            whole = len(values) == len(trials)
            found.append(
                Point(value=value, n=len(values), mean=statistics.fmean(values), sd=sd, whole=whole)
            )
    return found


def best(found: Sequence[Point]) -> Point | None:
    """The highest mean; of equal ones the first, which is the smaller in the paper's grids.

    Only values with all repeats: means over other repeats, of other seeds, do not compare.
    """
    whole = (point for point in found if point.whole)
    return max(whole, key=lambda point: point.mean, default=None)


def best_plan(
    name: str, overrides: Sequence[str], sweep: Sweep, results: Results, rung: str
) -> Plan:
    """The plan with every axis at its best value over all bias types, and the plan's own seed.

    An axis without a value that has all of its repeats stays as the plan has it.
    """
    values: dict[str, Any] = {}
    for axis in sweep.axes:
        found = best(points(sweep, results, axis, "overall", rung))
        if found is not None:
            values[axis.field] = found.value
    chosen = [f"{field}={exact_json(value, field)}" for field, value in values.items()]
    plan = load_plan(name, [*overrides, *chosen])
    return plan.model_copy(update={"name": f"{plan.name}-best"})


def reuse(sweep: Sweep, results: Results) -> dict[str, Any]:
    """Generated debate tokens: of every setting run by itself, and of what was really made."""
    settings = [s for s in sweep.settings if s.trial in results]
    separately = sum(results[s.trial]["tokens"]["held"] for s in settings)
    made = sum(result["tokens"]["made"] for result in results.values())
    stages = [stage for result in results.values() for stage in result["fetched"]]
    return {
        "settings": len(settings),
        "trials": len(results),
        "separately_tokens": separately,
        "made_tokens": made,
        "share_made": made / separately if separately else None,
        "stages_from_store": {stage: stages.count(stage) for stage in sorted(set(stages))},
    }


def outcome(
    sweep: Sweep, results: Results, rung: str, stopped: Collection[str] = ()
) -> dict[str, Any]:
    """Everything the report says, as JSON.

    Args:
        stopped: trials that halving has ended before `rung`.
    """
    names = names_of(sweep)
    axes: dict[str, Any] = {}
    for axis in sweep.axes:
        rows = {name: points(sweep, results, axis, name, rung) for name in names}
        axes[axis.name] = {
            "field": axis.field,
            "best": {name: p.value for name, found in rows.items() if (p := best(found))},
            "points": {name: [_row(point) for point in found] for name, found in rows.items()},
        }
    whole = {key for key, result in results.items() if rung in result["measured"]}
    ended = set(stopped) - whole
    return {
        "axes": axes,
        "incomplete": list(_incomplete(sweep, whole)),
        "reuse": reuse(sweep, results),
        "stopped_early": sorted(ended),
        "unfinished": sorted(set(results) - whole - ended),
        "not_run": sorted({trial.key for trial in sweep.trials} - set(results)),
    }


def _incomplete(sweep: Sweep, whole: Collection[str]) -> Iterator[dict[str, Any]]:
    """Values without all of their repeats, none of which is a best one, and how many each has."""
    for axis in sweep.axes:
        for value, trials in by_value(sweep, axis):
            n = sum(key in whole for key in trials)
            if n < len(trials):
                yield {"axis": axis.name, "value": value, "n": n}


def _row(point: Point) -> dict[str, Any]:
    return {"value": point.value, "n": point.n, "mean": point.mean, "sd": point.sd}
