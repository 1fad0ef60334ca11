"""A run below another one's address: whoever works on the outer run leaves it alone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.journal_segments import JOURNAL
from rldf_ray.storage.nested_runs import MARKS, is_within, runs_among, runs_on_disk
from rldf_ray.storage.run_folder import RunFolder
from tests.s3_server import Buckets

OUTER, INNER = "s3://bucket/run", "s3://bucket/run/seeds/2"


def asked(folder: RunFolder, address: str) -> None:
    """A call of a model is finished in the run."""
    journal = Journal(folder.path(JOURNAL))
    journal.append(address, {"of": folder.where})
    journal.close()


def spoken(where: str) -> None:
    folder = RunFolder.at(where)
    with folder.locked():
        folder.write_text("plan.yaml", f"name: {where}\n")
        folder.write_text("audit.json", f'"{where}"')
        folder.path("sft/model/weights").write_text(where, encoding="utf-8")
        folder.write_text("sft/rows.json", "{}")
        asked(folder, "d/1")


def objects(buckets: Buckets) -> dict[str, bytes]:
    return {name: content for name, (content, _) in buckets.objects["bucket"].items()}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_run_below_another_is_still_a_run_once_that_was_opened(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, elsewhere: bool
) -> None:
    spoken(OUTER)
    spoken(INNER)
    before = {n: c for n, c in objects(buckets).items() if n.startswith("run/seeds/2/")}
    if elsewhere:
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "elsewhere"))
    outer = RunFolder.at(OUTER)
    with outer.locked():
        assert (outer.root / "audit.json").exists()
        assert (outer.root / "seeds/2/audit.json").exists() is not elsewhere
    inner = RunFolder.at(INNER)
    with inner.locked():
        journal = Journal(inner.path(JOURNAL))
        entry = journal.get("d/1")
        assert entry is not None and entry["of"] == INNER
        journal.append("d/2", {})
        journal.close()
    with outer.locked(), inner.locked():
        assert len(Journal(inner.path(JOURNAL))) == 2
    assert {name: objects(buckets)[name] for name in before} == before


def test_what_a_live_run_below_has_not_uploaded_is_neither_dropped_nor_uploaded(
    buckets: Buckets,
) -> None:
    spoken(OUTER)
    inner = RunFolder.at(INNER)
    with inner.locked():
        inner.write_text("audit.json", "mine")
        asked(inner, "d/1")
        outer = RunFolder.at(OUTER)
        with outer.locked():
            outer.write_text("report.json", "{}")
            outer.fetched("")
            assert (inner.root / "audit.json").read_text(encoding="utf-8") == "mine"
            assert Journal(inner.root / JOURNAL).get("d/1") is not None
        assert "run/seeds/2/audit.json" not in objects(buckets)
    assert objects(buckets)["run/seeds/2/audit.json"] == b"mine"


def test_a_run_of_which_only_its_journal_was_uploaded_is_left_alone(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    buckets.objects["bucket"][f"run/seeds/2/{JOURNAL}/{0:016d}"] = (b'{"address":"a"}\n', 0.0)
    outer = RunFolder.at(OUTER)
    with outer.locked():
        assert not (outer.root / "seeds").exists()
    inner = RunFolder.at(INNER)
    with inner.locked():
        assert (inner.root / JOURNAL).read_bytes() == b'{"address":"a"}\n'


def test_a_copy_whose_journal_became_a_folder_is_mended(buckets: Buckets) -> None:
    spoken(INNER)
    inner = RunFolder.at(INNER)
    (inner.root / JOURNAL).unlink()
    shutil.copytree(inner.root / "sft", inner.root / JOURNAL)
    with inner.locked():
        assert Journal(inner.root / JOURNAL).get("d/1") is not None


names = st.sampled_from(["a", "b", "seeds", "2", "calls", "x.yaml"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@settings(max_examples=25)
@given(runs=st.dictionaries(paths, st.sampled_from(MARKS)), others=st.sets(paths))
def test_runs_are_found_in_a_store_as_on_a_disk(runs: dict[str, str], others: set[str]) -> None:
    files = {f"{run}/{mark}" for run, mark in runs.items()} | {f"{one}/file" for one in others}
    outermost = {
        run for run in runs if not any(str(up) in runs for up in PurePosixPath(run).parents)
    }
    assert {run for run in runs_among(files) if not is_within(run, outermost)} == outermost
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        assert runs_on_disk(Path(folder)) == outermost
        for run in outermost:
            inside = {file for file in files if file.startswith(f"{run}/")}
            # Its own files, where it is asked for itself.
            assert f"{run}/{runs[run]}" in inside
            assert not is_within(f"{run}/{runs[run]}", runs_among(inside, run))
            assert runs_on_disk(Path(folder), run) <= runs_among(inside, run)
