"""What is a path on this machine is no address: said by every command, in one place.

An address made a path loses a slash, and a command would write into a folder `s3:`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from rldf_ray.storage.object_store import local_path


def refuse_addresses(app: typer.Typer) -> None:
    """Have the commands below `app` refuse an address for every argument that is a path."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _checked(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            refuse_addresses(group.typer_instance)


def _checked(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def checked(**given: Any) -> Any:
        for value in given.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Path):
                    local_path(one)
        return command(**given)

    return checked
