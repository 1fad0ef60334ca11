"""What was answered since the last checkpoint, so that a resumed job can say how far it repeats it.

A live engine batches requests as they come, and what is batched together decides the last bits of
its logits: a resumed job samples the same tokens up to one that was nearly another, and others
from there on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rldf_ray.storage.json_text import json_text
from rldf_ray.train.ppo.rollout import Rollout


class KeptAnswers:
    """The answers of one worker since the last checkpoint, in a file of its own.

    Args:
        out: the job's folder.
    """

    def __init__(self, out: str | Path, rank: int) -> None:
        self._path = Path(out) / f"answered-{rank}.jsonl"
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        # A killed worker may have left half a line.
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        self._before = {line["step"]: line["answers"] for line in lines}

    def repeated(self, step: int, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Where the answers first differ from those before the kill; nothing if there were none.

        Returns:
            `repeated_answers`, the answers before that place, and `repeated_tokens`, the tokens
            before it in its own answer (0 where all answers are the same).
        """
        before = self._before.pop(step, None)
        if before is None:
            return {}
        now = [list(r.answer_ids) for r in rollouts]
        answers = _common(before, now)
        tokens = 0 if answers == len(now) else _common(before[answers], now[answers])
        return {"repeated_answers": answers, "repeated_tokens": tokens}

    def keep(self, step: int, rollouts: Sequence[Rollout]) -> None:
        """Remember a step's answers until the next checkpoint."""
        with self._path.open("a", encoding="utf-8") as file:
            answers = [r.answer_ids for r in rollouts]
            file.write(json_text({"step": step, "answers": answers}) + "\n")

    def forget(self) -> None:
        """A checkpoint was written, or the job is done."""
        self._path.unlink(missing_ok=True)


def _common(a: Sequence[object], b: Sequence[object]) -> int:
    """How many elements are the same from the beginning on."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
