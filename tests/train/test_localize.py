"""A training job's folders where its workers are: fetched, and uploaded while the work goes on."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.cluster.placement import Resources, place
from rldf_ray.plan import load_plan
from rldf_ray.storage.mirror import copy_of
from rldf_ray.storage.object_store import ObjectStore
from rldf_ray.train import localize
from rldf_ray.train.worker import PROGRESS, TrainJob, log_step, read_progress
from tests.s3_server import as_environment, s3_server

RUN = "s3://bucket/run"


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    with s3_server("bucket") as (url, _):
        settings = as_environment(url) | {"RLDF_CACHE": str(tmp_path / "worker")}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield ObjectStore(RUN)


def job(out: str) -> TrainJob:
    plan = load_plan("smoke")
    folders = {"data": f"{RUN}/data", "out": out}
    return TrainJob(plan, place(plan, Resources(2, 0, 16)), folders)


def worker(
    monkeypatch: pytest.MonkeyPatch, rank: int, *, local: int | None = None, here: int = 2
) -> None:
    """Worker `rank` of two; `local` is its number among the `here` workers of its machine."""
    context = SimpleNamespace(
        get_world_rank=lambda: rank,
        get_local_rank=lambda: rank if local is None else local,
        get_world_size=lambda: 2,
        get_local_world_size=lambda: here,
    )
    monkeypatch.setattr("ray.train.get_context", lambda: context)


def test_inputs_are_fetched_and_what_rank_0_leaves_is_uploaded(
    monkeypatch: pytest.MonkeyPatch, store: ObjectStore
) -> None:
    store.write("data/sft.parquet", b"rows")
    worker(monkeypatch, 0)
    monkeypatch.setattr(localize, "UPLOAD_EVERY_S", 0.05)

    def loop(config: dict[str, Any]) -> None:
        folders = config["job"].folders
        assert (Path(folders["data"]) / "sft.parquet").read_bytes() == b"rows"
        log_step(folders["out"], {"step": 1, "steps": 2})
        deadline = time.monotonic() + 60
        while not read_progress(f"{RUN}/sft"):
            assert time.monotonic() < deadline, "the driver was told nothing"
            time.sleep(0.02)
        log_step(folders["out"], {"step": 2, "steps": 2})
        (Path(folders["out"]) / "model").mkdir()
        (Path(folders["out"]) / "model/config.json").write_text("{}", encoding="utf-8")

    localize.localize_inputs(loop, PROGRESS)({"job": job(f"{RUN}/sft")})
    assert store.read("sft/model/config.json") == b"{}"
    assert [entry["step"] for entry in read_progress(f"{RUN}/sft")] == [1, 2]


def test_other_ranks_work_on_the_same_copy_and_upload_nothing(
    monkeypatch: pytest.MonkeyPatch, store: ObjectStore
) -> None:
    worker(monkeypatch, 1)
    out = copy_of(f"{RUN}/sft")
    out.mkdir(parents=True)
    (out / "of rank 0").write_text("being written", encoding="utf-8")
    localize.localize_inputs(lambda config: None, PROGRESS)({"job": job(f"{RUN}/sft")})
    assert (out / "of rank 0").exists()
    assert store.list() == {}


def test_folders_of_a_machine_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker(monkeypatch, 0)
    seen: list[dict[str, str]] = []
    folders = {"data": str(tmp_path / "data"), "sft": str(tmp_path), "out": str(tmp_path / "out")}
    local = TrainJob(job("").plan, job("").placement, folders)
    localize.localize_inputs(lambda config: seen.append(config["job"].folders), PROGRESS)(
        {"job": local}
    )
    assert seen == [folders]
