"""The run folder and the journal: whole or not there, and never used by two programs at once."""

from __future__ import annotations

import errno
import hashlib
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rldf_ray.storage.digest import digest, file_digest
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.lock import RunInUseError
from rldf_ray.storage.run_folder import RunFolder, RunFolderError, UnreadableFileError

ROOT = Path(__file__).resolve().parents[2]
HOLD_THE_LOCK = """
import sys
from pathlib import Path
from rldf_ray.storage.lock import RunInUseError
from rldf_ray.storage.run_folder import RunFolder

with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


WRITE_AND_READ = """
import sys
from pathlib import Path
from rldf_ray.storage.lock import RunInUseError
from rldf_ray.storage.run_folder import RunFolder

folder = RunFolder(Path(sys.argv[1]))
folder.write_text("a.txt", "\\u2212\\u4e16")
folder.write_json("stages/topics.json", {"x": 1})
assert folder.manifest("topics") == {"x": 1}
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- files


def test_text_json_and_tables_come_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    table = pa.table({"id": ["a", "b"], "score": [1.5, None]})
    assert folder.write_text("notes/a.txt", "häßlich\n").read_text(encoding="utf-8") == "häßlich\n"
    folder.write_json("b.json", {"x": [1, None, 0.1]})
    folder.write_table("data/c.parquet", table)
    assert folder.read_json("b.json") == {"x": [1, None, 0.1]}
    assert folder.read_table("data/c.parquet").equals(table)


@pytest.mark.parametrize("content", [b"", b"PAR1 half", b"\xff\xfe"])
def test_a_torn_file_is_named_with_the_stage_that_makes_it_anew(
    tmp_path: Path, content: bytes
) -> None:
    folder = RunFolder(tmp_path)
    for name in ("data/sft.parquet", "stages/ppo.json", "report.json"):
        folder.path(name).write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"sft\.parquet cannot .* the stage data again"):
        folder.read_table("data/sft.parquet")
    with pytest.raises(UnreadableFileError, match=r"ppo\.json cannot .* the stage ppo again"):
        folder.manifest("ppo")
    with pytest.raises(UnreadableFileError, match=r"report\.json cannot .*`rldf report` writes"):
        folder.read_object("report.json")


def test_a_file_of_another_kind_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_table("data/topics.parquet", pa.table({"a": [1], "b": ["x"]}))
    folder.write_json("stages/ppo.json", [1])
    folder.write_json("report.json", {"a": 1})
    with pytest.raises(UnreadableFileError, match="no column c"):
        folder.read_table("data/topics.parquet", pa.schema([("a", pa.int64()), ("c", pa.int64())]))
    with pytest.raises(UnreadableFileError, match=r"'?x'?.*the stage topics again"):
        folder.read_table("data/topics.parquet", pa.schema([("b", pa.int64())]))
    with pytest.raises(UnreadableFileError, match="expected an object, not list"):
        folder.manifest("ppo")
    with pytest.raises(UnreadableFileError, match="without 'notes'"):
        folder.read_object("report.json", ("a", "notes"))


def test_text_is_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", WRITE_AND_READ, tmp_path], env=locale, check=True)
    assert (tmp_path / "a.txt").read_bytes() == "−世".encode()


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[: len(text) // 2].encode(encoding))
        raise OSError(errno.ENOSPC, "no space")

    folder = RunFolder(tmp_path)
    folder.write_text("a.txt", "old")
    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'"):
        folder.write_text("a.txt", "new and longer")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_is_said_with_the_files_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    writes = {
        "a.txt": lambda: folder.write_text("a.txt", "x" * 10_000),
        "b.parquet": lambda: folder.write_table("b.parquet", pa.table({"a": range(10_000)})),
    }
    for name, write in writes.items():
        with files_no_longer_than(100), pytest.raises(OSError, match=str(tmp_path / name)):
            write()
    assert names(tmp_path) == []


def test_a_file_is_whole_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("a.txt", "old")
    seen = []
    replace = Path.replace

    def watched(scratch: Path, target: Path) -> Path:
        seen.append((target.read_text(encoding="utf-8"), scratch.read_text(encoding="utf-8")))
        return replace(scratch, target)

    monkeypatch.setattr(Path, "replace", watched)
    folder.write_text("a.txt", "new")
    assert seen == [("old", "new")]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new"


def test_a_missing_table_names_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="run the stage that writes it"):
        RunFolder(tmp_path).read_table("pairs.parquet")


