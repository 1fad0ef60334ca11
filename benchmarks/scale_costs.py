"""Measured costs that `benchmarks.scale_model` scales up. Every figure is read, none is assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rldf_ray.errors import UserError


class CostsError(UserError):
    """A file with measurements is missing or lacks what is needed."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What shapes a run's debates; `slots` requests are decoded together by an engine."""

    debates: int
    rounds: int
    debaters: int
    in_flight: int
    slots: int
    engines: int

    @classmethod
    def of(cls, path: Path) -> Shape:
        """From a run's plan.yaml, of any version."""
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
        debate, engines = plan["debate"], plan["engines"]
        names = ("debates", "rounds", "debaters", "in_flight")
        sizes = {name: debate[name] for name in names}
        return cls(**sizes, slots=engines["max_num_seqs"], engines=engines["count"])

    @property
    def statements(self) -> int:
        return self.debates * self.rounds * self.debaters

    @property
    def requests(self) -> int:
        """Statements, a score of each, a ranking of each round."""
        return 2 * self.statements + self.debates * self.rounds


@dataclass(frozen=True, kw_only=True)
class RunMeasured:
    """What a run folder says of its debates: shape, seconds, tokens of all requests."""

    shape: Shape
    seconds: float
    read: int
    generated: int
    audit_seconds: float
    audit_read: int

    @classmethod
    def of(cls, folder: Path) -> RunMeasured:
        """Read a finished run's report.json and plan.yaml.

        Raises:
            CostsError: there is no report, or its debates or audit have not finished.
        """
        path = folder / "report.json"
        if not path.exists():
            raise CostsError(f"{path} does not exist: give the folder of a finished run")
        stages = {
            stage["name"]: stage for stage in json.loads(path.read_text(encoding="utf-8"))["stages"]
        }
        if not {"debates", "audit"} <= stages.keys():
            raise CostsError(f"{path}: the stages debates and audit have not both finished")
        debates, audit = stages["debates"], stages["audit"]
        return cls(
            shape=Shape.of(folder / "plan.yaml"),
            seconds=debates["seconds"],
            read=_read(debates["tokens"]),
            generated=debates["tokens"]["generated"],
            audit_seconds=audit["seconds"],
            audit_read=_read(audit["tokens"]),
        )


@dataclass(frozen=True)
class PpoMeasured:
    """Seconds of one PPO step of `batch` episodes on one engine and one worker."""

    batch: int
    rollout_s: float
    train_s: float
    sync_s: float

    @classmethod
    def of(cls, path: Path) -> PpoMeasured | None:
        """From what `python -m benchmarks.ppo` wrote; None if it is not there."""
        if not path.exists():
            return None
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        full = figures["full"]
        names = ("rollout_seconds", "train_seconds", "sync_seconds")
        rollout, train, sync = (float(full[name]) for name in names)
        # The parts are means of a step and episodes/s covers the whole of it.
        batch = round(full["episodes_per_s"] * (rollout + train + sync))
        return cls(batch, rollout, train, sync)


@dataclass(frozen=True)
class Costs:
    """Seconds an engine needs when it is full, and of the driver.

    Attributes:
        read_s: per prompt token that the prefix cache did not save.
        generate_s: per generated token, with as many requests in flight as the run had.
        alone_s: per generated token of a request alone, which no number of engines undercuts.
        driver_s: the driver's processor time per refereed statement; None where not measured.
    """

    read_s: float
    generate_s: float
    alone_s: float
    driver_s: float | None


def costs_of(run: RunMeasured, alone_tokens_per_s: float, orchestration: Path) -> Costs:
    """The audit generates a token a request, so it tells what reading costs; debates the rest."""
    read_s = run.audit_seconds / run.audit_read
    generate_s = (run.seconds - read_s * run.read) / run.generated
    if generate_s <= 0:
        raise CostsError(
            "the run's debates took less than reading their prompts at the speed of its audit: "
            "something else used the machine; measure again"
        )
    return Costs(read_s, generate_s, 1 / alone_tokens_per_s, _driver_s(orchestration))


def _driver_s(path: Path) -> float | None:
    """The driver's share alone: engines have machines of their own."""
    if not path.exists():
        return None
    sizes = json.loads(path.read_text(encoding="utf-8"))["figures"]["sizes"]
    return float(sizes[-1]["driver_cpu_ms_a_statement"]) / 1000


def _read(tokens: Mapping[str, Any]) -> int:
    return int(tokens["prompt"] - tokens["cached"])
