"""A whole study in one process, without Ray."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from rldf_ray.cluster.placement import Resources
from rldf_ray.engines.backend import SpeakerContext
from rldf_ray.engines.backends import scripted
from rldf_ray.models.base import ChatModel
from rldf_ray.plan import Speaker
from rldf_ray.studies import holding

Played = Callable[[ChatModel], None]
Stored = Callable[[Path], str]


@pytest.fixture
def stored(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Put a study's folder into a store, and go on as a machine that has no copy of it."""

    def store(folder: Path) -> str:
        apart = tmp_path_factory.mktemp("apart")
        shutil.copytree(folder, apart / "bucket", ignore=shutil.ignore_patterns("journal", ".*"))
        monkeypatch.setenv("RLDF_CACHE", str(apart / "cache"))
        return (apart / "bucket").as_uri()

    return store


@pytest.fixture
def played_by(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Let one model answer for every scripted speaker of a plan."""

    @contextmanager
    def cluster(logs: Path) -> Iterator[Resources]:
        yield Resources(4, 0, 64)

    def play(model: ChatModel) -> None:
        def start(speaker: Speaker, context: SpeakerContext) -> AbstractContextManager[ChatModel]:
            return nullcontext(model)

        monkeypatch.setattr(scripted, "start", start)

    monkeypatch.setattr(holding, "ray_cluster", cluster)
    return play