def test_a_fresh_folder_is_empty(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (folder.fresh_folder("checkpoint/deep") / "half").write_text("x", encoding="utf-8")
    assert names(folder.fresh_folder("checkpoint/deep")) == []


def test_a_fresh_folder_keeps_what_it_is_asked_to(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for name in ("ppo/rewards-a-0.jsonl", "ppo/rewards.json", "ppo/model/rewards-b.jsonl"):
        folder.write_text(name, "x")
    assert names(folder.fresh_folder("ppo", "rewards-*.jsonl")) == ["rewards-a-0.jsonl"]
    assert names(folder.fresh_folder("ppo", "none-*")) == []
    assert names(folder.fresh_folder("new", "none-*")) == []


# --- manifests


def test_a_stage_is_finished_when_its_manifest_is_there(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.manifest("sft") is None
    folder.finish("sft", "k1", {"steps": 7})
    manifest = folder.manifest("sft")
    assert manifest is not None
    finished_at = manifest.pop("finished_at")
    assert manifest == {"stage": "sft", "key": "k1", "steps": 7}
    assert finished_at.endswith("Z")
    assert folder.manifest("ppo") is None


def test_finishing_again_replaces_the_manifest(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.finish("sft", "k1", {"steps": 7})
    folder.finish("sft", "k2", {})
    manifest = folder.manifest("sft")
    assert manifest is not None
    assert manifest["key"] == "k2" and "steps" not in manifest


# --- the lock


def test_a_folder_is_locked_by_one_program(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with (
        folder.locked(),
        pytest.raises(RunInUseError, match="in use by another"),
        folder.locked(),
    ):
        pytest.fail("locked twice")
    with folder.locked():
        pass


def test_the_lock_goes_with_a_killed_program(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    ) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == b"locked\n"
            with pytest.raises(RunInUseError), folder.locked():
                pass
        finally:
            program.kill()
    with folder.locked():
        pass


# --- the journal

OPEN: list[Journal] = []


def opened(path: Path) -> Journal:
    """A journal that is closed after the test."""
    OPEN.append(Journal(path))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def _no_journal_stays_open() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def test_a_journal_is_read_again_when_opened_again(tmp_path: Path) -> None:
    journal = opened(tmp_path / "deep" / "journal.jsonl")
    journal.append("a", {"x": 1})
    journal.append("b", {"x": 2})
    journal.append("a", {"x": 3})
    again = opened(tmp_path / "deep" / "journal.jsonl")
    assert len(again) == 2
    assert again.get("a") == {"address": "a", "x": 3}
    assert again.get("b") == {"address": "b", "x": 2}
    assert again.get("c") is None


def test_a_line_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    opened(path).append("a", {"x": "é\n"})
    assert json.loads(path.read_bytes()) == {"address": "a", "x": "é\n"}
    assert path.read_bytes().count(b"\n") == 1


@settings(deadline=None, max_examples=60)
@given(data=st.data(), entries=st.lists(st.text(max_size=8), min_size=1, max_size=5))
def test_a_torn_last_line_is_cut(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, entries: list[str]
) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    journal = opened(path)
    for i, text in enumerate(entries):
        journal.append(str(i), {"x": text})
    content = path.read_bytes()
    left = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:left])

    again = opened(path)
    whole = content[:left].count(b"\n")
    assert len(again) == whole
    again.append("next", {"x": "y"})
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["x"] for line in lines] == [*entries[:whole], "y"]


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """What a full disk does: writes come back short, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_line_that_does_not_fit_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = opened(path)
    journal.append("a", {"x": 1})
    before = path.read_bytes()
    for room in (0, 5):
        with (
            files_no_longer_than(len(before) + room),
            pytest.raises(OSError, match=r"(File too large|No space left).*journal.jsonl"),
        ):
            journal.append("b", {"x": 2})
        assert path.read_bytes() == before
        assert journal.get("b") is None
    journal.append("c", {"x": 3})
    assert len(opened(path)) == 2


# --- digests


def test_digests_are_the_same_on_every_machine() -> None:
    assert digest("a", {"b": 1, "c": (2.5, None)}) == "df93b7630f63c62e"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=3), json_values, max_size=4))
def test_digests_know_no_order_of_keys_and_no_tuples(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert digest(turned) == digest(value)
    assert digest(list(value)) == digest(tuple(value))


@settings(deadline=None, max_examples=60)
@given(json_values, json_values)
def test_digests_differ_where_values_do(one: object, other: object) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest(one) == digest(other)) == same


def test_parts_do_not_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")


def test_file_digest_is_sha256(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 100_000)
    assert file_digest(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_a_journal_holds_places_and_forgets_a_finished_debate(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = opened(path)
    for debate in ("a", "b"):
        for call in range(3):
            journal.append(f"{debate}/round/{call}", {"x": f"{debate}{call}"})
    journal.forget("a")
    assert journal.get("a/round/1") is None and len(journal) == 3
    assert journal.get("b/round/2") == {"address": "b/round/2", "x": "b2"}
    assert [entry["x"] for entry in journal.entries()] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert len(opened(path)) == 6


@given(addresses=st.lists(st.text(), unique=True, max_size=20))
@example(addresses=["a", "a/", "/", ""])
@settings(deadline=None, max_examples=25)
def test_any_address_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, addresses: list[str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "journal.jsonl"
    journal = opened(path)
    for i, address in enumerate(addresses):
        journal.append(address, {"x": i})
    again = opened(path)
    assert [again.get(a) for a in addresses] == [
        {"address": a, "x": i} for i, a in enumerate(addresses)
    ]


@pytest.mark.parametrize("places", [[], [0], [3, 4], [0, 5, 6, 11], [11], [*range(12)]])
def test_rows_are_read_by_their_places(places: list[int], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    whole = pa.table({"a": range(12), "b": [str(i) for i in range(12)]})
    folder.write_batches("t.parquet", whole.schema, whole.to_batches(5))
    for columns in (None, pa.schema([whole.schema.field("b")])):
        found = folder.read_rows("t.parquet", places, columns)
        assert found.column_names == (["a", "b"] if columns is None else ["b"])
        assert found["b"].to_pylist() == [str(place) for place in places]
    folder.write_batches("empty.parquet", whole.schema, [])
    assert folder.read_rows("empty.parquet", []).column_names == ["a", "b"]


def test_columns_that_earlier_versions_did_not_write_are_null(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_table("a.parquet", pa.table({"b": [1, 2], "a": ["x", "y"]}))
    schema = pa.schema([("a", pa.string()), ("later", pa.bool_()), ("b", pa.int64())])
    table = folder.read_table("a.parquet", schema, later=["later"])
    assert table.schema == schema
    assert table.to_pydict() == {"a": ["x", "y"], "later": [None, None], "b": [1, 2]}
    folder.write_table("a.parquet", pa.table({"a": ["x"]}))
    with pytest.raises(UnreadableFileError, match="no column b"):
        folder.read_table("a.parquet", schema, later=["later"])


def test_batches_have_the_columns_asked_for_or_the_file_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    table = pa.table({"a": range(12), "b": [str(i) for i in range(12)]})
    folder.write_table("data/pairs.parquet", table)
    assert [b.num_rows for b in folder.read_batches("data/pairs.parquet", size=5)] == [5, 5, 2]
    assert folder.table_metadata("data/pairs.parquet").num_rows == 12
    with pytest.raises(UnreadableFileError, match=r"pairs.parquet .*no column c"):
        next(folder.read_batches("data/pairs.parquet", pa.schema([("c", pa.string())])))
    (tmp_path / "data/pairs.parquet").write_bytes(b"PAR1 torn")
    for read in (lambda: next(folder.read_batches("data/pairs.parquet")),
                 lambda: folder.table_metadata("data/pairs.parquet")):  # fmt: skip
        with pytest.raises(UnreadableFileError, match=r"pairs.parquet .*stage data"):
            read()
