"""A run in an object store: whole, manifest last, and continued by a machine with nothing of it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.journal_segments import JOURNAL
from rldf_ray.storage.lock import LOCK, RunInUseError, StoreLock
from rldf_ray.storage.mirror import Mirror, copy_of, local_folder
from rldf_ray.storage.object_store import ObjectInfo, ObjectStore, ObjectStoreError
from rldf_ray.storage.run_folder import RunFolder
from tests.s3_server import Buckets

RUN = "s3://bucket/runs/one"


def names(buckets: Buckets) -> set[str]:
    keys = buckets.objects["bucket"]
    return {key.removeprefix("runs/one/") for key in keys if not key.endswith("/")}


def wrote_a_stage(folder: RunFolder) -> None:
    folder.write_text("plan.yaml", "seed: 0\n")
    folder.write_table("data/topics.parquet", pa.table({"a": [1, 2]}))
    (folder.path("sft/model/config.json")).write_text("{}", encoding="utf-8")
    folder.finish("topics", "key", {"n": 2})


# --- whole objects, manifest last


def test_a_finished_stage_is_in_the_bucket_and_its_manifest_came_last(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)
        assert names(buckets) >= {"plan.yaml", "data/topics.parquet", "stages/topics.json"}
        written = [key.removeprefix("runs/one/") for key in buckets.written]
        assert written.index("stages/topics.json") > written.index("data/topics.parquet")
        assert written.index("stages/topics.json") > written.index("sft/model/config.json")
    assert LOCK not in names(buckets)


def test_nothing_is_uploaded_twice(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)
    before = list(buckets.written)
    with RunFolder.at(RUN).locked():
        pass
    assert [key for key in buckets.written[len(before) :] if not key.endswith((LOCK, "/"))] == []


def test_what_a_clock_that_was_ahead_has_written_is_uploaded(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    ahead = time.time() + 3600
    with folder.locked():
        os.utime(folder.write_text("data/a.txt", "a"), (ahead, ahead))
        folder.shared("data")
        assert "data/a.txt" in names(buckets)


def hold_and_write() -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)


@pytest.mark.parametrize("writes", range(1, 5))
def test_a_program_that_dies_between_objects_leaves_no_manifest(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writes: int
) -> None:
    """The lock, plan.yaml, a table and a model go up before the manifest does."""
    buckets.writes_left = writes
    with pytest.raises(ObjectStoreError):
        hold_and_write()
    assert "stages/topics.json" not in names(buckets)
    buckets.writes_left = None
    buckets.objects["bucket"].pop(f"runs/one/{LOCK}", None)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    other = RunFolder.at(RUN)
    with other.locked():
        assert other.manifest("topics") is None
    hold_and_write()
    assert "stages/topics.json" in names(buckets)


def test_another_machine_goes_on_with_what_was_finished(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = RunFolder.at(RUN)
    with first.locked():
        wrote_a_stage(first)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    second = RunFolder.at(RUN)
    assert second.root != first.root
    with second.locked():
        manifest = second.manifest("topics")
        assert manifest is not None and manifest["n"] == 2
        assert second.read_table("data/topics.parquet").num_rows == 2
        # Models come when they are asked for.
        assert not (second.root / "sft/model/config.json").exists()
        assert second.fetched("sft/model/config.json").read_text(encoding="utf-8") == "{}"
        second.finish("audit", "key", {})
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "here"))
    with RunFolder.at(RUN).locked():
        assert RunFolder.at(RUN).manifest("audit") is not None


def test_a_reader_fetches_no_models_and_no_checkpoints(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    large = {f"{stage}/model/model.safetensors" for stage in ("referee", "sft", "reward", "ppo")}
    large |= {"ppo/checkpoints/step-000004/manifest.json", "model/policy.gguf", "logs/raylet.out"}
    small = {"referee/calibration.json", "sft/trained.json", "labelled/pairs.parquet", "plan.yaml"}
    writer = RunFolder.at(RUN)
    with writer.locked():
        for name in large | small:
            writer.path(name).write_text(name, encoding="utf-8")
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    reader = RunFolder.at(RUN)
    with reader.locked():
        fetched = {name for name in large | small if (reader.root / name).exists()}
    assert fetched == small
    assert large <= names(buckets)


def test_a_copy_that_fell_behind_is_brought_up_to_date_not_uploaded(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = RunFolder.at(RUN)
    with mine.locked():
        wrote_a_stage(mine)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    theirs = RunFolder.at(RUN)
    with theirs.locked():
        theirs.write_text("plan.yaml", "seed: 12345\n")
        theirs.remove("stages/topics.json")
        theirs.path("sft/model/config.json").write_text('{"of": "theirs"}', encoding="utf-8")
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "here"))
    with mine.locked():
        assert (mine.root / "plan.yaml").read_text(encoding="utf-8") == "seed: 12345\n"
        assert mine.manifest("topics") is None
        assert not (mine.root / "sft/model/config.json").exists()
    assert mine.fetched("sft/model/config.json").read_text(encoding="utf-8") == '{"of": "theirs"}'


def test_a_stage_that_is_to_be_redone_is_forgotten_everywhere(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)
        folder.fresh_folder("sft")
        folder.remove("stages/topics.json")
        assert not {"sft/model/config.json", "stages/topics.json"} & names(buckets)


def test_a_fresh_folder_keeps_what_it_is_asked_to_here_and_there(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)
        folder.write_text("sft/asked-0.jsonl", "{}")
        folder.shared("sft")
        folder.write_text("sft2/asked-0.jsonl", "{}")
        folder.shared("sft2")
        (folder.root / "sft/asked-0.jsonl").unlink()
        folder.fresh_folder("sft", "asked-*.jsonl")
        assert {name for name in names(buckets) if name.startswith("sft/")} == {"sft/asked-0.jsonl"}
        assert "sft2/asked-0.jsonl" in names(buckets)


def test_an_address_is_a_folder_where_it_is_used(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        wrote_a_stage(folder)
    address = folder.address("sft/model")
    assert address == f"{RUN}/sft/model"
    assert (Path(local_folder(address)) / "config.json").read_text(encoding="utf-8") == "{}"
    assert local_folder("/some/folder") == "/some/folder"
    assert copy_of("s3://bucket/a?region=x") == copy_of("s3://bucket/a/")
    assert ObjectStore(f"{RUN}?region=us-east-1").address_of("b") == f"{RUN}/b?region=us-east-1"


def test_old_checkpoints_make_room_once_the_new_one_is_there(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    assert folder.mirror is not None
    with folder.locked():
        wrote_a_stage(folder)
        old = folder.path("sft/trainer/checkpoint-1/state")
        old.write_text("old", encoding="utf-8")
        folder.mirror.publish()
        folder.path("sft/trainer/checkpoint-2/state").write_text("new", encoding="utf-8")
        old.unlink()
        folder.mirror.drop_gone("sft/trainer")
        assert "sft/trainer/checkpoint-1/state" in names(buckets)
        folder.mirror.publish()
        folder.mirror.drop_gone("sft/trainer")
        assert "sft/trainer/checkpoint-1/state" not in names(buckets)
        assert {"sft/trainer/checkpoint-2/state", "sft/model/config.json"} <= names(buckets)


@pytest.mark.parametrize("when", ["before it", "as it begins", "as it ends"])
def test_a_checkpoint_that_is_pruned_while_others_go_up_is_left_out(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    mirror = Mirror(RUN)
    mirror.open()
    for i, name in enumerate(("first", "pruned", "last")):
        (mirror.root / name).write_text(name, encoding="utf-8")
        os.utime(mirror.root / name, (i, i))
    upload = mirror.store.upload
    before = {"before it": "first", "as it begins": "pruned"}.get(when)
    after = "pruned" if when == "as it ends" else None

    def pruning(source: Path, name: str) -> ObjectInfo:
        if name == before:
            (mirror.root / "pruned").unlink()
        info = upload(source, name)
        if name == after:
            (mirror.root / "pruned").unlink()
        return info

    monkeypatch.setattr(mirror.store, "upload", pruning)
    mirror.publish()
    assert {"first", "last"} <= names(buckets)
    assert ("pruned" in names(buckets)) == (when == "as it ends")


# --- an object is whole or not there


@pytest.fixture(params=[RUN, "memory://runs/whole", "file://"])
def store(request: pytest.FixtureRequest, buckets: Buckets, tmp_path: Path) -> ObjectStore:
    file = request.param == "file://"
    return ObjectStore((tmp_path / "store").as_uri() if file else request.param)


LARGE = b"0123456789abcdef" * 2**20
"""Goes up in several parts."""


def test_what_cannot_be_read_to_its_end_is_no_object(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def half(source: BinaryIO, stream: BinaryIO, length: int) -> None:
        stream.write(source.read(length))
        raise OSError(5, "the disk is broken")

    source = tmp_path / "model.safetensors"
    source.write_bytes(LARGE)
    monkeypatch.setattr(shutil, "copyfileobj", half)
    with pytest.raises(ObjectStoreError, match="the disk is broken"):
        store.upload(source, "model")
    assert store.read("model") == b""


@pytest.mark.usefixtures("interruptible")
def test_an_object_is_whole_when_its_upload_is_interrupted(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(source: BinaryIO, stream: BinaryIO, length: int) -> None:
        stream.write(source.read(length))
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
        stream.write(source.read())

    source = tmp_path / "model.safetensors"
    source.write_bytes(LARGE)
    monkeypatch.setattr(shutil, "copyfileobj", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.upload(source, "model")
    assert store.read("model") == LARGE
    with pytest.raises(KeyboardInterrupt):
        store.write("text", b"a text")
    assert store.read("text") == b"a text"


def test_what_the_store_refuses_leaves_the_earlier_object(buckets: Buckets, tmp_path: Path) -> None:
    store = ObjectStore(RUN)
    store.write("model", b"earlier")
    (tmp_path / "model").write_bytes(LARGE)
    buckets.writes_left = 0
    for refused in (
        lambda: store.write("model", b"x"),
        lambda: store.upload(tmp_path / "model", "model"),
    ):
        with pytest.raises(ObjectStoreError):
            refused()
    assert store.read("model") == b"earlier"


# --- what is emptied is a copy


@pytest.fixture
def finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    folder = RunFolder(tmp_path / "mine/run")
    wrote_a_stage(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("scheme", ["memory://", "local://", "file://", "memory:///", "local:////"])
def test_the_folder_that_an_address_spells_is_no_copy(
    finished_run: RunFolder, tmp_path: Path, scheme: str
) -> None:
    before = contents(finished_run.root)
    address = f"{scheme}{finished_run.root}"
    assert copy_of(address).is_relative_to(tmp_path / "cache")
    with RunFolder.at(address).locked():
        pass
    RunFolder.at(address).fetched("plan.yaml")
    assert contents(finished_run.root) == before


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/../../run",
        "s3://bucket/a/../run?region=us-east-1",
        "file:///%2e%2e/run",
        "memory://..",
        "../x://run",
        "/runs/x://run",
        "s3://",
        "file:///",
    ],
)
def test_an_address_that_leads_out_of_the_cache_is_refused(address: str) -> None:
    with pytest.raises(ObjectStoreError, match=r"without a part '\.\.'"):
        copy_of(address)
    with pytest.raises(ObjectStoreError, match=r"without a part '\.\.'"):
        RunFolder.at(address)


def test_a_folder_that_was_not_made_for_a_copy_is_left_alone(
    finished_run: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cache among the user's own folders: the copy's place is where a run lies already."""
    finished_run.root.rename(tmp_path / "run")
    (tmp_path / "runs/memory").mkdir(parents=True)
    (tmp_path / "run").rename(tmp_path / "runs/memory/run")
    before = contents(tmp_path / "runs")
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path))
    mirror = Mirror("memory://run")
    for use in (mirror.open, mirror.fetch, lambda: mirror.remove("plan.yaml")):
        with pytest.raises(ObjectStoreError, match=r"memory/run .*move it away, or set RLDF_CACHE"):
            use()
    with (
        pytest.raises(ObjectStoreError, match="of no copy"),
        RunFolder.at("memory://run").locked(),
    ):
        pytest.fail("took a folder of somebody else's")
    assert contents(tmp_path / "runs") == before


