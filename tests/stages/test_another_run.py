"""Another run with a copy of a run's journal: what its models were asked is not asked again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rldf_ray import pipeline
from rldf_ray.cluster.placement import Resources
from rldf_ray.console import Progress
from tests.endpoint import Server, serving
from tests.fakes import plan_with
from tests.stages.test_thinking import thinker

STAGES = ("topics", "debates", "data")


@contextmanager
def cluster(logs: Path) -> Iterator[Resources]:
    yield Resources(4, 0, 64)


@pytest.mark.parametrize(
    "change", ["engines.max_model_len=2048", "reward.micro_batch=2", "data.min_gap=1"]
)
def test_the_same_debates_are_held_without_a_request(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "ray_cluster", cluster)
    with serving(Server(otherwise=thinker("apart"))) as server:
        overrides = (
            "teacher=openai:thinker",
            f"endpoint.base_url={server.url}",
            "referee={kind: prompted, label_source: said, audit_pairs: 2}",
        )
        pipeline.run(plan_with(*overrides), "one", Progress(), only=STAGES)
        asked = len(server.received)
        shutil.copytree("one/journal", "two/journal")
        pipeline.run(plan_with(*overrides, change), "two", Progress(), only=STAGES)
        assert len(server.received) == asked > 0
    first, second = (Path(run, "data/transcripts.parquet") for run in ("one", "two"))
    assert first.stat().st_size == pytest.approx(second.stat().st_size, rel=0.05)
