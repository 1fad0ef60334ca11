"""On how many held-out pairs a model is right, topic by topic, as its accuracy's interval draws.

A topic's pairs are of few statements, each in many pairs: they are right or wrong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
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
    """TRL's trainer of reward models, with the margins of its last evaluation in `margins`.

    They are in the order of the data set, on all workers: how much more reward each pair's chosen
    side has than the rejected one.
    """

    class Keeping(trainer):  # type: ignore[misc]
        margins: list[float]

        def evaluate(self, *given: Any, **named: Any) -> Any:
            self.margins = []
            return super().evaluate(*given, **named)

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, **named: Any
        ) -> Any:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **named)
            if not self.model.training:
                chosen, rejected = outputs.logits.detach().squeeze(-1).chunk(2)
                kept = self.accelerator.gather_for_metrics(chosen - rejected)
                self.margins += kept.float().tolist()
            return (loss, outputs) if return_outputs else loss

    return Keeping