def test_a_copy_behind_a_link_is_refused(finished_run: RunFolder, tmp_path: Path) -> None:
    before = contents(finished_run.root)
    Mirror("memory://other").open()
    (tmp_path / "cache/runs/memory/run").symlink_to(finished_run.root)
    with pytest.raises(ObjectStoreError, match="of no copy"):
        Mirror("memory://run").open()
    assert contents(finished_run.root) == before


def test_an_object_whose_name_leads_upwards_is_not_fetched(
    buckets: Buckets, tmp_path: Path
) -> None:
    buckets.objects["bucket"]["runs/one/../../../../planted"] = (b"x", 0.0)
    with pytest.raises(ObjectStoreError, match=r"'\.\./.*planted' would be fetched to another"):
        Mirror(RUN).fetch()
    assert not list(tmp_path.rglob("planted"))


# --- the journal


def test_the_journal_goes_up_in_segments_while_it_grows(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = RunFolder.at(RUN)
    assert folder.mirror is not None
    with folder.locked():
        journal = Journal(folder.path(JOURNAL))
        for i in range(3):
            journal.append(f"d/{i}", {"x": "é" * i})
            folder.mirror.publish_journal()
        folder.mirror.publish_journal()
        assert len([n for n in names(buckets) if n.startswith(JOURNAL)]) == 3
        journal.append("d/last", {"x": 1})
        journal.close()
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    other = RunFolder.at(RUN)
    with other.locked():
        again = Journal(other.path(JOURNAL))
        assert [entry["address"] for entry in again.entries()] == ["d/0", "d/1", "d/2", "d/last"]
        again.append("d/new", {})
        again.close()
    assert len([n for n in names(buckets) if n.startswith(JOURNAL)]) == 5


def test_what_an_endpoint_refused_goes_up_with_the_journal(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left_out = '{"m": {"seed": "no"}}'
    mirror = Mirror(RUN)
    with mirror.held():
        (mirror.root / "journal").mkdir()
        (mirror.root / "journal/left_out.json").write_text(left_out, encoding="utf-8")
        (mirror.root / "journal/debates.jsonl").write_text("scratch", encoding="utf-8")
        mirror.publish_journal()
        assert mirror.store.read("journal/left_out.json").decode() == left_out
    assert "journal/debates.jsonl" not in names(buckets)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
    other = Mirror(RUN)
    with other.held():
        assert (other.root / "journal/left_out.json").read_text("utf-8") == left_out


def test_the_journal_is_uploaded_by_the_clock(buckets: Buckets) -> None:
    mirror = Mirror(RUN, beat_s=0.05)
    with mirror.held():
        path = mirror.root / JOURNAL
        path.parent.mkdir(parents=True)
        path.write_bytes(b'{"address":"a"}\n{"addr')
        deadline = time.monotonic() + 60
        while f"{JOURNAL}/{0:016d}" not in names(buckets):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # A line that is being written stays here until it is whole.
        assert mirror.store.read(f"{JOURNAL}/{0:016d}") == b'{"address":"a"}\n'


def test_calls_that_were_not_uploaded_are_made_again(buckets: Buckets) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        folder.path(JOURNAL).write_bytes(b'{"address":"a"}\n')
    folder.path(JOURNAL).write_bytes(b'{"address":"a"}\n{"address":"b"}\n')
    with folder.locked():
        assert (folder.root / JOURNAL).read_bytes() == b'{"address":"a"}\n'


# --- one program at a time


def test_a_holder_that_lives_is_named(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Mirror(RUN, beat_s=0.05).held(),
        pytest.raises(RunInUseError, match=rf"process {os.getpid()} on .*give another --out"),
        Mirror(RUN, beat_s=1).held(),
    ):
        pytest.fail("held twice")


def test_a_program_that_still_fetches_gives_signs_of_life(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(RUN, beat_s=0.05)

    def slow() -> None:
        deadline = time.monotonic() + 60
        while b'"beat": 0' in mirror.store.read(LOCK):
            assert time.monotonic() < deadline, "no sign of life"
            time.sleep(0.02)

    monkeypatch.setattr(mirror, "open", slow)
    with mirror.held():
        pass
    assert LOCK not in names(buckets)


def test_a_run_that_cannot_be_opened_is_given_back(buckets: Buckets) -> None:
    mirror = Mirror(RUN)
    mirror.store.write(f"{JOURNAL}/{7:016d}", b"{}")
    with pytest.raises(ObjectStoreError, match="has no segment at byte 0"), mirror.held():
        pytest.fail("held a run with a journal of two programs")
    assert names(buckets) == {f"{JOURNAL}/{7:016d}"}
    assert not mirror._holding


def test_a_dead_holder_is_waited_for_and_then_followed(buckets: Buckets) -> None:
    ObjectStore(RUN).write(LOCK, b'{"host": "gone", "pid": 1, "token": "x", "beat": 3}')
    began = time.monotonic()
    with Mirror(RUN, beat_s=0.1).held():
        assert time.monotonic() - began >= 0.3
    assert LOCK not in names(buckets)


def test_a_program_that_lost_the_run_writes_no_more(buckets: Buckets) -> None:
    mirror = Mirror(RUN, beat_s=0.05)
    other = b'{"host": "other", "pid": 1, "token": "other", "beat": 1}'

    def lose_it() -> None:
        with mirror.held():
            # A beat that has just looked writes once more; then it sees the other's.
            deadline = time.monotonic() + 60
            while not mirror._lock.lost:
                assert time.monotonic() < deadline
                mirror.store.write(LOCK, other)
                time.sleep(0.1)
            (mirror.root / "plan.yaml").write_text("late", encoding="utf-8")

    with pytest.raises(RunInUseError, match="another program has taken the run over"):
        lose_it()
    assert names(buckets) == {LOCK}
    assert mirror.store.read(LOCK) == other


@pytest.mark.parametrize("content", [b"{torn", b"[1]", b"\xff"])
def test_a_lock_that_says_nothing_is_a_dead_programs(buckets: Buckets, content: bytes) -> None:
    lock = StoreLock(ObjectStore(RUN), beat_s=0.01)
    ObjectStore(RUN).write(LOCK, content)
    with pytest.raises(RunInUseError, match="in use by another rldf program"):
        lock.check()
    lock.take()
    lock.check()


def test_two_programs_of_one_machine_need_no_store_to_exclude_each_other(buckets: Buckets) -> None:
    with (
        RunFolder.at(RUN).locked(),
        pytest.raises(RunInUseError, match=f"{RUN} is in use"),
        RunFolder.at(RUN).locked(),
    ):
        pytest.fail("locked twice")


def test_a_reader_beside_a_program_of_this_machine_takes_nothing_from_it(buckets: Buckets) -> None:
    with RunFolder.at(RUN).locked():
        mine = RunFolder.at(RUN)
        wrote_a_stage(mine)
        mine.write_text("data/topics.parquet", "newer")
        mine.write_text("data/sft.parquet", "not uploaded yet")
        theirs = RunFolder.at(RUN)
        for name in ("data", "data/sft.parquet"):
            theirs.fetched(name)
        read = [(theirs.root / f"data/{n}.parquet").read_text("utf-8") for n in ("topics", "sft")]
        assert read == ["newer", "not uploaded yet"]


# --- errors that help


def test_a_store_that_is_silent_for_seconds_is_waited_for(buckets: Buckets) -> None:
    ObjectStore("s3://bucket/runs").write("one", b"content")
    buckets.list_delay_s = 6
    assert set(ObjectStore("s3://bucket/runs").list()) == {"one"}


def test_a_missing_bucket_is_named_before_any_work(buckets: Buckets) -> None:
    with (
        pytest.raises(ObjectStoreError, match="make the bucket 'nowhere' first"),
        RunFolder.at("s3://nowhere/run").locked(),
    ):
        pytest.fail("held a run in no bucket")


def test_refused_credentials_say_where_they_come_from(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "denied")
    with (
        pytest.raises(ObjectStoreError, match=r"AWS_PROFILE, .*list, read, write and delete"),
        RunFolder.at(RUN).locked(),
    ):
        pytest.fail("held a run it may not read")


def test_unknown_kinds_of_stores_are_refused() -> None:
    with pytest.raises(ObjectStoreError, match=r"allowed: s3://, gs://"):
        ObjectStore("nosuch://bucket/run")


def test_fsspec_stores_hold_runs_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path))
    store = ObjectStore("memory://runs/one")
    store.write("a/b.txt", b"x")
    assert store.read("a/b.txt") == b"x" and list(store.list()) == ["a/b.txt"]
    store.delete("a/b.txt")
    assert store.list() == {} and store.stat("a/b.txt") is None
