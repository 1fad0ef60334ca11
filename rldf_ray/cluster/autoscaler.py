"""What an autoscaler may add to the cluster; Ray itself reports the nodes that there are.

With `ray up` the kinds of nodes stand in the file that Ray's monitor on the head is started with,
and a job that is submitted to the cluster runs beside it. Elsewhere nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from rldf_ray.storage.yaml_text import read_yaml

OPTION = "--autoscaling-config="


@dataclass(frozen=True)
class NodeKind:
    """A kind of node: what one has, by Ray's names of resources, and how many there may be."""

    resources: Mapping[str, float]
    most: int


@dataclass(frozen=True)
class Scaling:
    """The kinds of workers that an autoscaler may start, and how many of all kinds together."""

    kinds: tuple[NodeKind, ...] = ()
    most: int = 0


NO_SCALING = Scaling()


def scaling_of(gcs_address: str) -> Scaling:
    """What scales the cluster at `gcs_address`; nothing is known of it unless this is its head."""
    for command in _commands():
        if f"--gcs-address={gcs_address}" in command:
            file = next((word for word in command if word.startswith(OPTION)), None)
            if file is not None:
                return scaling_in(Path(file.removeprefix(OPTION)).expanduser())
    return NO_SCALING


def scaling_in(file: Path) -> Scaling:
    """The kinds of workers in a cluster's file; of a file that cannot be read, none.

    A provider that learns what a machine has when it starts, as that of machines of one's own, says
    nothing of it before.
    """
    try:
        config = read_yaml(file.read_text(encoding="utf-8"))
        kinds: Mapping[str, Any] = config["available_node_types"]
        head, most = config.get("head_node_type"), config.get("max_workers")
        workers = tuple(
            NodeKind(kind["resources"], _least(kind.get("max_workers"), most))
            for name, kind in kinds.items()
            if name != head and kind.get("resources")
        )
        return Scaling(workers, _least(sum(kind.most for kind in workers), most))
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError):
        return NO_SCALING


def _least(*limits: int | None) -> int:
    return min((limit for limit in limits if limit is not None), default=0)


def _commands() -> Iterator[list[str]]:
    """The command lines of Ray's monitors on this machine."""
    for process in psutil.process_iter(["cmdline"]):
        command: list[str] = process.info["cmdline"] or []
        if any(word.endswith("monitor.py") for word in command):
            yield command
