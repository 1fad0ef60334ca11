"""Folders whose names libraries would take for patterns are found under a link."""

from __future__ import annotations

from glob import glob
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.models.embedded import resolve_model
from rldf_ray.storage.plain_path import PathError, plain_path

ODD = ["run [v2]", "[v2]", "a*b", "what?", "a[!b]", "**", "[[", "a::b"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["run", "run v2", "a%20b", "é {x,y}", "a:b"])
def test_other_paths_stay_as_they_are(tmp_path: Path, cache: Path, name: str) -> None:
    assert plain_path(tmp_path / name) == str(tmp_path / name)
    assert plain_path("s/q") == "s/q"
    assert not cache.exists()


@pytest.mark.parametrize("name", ODD)
def test_libraries_find_what_lies_there_and_nothing_else(tmp_path: Path, name: str) -> None:
    from datasets import Dataset

    folder = tmp_path / name
    decoy = tmp_path / "axb"
    for where, value in ((folder, 1), (decoy, 2)):
        where.mkdir()
        pq.write_table(pa.table({"a": [value]}), where / "sft.parquet")
    plain = plain_path(folder)
    assert glob(f"{plain}/*.parquet") == [f"{plain}/sft.parquet"]  # noqa: PTH207 - as they do
    data = Dataset.from_parquet(f"{plain}/sft.parquet", cache_dir=str(tmp_path / "rows"))
    assert data["a"][:] == [1]
    # What is written lies where it was meant to.
    (Path(plain) / "new").write_text("x", encoding="utf-8")
    assert (folder / "new").exists()


def test_a_folder_has_one_link(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = tmp_path / "run [v2]", tmp_path / "run [v3]"
    monkeypatch.chdir(tmp_path)
    assert plain_path(folder) == plain_path(str(folder)) == plain_path("run [v2]")
    assert plain_path(folder) != plain_path(other)
    assert len(list((cache / "links").iterdir())) == 2
    Path(plain_path(folder)).unlink()
    Path(plain_path(other)).replace(cache / "links" / Path(plain_path(folder)).name)
    assert Path(plain_path(folder)).readlink() == folder


def test_a_models_folder_is_named_by_its_link(tmp_path: Path) -> None:
    model = tmp_path / "models [mine]/m"
    model.mkdir(parents=True)
    (model / "config.json").touch()
    found = resolve_model(str(model))
    assert glob(f"{found}/*.json") == [f"{found}/config.json"]  # noqa: PTH207 - as they do
    assert resolve_model(found) == found


def test_a_cache_that_would_be_misread_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache [1]"))
    assert plain_path(tmp_path) == str(tmp_path)
    with pytest.raises(PathError, match="set RLDF_CACHE to a folder without"):
        plain_path(tmp_path / "run [v2]")
