"""The model store: versions are whole, kept and verified, and the pointer moves at once."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rldf_ray.apps.serve.store import MANIFEST, ModelStore, StoreError, Traffic, verify


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", "policy")


def test_the_first_version_becomes_current_and_later_ones_wait(
    store: ModelStore, model: Path
) -> None:
    assert store.publish(model) == "v0001"
    assert store.publish(model) == "v0002"
    assert store.versions() == ["v0001", "v0002"]
    assert store.traffic() == Traffic("v0001")


def test_versions_are_counted_past_four_digits(store: ModelStore, model: Path) -> None:
    store.publish(model)
    (store.folder("v0001")).rename(store.folder("v0001").with_name("v9999"))
    assert store.publish(model) == "v10000"
    assert store.versions() == ["v9999", "v10000"]


def test_what_is_no_model_is_refused_and_leaves_nothing(store: ModelStore, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError, match="no model folder"):
        store.publish(empty)
    assert store.versions() == []


def test_publishers_at_once_get_a_version_each(store: ModelStore, model: Path) -> None:
    store.publish(model)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: store.publish(model), range(8)))
    assert sorted(found) == store.versions()[1:] == [f"v{i:04d}" for i in range(2, 10)]
    for version in found:
        verify(store.folder(version))
    left = [path.name for path in (store.root / "policy/versions").iterdir()]
    assert sorted(left) == store.versions()


@pytest.mark.parametrize("damage", ["changed", "missing", "more"])
def test_a_damaged_version_is_not_loaded(store: ModelStore, model: Path, damage: str) -> None:
    folder = store.folder(store.publish(model))
    if damage == "changed":
        (folder / "model.safetensors").write_bytes(b"Weights")
    elif damage == "missing":
        (folder / "model.safetensors").unlink()
    else:
        (folder / "other.safetensors").write_bytes(b"")
    with pytest.raises(StoreError, match="safetensors"):
        verify(folder)
    with pytest.raises(StoreError, match="publish it again"):
        store.rollout("v0001", 50)


def test_a_published_version_of_a_published_version_has_its_own_manifest(
    store: ModelStore, model: Path
) -> None:
    first = store.folder(store.publish(model))
    second = store.folder(store.publish(first))
    assert (first / MANIFEST).read_text(encoding="utf-8") == (second / MANIFEST).read_text(
        encoding="utf-8"
    )
    verify(second)


def test_traffic_shifts_and_goes_back(store: ModelStore, model: Path) -> None:
    store.publish(model)
    store.publish(model)
    assert store.rollout("v0002", 10) == Traffic("v0001", "v0002", 10)
    assert store.traffic() == Traffic("v0001", "v0002", 10)
    assert store.rollout("v0002", 0) == Traffic("v0001")
    assert store.rollout("v0002", 100) == Traffic("v0002", before=("v0001",))
    assert store.rollout("v0001", 100) == Traffic("v0001", before=("v0002",))


def test_who_answered_before_is_known_whatever_is_said_next(store: ModelStore, model: Path) -> None:
    for _ in range(8):
        store.publish(model)
    store.rollout("v0002", 100)
    once = Traffic("v0002", before=("v0001",))
    assert store.rollout("v0002", 100) == once
    assert store.rollout("v0003", 10) == Traffic("v0002", "v0003", 10, ("v0001",))
    assert store.rollout("v0003", 0) == once
    assert store.rollout("v0003", 100) == Traffic("v0003", before=("v0002", "v0001"))
    # One that is next is not one that was before.
    assert store.rollout("v0001", 50) == Traffic("v0003", "v0001", 50, ("v0002",))
    assert store.rollout("v0002", 100) == Traffic("v0002", before=("v0003",))
    for number in range(4, 9):
        last = store.rollout(f"v{number:04d}", 100)
    assert last == Traffic("v0008", before=("v0007", "v0006", "v0005", "v0004"))
    shutil.rmtree(store.folder("v0006"))
    assert store.rollout("v0008", 100).before == ("v0007", "v0005", "v0004")


def test_taking_back_a_version_leaves_the_share_of_another(store: ModelStore, model: Path) -> None:
    for _ in range(3):
        store.publish(model)
    shared = store.rollout("v0002", 10)
    assert store.rollout("v0003", 0) == shared
    assert store.rollout("v0002", 0) == Traffic("v0001")


@pytest.mark.parametrize(
    ("before", "versions"),
    [('"v0001"', ("v0001",)), ("null", ()), ("[]", ()), ('["v0002", "v0001"]', ("v0002", "v0001"))],
)
def test_a_pointer_that_names_one_version_before_is_read(
    store: ModelStore, model: Path, before: str, versions: tuple[str, ...]
) -> None:
    store.publish(model)
    text = f'{{"current": "v0003", "next": null, "percent": 0.0, "before": {before}}}'
    (store.root / "policy/traffic.json").write_text(text, encoding="utf-8")
    assert store.traffic() == Traffic("v0003", before=versions)


def test_an_unknown_version_is_refused_with_those_there_are(store: ModelStore, model: Path) -> None:
    with pytest.raises(StoreError, match="publish one first"):
        store.rollout("v0001", 10)
    store.publish(model)
    with pytest.raises(StoreError, match="it has v0001"):
        store.rollout("../v0001", 10)


@pytest.mark.parametrize(("draw", "version"), [(0, "b"), (9.9, "b"), (10, "a"), (99.9, "a")])
def test_a_share_of_the_draws_goes_to_the_next_version(draw: float, version: str) -> None:
    assert Traffic("a", "b", 10).version(draw) == version


@pytest.mark.parametrize("name", ["", ".", "..", "../evil", "a/b", "/tmp/x", "a\n", "a.b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="letters"):
        ModelStore(tmp_path / "store", name)


@pytest.mark.parametrize("kind", ["outside", "folder", "nowhere", "pipe"])
def test_what_is_no_file_of_the_folder_is_not_published(
    store: ModelStore, model: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("secret", encoding="utf-8")
    if kind == "pipe":
        os.mkfifo(model / "odd")
    else:
        to = {"outside": "secret/file", "folder": "secret", "nowhere": "none"}[kind]
        (model / "odd").symlink_to(tmp_path / to)
    with pytest.raises(StoreError, match="odd"):
        store.publish(model)
    assert store.versions() == []


def test_links_within_a_folder_and_to_it_are_followed(
    store: ModelStore, model: Path, tmp_path: Path
) -> None:
    (model / "again").symlink_to("config.json")
    (tmp_path / "link").symlink_to(model)
    published = store.folder(store.publish(tmp_path / "link"))
    assert (published / "again").read_text(encoding="utf-8") == "{}" and not (
        published / "again"
    ).is_symlink()
    verify(published)


def test_what_else_lies_among_the_versions_is_passed_over(store: ModelStore, model: Path) -> None:
    store.publish(model)
    for name in ("v-old", "vx", "v0001.bak", "v1"):
        store.folder("v0001").with_name(name).mkdir()
    store.folder("v0001").with_name("v0002").write_text("a file", encoding="utf-8")
    assert store.versions() == ["v0001"]
    assert store.publish(model) == "v0003"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        b'{"current": 1}',
        b'{"current": "../../x"}',
        b'{"current": "v0001", "percent": 900}',
    ],
)
def test_a_garbled_pointer_is_named_and_can_be_written_again(
    store: ModelStore, model: Path, content: bytes
) -> None:
    store.publish(model)
    path = store.root / "policy/traffic.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"traffic\.json"):
        store.traffic()
    path.unlink()
    assert store.rollout("v0001", 100) == Traffic("v0001")


@pytest.mark.parametrize("content", ["", "[]", '{"files": [1]}'])
def test_a_garbled_manifest_is_named(store: ModelStore, model: Path, content: str) -> None:
    folder = store.folder(store.publish(model))
    (folder / MANIFEST).write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=MANIFEST):
        verify(folder)
