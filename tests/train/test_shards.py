"""Checkpoints whose shards are on several machines: whole in the store, or none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.storage.mirror import Mirror, copy_of
from rldf_ray.storage.object_store import ObjectStore
from rldf_ray.train import localize, shards
from rldf_ray.train.shards import begin_from_store, is_whole, make_room, send_shards
from rldf_ray.train.worker import PROGRESS
from tests.s3_server import as_environment, s3_server
from tests.train.test_localize import job, worker

OUT = "s3://bucket/run/sft"
STATES = ("trainer_state.json", "rng_state_0.pth", "rng_state_1.pth")


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    monkeypatch.setattr(shards, "SETTLED_S", 0.0)
    with s3_server("bucket") as (url, _):
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        yield ObjectStore(OUT)


@pytest.fixture
def on_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Mirror]:
    """The copy that a machine of this name has."""

    def mirror(name: str) -> Mirror:
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / name))
        found = Mirror(OUT)
        found.claim()
        return found

    return mirror


def wrote(mirror: Mirror, step: int, *names: str) -> None:
    for name in names:
        path = mirror.root / f"trainer/checkpoint-{step}/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} of step {step}", encoding="utf-8")


def stored(store: ObjectStore) -> set[str]:
    return {name.removeprefix("trainer/") for name in store.list("trainer")}


def test_a_checkpoint_is_whole_with_the_last_file_of_every_worker() -> None:
    assert is_whole({"trainer_state.json", "rng_state.pth"}, 1)
    assert not is_whole({"rng_state.pth"}, 1)
    assert is_whole(set(STATES), 2)
    for missing in STATES:
        assert not is_whole(set(STATES) - {missing}, 2)


def test_old_shards_make_room_once_the_new_ones_of_all_machines_are_there(
    store: ObjectStore, on_machine: Callable[[str], Mirror]
) -> None:
    a, b = on_machine("a"), on_machine("b")
    for step in (4, 8):
        wrote(a, step, "rng_state_0.pth", "trainer_state.json")
    a.publish("trainer")
    wrote(b, 4, "global_step/shard_1", "rng_state_1.pth")
    send_shards(b)
    shutil.rmtree(a.root / "trainer/checkpoint-4")
    make_room(a, 2)
    assert "checkpoint-4/trainer_state.json" in stored(store), "step 8 lacks a shard"
    wrote(b, 8, "global_step/shard_1", "rng_state_1.pth")
    send_shards(b)
    make_room(a, 2)
    assert {name.partition("/")[0] for name in stored(store)} == {"checkpoint-8"}
    assert "checkpoint-8/global_step/shard_1" in stored(store)
    # The other machine neither keeps what has made room nor sends it again.
    send_shards(b)
    assert {name.partition("/")[0] for name in stored(store)} == {"checkpoint-8"}
    assert not (b.root / "trainer/checkpoint-4").exists()


def test_a_shard_is_sent_though_worker_0_has_not_uploaded_yet(
    store: ObjectStore, on_machine: Callable[[str], Mirror]
) -> None:
    a, b = on_machine("a"), on_machine("b")
    for step in (4, 8):
        wrote(b, step, "global_step/shard_1", "rng_state_1.pth")
    send_shards(b)
    wrote(a, 4, "rng_state_0.pth", "trainer_state.json")
    a.publish("trainer")
    assert {f"checkpoint-4/{name}" for name in STATES} <= set(stored(store))
    send_shards(b)
    assert (b.root / "trainer/checkpoint-4").exists()


def test_a_job_begins_with_what_all_machines_can_go_on_from(
    store: ObjectStore, on_machine: Callable[[str], Mirror]
) -> None:
    a, b = on_machine("a"), on_machine("b")
    wrote(a, 4, "rng_state_0.pth", "trainer_state.json")
    wrote(b, 4, "global_step/shard_1", "rng_state_1.pth")
    wrote(a, 8, "rng_state_0.pth", "trainer_state.json")
    a.publish("trainer")
    b.publish("trainer")
    wrote(b, 8, "global_step/shard_1", "rng_state_1.pth")  # was never sent
    begin_from_store(on_machine("b"), 2, first=False)
    begin_from_store(on_machine("a"), 2, first=True)
    for name in ("a", "b"):
        mirror = on_machine(name)
        mirror.fetch(beside=True)
        assert {path.name for path in (mirror.root / "trainer").iterdir()} == {"checkpoint-4"}
        assert (mirror.root / "trainer/checkpoint-4/global_step/shard_1").exists()
    assert {name.partition("/")[0] for name in stored(store)} == {"checkpoint-4"}


def test_one_worker_of_another_machine_sends_its_shards_while_it_works(
    monkeypatch: pytest.MonkeyPatch, store: ObjectStore
) -> None:
    worker(monkeypatch, 1, local=0, here=1)
    monkeypatch.setattr(localize, "UPLOAD_EVERY_S", 0.05)

    def loop(config: dict[str, Any]) -> None:
        out = Path(config["job"].folders["out"])
        assert out == copy_of(OUT)
        (out / "trainer/checkpoint-2").mkdir(parents=True)
        (out / "trainer/checkpoint-2/rng_state_1.pth").write_text("shard", encoding="utf-8")
        (out / "progress.jsonl").write_text("worker 0's alone", encoding="utf-8")
        deadline = time.monotonic() + 60
        while not stored(store):
            assert time.monotonic() < deadline, "nothing was sent"
            time.sleep(0.02)

    localize.localize_inputs(loop, PROGRESS)({"job": job(OUT)})
    assert set(store.list()) == {"trainer/checkpoint-2/rng_state_1.pth"}
