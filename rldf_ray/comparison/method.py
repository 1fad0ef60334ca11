"""What a method is, and which there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rldf_ray.comparison import methods as folder
from rldf_ray.comparison.thinking import Depends, Scene, Think, as_said
from rldf_ray.models.base import Message
from rldf_ray.plan import Plan, PlanError
from rldf_ray.plan.speaker import Backend
from rldf_ray.stages.run import StageFunction
from rldf_ray.stages.table import STAGES

Last = Literal["sft", "ppo", "dpo", "kto"]
Instruct = Callable[[Plan, int, Scene], Message]
"""Of the plan, the seed of the repeat and the scene."""


@dataclass(frozen=True)
class Training:
    """What a trained method is made by.

    Attributes:
        source: the plan whose topics and debates make the data, with the comparison's own seed.
        last: the stage whose model answers.
        stages_of: what each stage's name stands for.
        data: what its data is called where the same debates become other data; "" is RLDF's.
    """

    source: Plan
    last: Last
    stages_of: Mapping[str, StageFunction] = field(default_factory=lambda: STAGES)
    data: str = ""


@dataclass(frozen=True)
class Method:
    """One row of the tables.

    Attributes:
        name: what files call it; unique.
        title: what tables call it.
        training: None for the model as it is.
        think: what it says before it answers; None if nothing.
        instruct: the message that every question follows; None if it is asked without one.
        looks_up: the digest of the texts that it searches; None if it searches none.
        depends: what its thoughts depend on, besides the model, its name, the seed and the scenes.
        begins_as: the method whose first thoughts it shares word for word; None where it has its
            own.
    """

    name: str
    title: str
    training: Training | None = None
    think: Think | None = None
    instruct: Instruct | None = None
    looks_up: str | None = None
    depends: Depends = as_said
    begins_as: str | None = None


Rows = Callable[[Plan, Sequence[str]], list[Method]]


def known_methods() -> tuple[str, ...]:
    """The files of `comparison/methods`, in the order of their rows."""
    names = [module.name for module in pkgutil.iter_modules(folder.__path__)]
    return tuple(sorted(names, key=lambda name: (_module(name).PLACE, name)))


def methods_of(
    plan: Plan, names: Sequence[str] | None, teachers: Sequence[str], controls: bool = False
) -> list[Method]:
    """The rows of a comparison.

    Args:
        names: files of `comparison/methods`; None is all that are no control and not on request.
        controls: the controls are rows, too.
        teachers: of teacher-student; none are the plan's own, if it has one.

    Raises:
        PlanError: no such method, one without what it needs, none at all, or teachers that would
            share their files.
    """
    known = known_methods()
    wrong = [name for name in names or () if name not in known]
    if wrong:
        raise PlanError(f"--method {', '.join(wrong)}: allowed are {', '.join(known)}")
    for teacher in teachers:
        _check_backend(teacher)
    methods = []
    named = names or [n for n in known if not (_is_control(n) or _is_on_request(n))]
    added = [name for name in known if controls and _is_control(name)]
    in_order = sorted({*named, *added}, key=known.index) if controls else dict.fromkeys(named)
    for name in in_order:
        rows = _module(name).rows(plan, teachers)
        if names and not rows:
            raise PlanError(f"--method {name}: {_module(name).NEEDS}")
        methods += rows
    used = {method.training.source.teacher for method in methods if method.training is not None}
    idle = [teacher for teacher in teachers if teacher not in used]
    if idle:
        raise PlanError(
            f"--teacher {', '.join(idle)}: none of the methods asked for debates with a teacher of "
            "its own; add --method rldf_teacher"
        )
    return methods


def _check_backend(teacher: str) -> None:
    try:
        TypeAdapter(Backend).validate_python(teacher)
    except ValidationError as error:
        raise PlanError(f"--teacher {teacher}: {error.errors()[0]['msg']}") from error


def _is_control(name: str) -> bool:
    return getattr(_module(name), "CONTROL", False)


def _is_on_request(name: str) -> bool:
    return getattr(_module(name), "ON_REQUEST", False)


def _module(name: str) -> Any:
    return import_module(f"{folder.__name__}.{name}")
