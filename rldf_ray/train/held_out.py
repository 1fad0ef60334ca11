"""On how many held-out pairs a model is right, topic by topic, as its accuracy's interval draws.

A topic's pairs are of few statements, each in many pairs: they are right or wrong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from rldf_ray.storage.results import Right

HELD_OUT = "held_out.json"


def right_by_topic(topics: Sequence[str], margins: Sequence[float]) -> Right:
    """A pair is right where its chosen side is ahead, by a margin above 0."""
    counts: Right = {}
    for topic, margin in zip(topics, margins, strict=True):
        right, number = counts.get(topic, (0, 0))
        counts[topic] = right + (margin > 0), number + 1
    return counts


def write_right(out: str | Path, right: Right) -> None:
    """Into the job's folder, for the stage that began it; rank 0 alone calls this."""
    (Path(out) / HELD_OUT).write_bytes(msgspec.json.encode(right))


def read_right(path: Path) -> Right | None:
    """What a job left in `path`; None where it held nothing out, or of an earlier version."""
    return msgspec.json.decode(path.read_bytes(), type=Right) if path.exists() else None


def keeping_margins(trainer: type[Any]) -> type[Any]:
    """TRL's trainer of reward models, which logs what all held-out pairs have, each counted once.

    By itself it logs means of its batches' means, in which a pair of a smaller last batch weighs
    more.
    """

    class Keeping(trainer):  # type: ignore[misc]
        rewards: list[tuple[float, float]]

        @property
        def margins(self) -> list[float]:
            """How much more reward each pair's chosen side has than the rejected one.

            They are of the last evaluation, in the order of the data set, on all workers.
            """
            return [chosen - rejected for chosen, rejected in self.rewards]

        def evaluate(self, *given: Any, **named: Any) -> Any:
            self.rewards = []
            return super().evaluate(*given, **named)

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, **named: Any
        ) -> Any:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **named)
            if not self.model.training:
                # [2n, 1], all chosen rows before all rejected ones
                sides = outputs.logits.detach().reshape(2, -1).T.contiguous()
                self.rewards += self.accelerator.gather_for_metrics(sides).tolist()
            return (loss, outputs) if return_outputs else loss

        def log(self, logs: dict[str, float], *given: Any, **named: Any) -> None:
            measured = self._metrics["eval"]
            if "accuracy" in measured:
                measured.update({name: [value] for name, value in over(self.rewards).items()})
            super().log(logs, *given, **named)

    return Keeping


def over(rewards: Sequence[tuple[float, float]]) -> dict[str, float]:
    """What TRL logs of the rewards of pairs' chosen and rejected sides, over all of them."""
    every = [reward for pair in rewards for reward in pair]
    return {
        "accuracy": fmean(chosen > rejected for chosen, rejected in rewards),
        "margin": fmean(chosen - rejected for chosen, rejected in rewards),
        "mean_reward": fmean(every),
        "min_reward": min(every),
        "max_reward": max(every),
    }
