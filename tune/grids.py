"""What a sweep compares: an axis at a time, everything else at the plan's own values.

    axes --> settings (a point of a figure and a repeat) --> trials (distinct plans)

Settings that mean the same plan, such as the plan itself on every axis, are one trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from rldf_ray.plan import RUNTIME_FIELDS, Plan, PlanError, load_plan, plan_fields
from rldf_ray.protocols.known import source_names
from rldf_ray.protocols.source import UNREAD
from rldf_ray.storage.json_text import exact_json
from rldf_ray.storage.yaml_text import read_yaml

# The paper's grids (paper 4.3, Figures 8-12), by the names the paper gives its axes.
PAPER_GRIDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "roles": ("debate.debaters", (2, 3, 4, 5)),
    "rounds": ("debate.rounds", (1, 3, 5, 10)),
    "dataset_size": ("debate.debates", (1000, 3000, 5000, 7500, 10000)),
    "topics": ("topics.per_bias_type", (500, 1000, 1500, 2000, 2500)),
}
FIGURE_8 = tuple(PAPER_GRIDS)
# Which items a trial is measured on, besides the seed.
ITEM_FIELDS = ("evaluate.bbq", "evaluate.items_per_category")


@dataclass(frozen=True, slots=True)
class Axis:
    """A field of the plan and the values it takes."""

    name: str
    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of a figure: `axis` at `value`, `repeat` counted from 0."""

    axis: str
    field: str
    value: Any
    repeat: int
    trial: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan to be run once; `key` is its digest."""

    key: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Sweep:
    """All settings, the trials behind them, and the most topics any of them asks for."""

    axes: tuple[Axis, ...]
    settings: tuple[Setting, ...]
    trials: tuple[Trial, ...]
    most_topics: int


def axes_of(over: Sequence[str], plan: Plan) -> list[Axis]:
    """The axes that `--over` names: `roles`, `roles=2,3`, `figure8`, `ppo.beta=0.01,0.1`.

    Raises:
        PlanError: no such axis or field, an axis without a grid of its own and no values, or one
            whose values are no different runs.
    """
    names = [name for text in over for name in (FIGURE_8 if text == "figure8" else (text,))]
    axes = [_axis(name, plan) for name in names]
    if len({axis.field for axis in axes}) < len(axes):
        raise PlanError(f"--over {' '.join(over)}: a field is named twice")
    for axis in axes:
        _check(axis, plan)
    return axes


def _check(axis: Axis, plan: Plan) -> None:
    """Its values are different, and runs that have them differ in what they compute alone."""
    if axis.field == "seed":
        raise PlanError(
            "--over seed: a seed is no setting; --repeats N runs every setting with N seeds"
        )
    if axis.field in RUNTIME_FIELDS:
        raise PlanError(
            f"--over {axis.name}: {axis.field} is how a run is carried out, and all of its values "
            "are one trial; give it by --set"
        )
    if axis.field in ITEM_FIELDS:
        raise PlanError(
            f"--over {axis.name}: {axis.field} says on which items a trial is measured, and trials "
            "are compared on the same ones; give it by --set"
        )
    protocol = plan.debate.protocol
    if axis.field in UNREAD and protocol in source_names():
        raise PlanError(
            f"--over {axis.name}: {axis.field} is not read with debate.protocol={protocol}, so all "
            f"trials would be the same; fields of its own are in debate.settings (`rldf study "
            f"fields {protocol}`)"
        )
    for place, value in enumerate(axis.values):
        if value in axis.values[:place]:
            raise PlanError(f"--over {axis.name}: the value {value!r} is named twice")


def _axis(text: str, plan: Plan) -> Axis:
    name, given, values = text.partition("=")
    if name == "teacher":
        return Axis(name, name, _values(text, values) if given else _both_modes(plan))
    field, grid = PAPER_GRIDS.get(name, (name, ()))
    if field not in {known.path for known in plan_fields()}:
        raise PlanError(
            f"--over {text!r}: allowed are figure8, {', '.join(PAPER_GRIDS)}, teacher, or a field "
            "of the plan with values, e.g. ppo.beta=0.01,0.1 (`rldf plan fields` lists them)"
        )
    if not given and not grid:
        raise PlanError(f"--over {text!r}: this field has no grid of its own; give {name}=V1,V2")
    return Axis(name, field, _values(text, values) if given else grid)


def _values(text: str, values: str) -> tuple[Any, ...]:
    try:
        found = read_yaml(f"[{values}]")
    except yaml.YAMLError as error:
        raise PlanError(f"--over {text!r}: the values are not a list of YAML values") from error
    if not found:
        raise PlanError(f"--over {text!r}: no values")
    return tuple(found)


def _both_modes(plan: Plan) -> tuple[Any, ...]:
    if plan.teacher is None:
        raise PlanError(
            "--over teacher compares self-reflection with the plan's teacher, and the plan has "
            "none: give --over teacher=null,vllm:MODEL or --set teacher=..."
        )
    return (None, plan.teacher)


def sweep_of(name: str, overrides: Sequence[str], over: Sequence[str], repeats: int) -> Sweep:
    """The sweep of plan `name`; repeat r of every setting has the plan's seed plus r.

    Raises:
        PlanError: an axis, a value or the plan is wrong.
    """
    base = load_plan(name, overrides)
    axes = axes_of(over, base)
    found = [
        (axis, value, repeat, _plan(name, overrides, axis, value, base.seed + repeat))
        for axis in axes
        for value in axis.values
        for repeat in range(repeats)
    ]
    trials = {plan.digest(): Trial(plan.digest(), plan) for *_, plan in found}
    return Sweep(
        tuple(axes),
        tuple(
            Setting(axis=a.name, field=a.field, value=v, repeat=r, trial=plan.digest())
            for a, v, r, plan in found
        ),
        tuple(trials.values()),
        max(trial.plan.topics.per_bias_type for trial in trials.values()),
    )


def _plan(name: str, overrides: Sequence[str], axis: Axis, value: Any, seed: int) -> Plan:
    return load_plan(
        name, [*overrides, f"seed={seed}", f"{axis.field}={exact_json(value, axis.field)}"]
    )


def by_value(sweep: Sweep, axis: Axis) -> Iterator[tuple[Any, list[str]]]:
    """The values of an axis with the keys of their trials, one a repeat."""
    for value in axis.values:
        keys = [s.trial for s in sweep.settings if s.axis == axis.name and s.value == value]
        yield value, keys
