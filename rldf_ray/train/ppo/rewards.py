"""What answers are rewarded by: the reward model, functions and servers of one's own, weighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from torch import Tensor

from rldf_ray.plan.training import RewardSource
from rldf_ray.train.collectives import all_reduce
from rldf_ray.train.ppo.reward_functions import Row, called, checked, reward_function
from rldf_ray.train.ppo.reward_server import RewardServer
from rldf_ray.train.ppo.rollout import Rollout
from rldf_ray.train.worker import TrainJob

Score = Callable[[Sequence[Rollout]], Tensor]
Ask = Callable[[Sequence[Row]], Sequence[Any]]
OF_SCENES = ("question", "groups")


class Rewards:
    """The weighted sum of a plan's rewards, on one worker.

    Args:
        score: the reward model's rewards of answers, [B] on the CPU.
    """

    def __init__(self, job: TrainJob, score: Score, rank: int) -> None:
        self._sources = job.plan.ppo.rewards
        self._score, self._device = score, job.placement.device
        own = [source for source in self._sources if source.model is None]
        self._topics = _topics(Path(job.folders["data"])) if own else {}
        self._ask: dict[RewardSource, Ask] = {source: _asking(source, job, rank) for source in own}

    def of(
        self, prompts: Sequence[Mapping[str, Any]], rollouts: Sequence[Rollout]
    ) -> tuple[Tensor, dict[str, float]]:
        """Rewards of answers, [B] on the CPU, and every source's mean over all workers.

        Args:
            prompts: the row of data/prompts.parquet that each rollout answers.

        Raises:
            RewardError: a source gave no number for an answer.
            BudgetSpentError: a server has been asked as often as the plan allows.
        """
        if not self._ask:
            (source,) = self._sources
            return source.weight * self._score(rollouts), {}
        rows = [
            _row(prompt, rollout, self._topics.get(prompt["topic_id"], {}))
            for prompt, rollout in zip(prompts, rollouts, strict=True)
        ]
        total, figures = torch.zeros(len(rollouts)), {}
        for source in self._sources:
            given = self._score(rollouts) if source.model else self._asked(source, rows)
            total = total + source.weight * given
            sums = torch.tensor([float(given.sum()), len(given)], dtype=torch.float64)
            whole, number = all_reduce(sums.to(self._device)).tolist()
            if number:
                figures[f"reward_{source.name}"] = whole / number
        return total, figures

    def _asked(self, source: RewardSource, rows: Sequence[Row]) -> Tensor:
        if not rows:
            return torch.zeros(0)
        return torch.tensor(checked(source.name, self._ask[source](rows), rows))


def _asking(source: RewardSource, job: TrainJob, rank: int) -> Ask:
    if source.http is not None:
        journal = Path(job.folders["out"]) / f"rewards-{source.name}-{rank}.jsonl"
        return RewardServer(source, journal, share_of_calls(source, rank, job.plan.train.workers))
    named = source.python or ""
    function = reward_function(named, job.extra.get("reward_texts", {}))
    return lambda rows: called(source.name, function, rows)


def share_of_calls(source: RewardSource, rank: int, workers: int) -> int | None:
    """How many of a server's `max_calls` one worker may make; None where there is no limit."""
    most = source.max_calls
    return None if most is None else most // workers + (rank < most % workers)


def _row(prompt: Mapping[str, Any], rollout: Rollout, topic: Mapping[str, Any]) -> dict[str, Any]:
    """What a source gets of one answer.

    `conclusion` is what a scene's clue tells where it was shown; None where it leaves it open.
    """
    scene = {name: topic.get(name) for name in OF_SCENES}
    shown = bool(prompt.get("clue_shown"))
    return {
        **{name: prompt.get(name) for name in ("prompt_id", "topic_id", "bias_type", "kind")},
        "clue_shown": shown,
        **scene,
        "conclusion": topic.get("answer") if shown else None,
        "prompt": prompt["prompt"],
        "answer": rollout.text,
        "ended": rollout.ended,
    }


def _topics(data: Path) -> dict[str, dict[str, Any]]:
    rows = pq.read_table(data / "topics.parquet").to_pylist()
    return {row["topic_id"]: row for row in rows}
