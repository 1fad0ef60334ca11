"""A machine that computes nothing: what `compare` asks of it, and in which order."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.cluster.placement import Placement, Resources
from rldf_ray.comparison import answers, free_answers, general_ability, runs, work
from rldf_ray.comparison.answers import PromptedItem
from rldf_ray.comparison.settings import Settings
from rldf_ray.console import Progress
from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.perplexity import perplexity
from rldf_ray.evaluate.perplexity.perplexity import Perplexity
from rldf_ray.plan import Plan
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, TOPIC_SCHEMA, table_of
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE
from tests.fakes import RecordingModel, judgement, opinion, plan_with

TOPICS = [opinion(1, split="eval"), judgement(2, split="eval"), opinion(3, split="ppo")]
TOKENS = {"prompt": 10, "cached": 0, "generated": 100}
REPORT = {
    "referee": {
        "held_out": {"auc": 0.6},
        "by_kind": {"opinion": {"auc": 0.7}, "judgement": {"auc": 0.5}},
    },
    "training": {"reward": {"accuracy": 0.5, "accuracy_low": 0.3, "held_out_pairs": 20}},
}


class Machine:
    """Finishes stages and answers items without computing; remembers what it was asked to do."""

    def __init__(self) -> None:
        self.stages: Counter[str] = Counter()
        self.ranked: list[str] = []
        self.said = RecordingModel()
        self.synced: list[str] = []
        self.read: list[str] = []
        self.by_place = False

    def run(self, plan: Plan, out: Path, progress: Progress, only: Any, stages_of: Any) -> None:
        folder = RunFolder(out)
        for stage in only:
            if folder.manifest(stage) is None:
                self.stages[stage] += 1
                for name in PIPELINE[stage].files:
                    folder.write_table(name, table_of(TOPICS, TOPIC_SCHEMA))
                facts = {"seconds": 2.0, "peak_pss_gib": 1.0, "statements": 36, "pairs": 9}
                facts["tokens"] = TOKENS
                if stage == "data":
                    folder.write_table("data/prompts.parquet", prompts_table(TOPICS))
                    folder.write_table("data/sft.parquet", SFT_SCHEMA.empty_table())
                    folder.write_table("data/pairs.parquet", PAIR_SCHEMA.empty_table())
                folder.finish(stage, plan.digest(), facts)
        folder.write_text("plan.yaml", plan.to_yaml())
        folder.write_json("report.json", REPORT)

    def rank(
        self, plan: Plan, folder: str, items: BBQSet, put: Sequence[PromptedItem], *others: Any
    ) -> tuple[dict[Any, Answer], float]:
        self.ranked.append(folder)
        right = folder.endswith("ppo/model")
        found = {}
        for item, one in zip(items.items, put, strict=True):
            said = item.label if right else item.unknown
            order = one.prompt.order
            chosen = order[0] if self.by_place else said
            scores = tuple(float(option == chosen) for option in range(3))
            found[item.key] = Answer(chosen, order, scores=scores, text=one.reasoning or None)
        return found, 1.5

    def perplexity(self, folder: str, placement: Placement, dtype: str) -> Perplexity:
        self.read.append(folder)
        return Perplexity(20.0 + folder.endswith("ppo/model"), 1900)

    def sync_weights(self, folder: str, revision: str, *, everywhere: bool = True) -> None:
        self.synced.append(folder)

    def wait_until_ready(self) -> None:
        """The engines of the stand-in are up."""

    @property
    def name(self) -> str:
        return "embedded"

    async def complete(self, request: Any) -> Any:
        return await self.said.complete(request)


def with_room(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    """A disk with so much free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=gib * 2**30))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()

    @contextmanager
    def cluster(logs: Path) -> Iterator[Resources]:
        yield Resources(2, 0, 20)

    @contextmanager
    def engines(plan: Plan, placement: Placement, *others: Any) -> Iterator[Machine]:
        yield found

    monkeypatch.setattr(runs, "pipeline", found)
    monkeypatch.setattr(work, "reported_resources", lambda: Resources(2, 0, 20))
    with_room(monkeypatch, 100)
    monkeypatch.setattr(answers, "ray_cluster", cluster)
    monkeypatch.setattr(answers, "policy_engines", engines)
    monkeypatch.setattr(free_answers, "ray_cluster", cluster)
    monkeypatch.setattr(general_ability, "ray_cluster", cluster)
    monkeypatch.setattr(perplexity, "perplexity_on_worker", found.perplexity)
    monkeypatch.setattr(free_answers, "policy_engines", engines)
    monkeypatch.setattr(answers, "_ranked", found.rank)
    return found


def compare(out: Path, plan: Plan | None = None, **settings: Any) -> Any:
    given = {"modes": ("rank",), **settings}
    return work.compare(plan or plan_with(), Settings(**given), out, Progress())
