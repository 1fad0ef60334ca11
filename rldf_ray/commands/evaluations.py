"""The evaluations of `rldf eval`: every folder of `rldf_ray/evaluate` that has a `command.py`.

A command module has PLACE, its place in `rldf eval --help`, and COMMANDS: functions, or Typer
groups, by the name that follows `rldf eval`. It is imported whenever `rldf` starts, so what needs
Ray, torch or transformers is imported inside its functions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer

from rldf_ray import evaluate


def add_evaluations(group: typer.Typer, others: Iterable[Any] = ()) -> None:
    """Add the commands of every evaluation, and of other command modules, in order of PLACE.

    Raises:
        ValueError: two modules have a command of the same name.
    """
    owners: dict[str, str] = {}
    for module in sorted([*_command_modules(), *others], key=lambda module: int(module.PLACE)):
        for name, command in module.COMMANDS.items():
            if name in owners:
                raise ValueError(
                    f"`rldf eval {name}` is defined by both {owners[name]} and {module.__name__}; "
                    "name one of them differently in its COMMANDS"
                )
            owners[name] = module.__name__
            if isinstance(command, typer.Typer):
                group.add_typer(command, name=name)
            else:
                group.command(name)(command)


def _command_modules() -> list[Any]:
    # Folders without a command (perplexity, ranking, held_out) are parts of other evaluations.
    names = [
        f"{evaluate.__name__}.{folder.name}.command"
        for folder in pkgutil.iter_modules(evaluate.__path__)
        if folder.ispkg
    ]
    return [import_module(name) for name in names if find_spec(name) is not None]
