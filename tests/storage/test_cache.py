"""Where the cache lies, and what is said where it cannot lie there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.hub import downloaded
from rldf_ray.models.embedded import embedded_model_folder, resolve_model
from rldf_ray.storage.cache import CacheError, cache_root, writable_cache
from rldf_ray.storage.mirror import Mirror


def test_the_variable_moves_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RLDF_CACHE", "")
    assert cache_root() == tmp_path / ".cache/rldf_ray"
    monkeypatch.setenv("RLDF_CACHE", "~/other")
    assert writable_cache("runs") == tmp_path / "other/runs"
    assert (tmp_path / "other/runs").is_dir()


@pytest.mark.parametrize(
    "use",
    [
        embedded_model_folder,
        lambda: downloaded("https://nowhere.invalid"),
        Mirror("memory://bucket/run").claim,
    ],
    ids=["embedded model", "BBQ", "run in a store"],
)
def test_one_that_cannot_be_written_is_named_with_the_variable(
    use: Callable[[], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("no folder", encoding="utf-8")
    monkeypatch.delenv("RLDF_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(CacheError, match=r"home/\.cache/rldf_ray cannot be .*set RLDF_CACHE to"):
        use()


def test_a_user_without_a_home_is_told_the_variable_where_the_cache_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RLDF_CACHE", raising=False)
    monkeypatch.setenv("HOME", "~")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(CacheError, match="no home folder for the cache: set RLDF_CACHE"):
        embedded_model_folder()
    (tmp_path / "config.json").touch()
    assert resolve_model(str(tmp_path)) == str(tmp_path)
    assert resolve_model("org/model") == "org/model"
