"""An import that is cut off anywhere: given again it ends as if nothing had been, and no run goes
on from what is there meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray import cli
from rldf_ray.dataset.begin_run import Given, import_run
from rldf_ray.plan.saved import settle_plan
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.unfinished import MARK
from rldf_ray.topics.overlap import NOTHING_EVALUATED
from tests.dataset.test_begin_run import PAIRS, PLAN, STATEMENTS, TOPICS, file
from tests.golden.content import hashes_of
from tests.s3_server import as_environment, s3_server

WRITERS = ("write_text", "write_table", "write_batches", "remove")


class KilledError(BaseException):
    """No handler of errors stops it."""


class Killer:
    """Kills before, or right after, the n-th time that anything is written or removed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self.after = False
        for name in WRITERS:
            monkeypatch.setattr(RunFolder, name, self._killing(getattr(RunFolder, name)))

    def _killing(self, write: Any) -> Any:
        def writing(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise KilledError
            written = write(*args, **kwargs)
            if self.left == 0:
                raise KilledError
            return written

        return writing


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    return Killer(monkeypatch)


def import_into(run: RunFolder, given: Given) -> dict[str, str]:
    import_run(PLAN, run, given, NOTHING_EVALUATED)
    return hashes_of(run.root, "")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("name", "rows"), [("topics", TOPICS), ("transcripts", STATEMENTS), ("pairs", PAIRS)]
)
def test_an_import_that_was_killed_anywhere_can_be_given_again(
    name: str, rows: Any, after: bool, tmp_path: Path, killer: Killer
) -> None:
    given = Given(**{name: file(tmp_path, rows)})
    whole = import_into(RunFolder(tmp_path / "whole"), given)
    assert "/plan.yaml" in whole and f"/{MARK}" not in whole
    for step in range(1, 100):
        run = RunFolder(tmp_path / str(step))
        killer.left, killer.after = step, after
        try:
            import_into(run, given)
            break
        except KilledError:
            killer.left = -1
        if hashes_of(run.root, "") == whole:  # after the last step, which is too late
            continue
        if any((run.root / there).exists() for there in ("plan.yaml", "stages", "data")):
            with pytest.raises(RunFolderError, match="an import that has not ended"):
                settle_plan(PLAN, run)
        assert import_into(run, given) == whole
    assert step > 5


def test_no_command_goes_on_from_half_an_import(
    tmp_path: Path, killer: Killer, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    given = Given(transcripts=file(tmp_path, STATEMENTS))
    run = RunFolder(tmp_path / "run")
    # The mark, what was there before, the plan, the topics and their manifest.
    killer.left, killer.after = 7, True
    with pytest.raises(KilledError):
        import_into(run, given)
    assert (run.root / "stages/topics.json").exists()
    assert not (run.root / "data/transcripts.parquet").exists()
    for words in (["run", "smoke", "--out"], ["data"], ["debate"], ["report"], ["train", "sft"]):
        monkeypatch.setattr("sys.argv", ["rldf", *words, str(run.root)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr().err
        assert ended.value.code == 1 and said.count("\n") == 1
        assert f"{run.root} holds an import that has not ended" in said


def test_an_import_into_a_bucket_can_be_given_again(
    tmp_path: Path, killer: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another machine, which has nothing of it."""
    given = Given(transcripts=file(tmp_path, STATEMENTS))
    with s3_server("bucket") as (url, buckets):
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "here"))
        killer.left, killer.after = 7, True
        with pytest.raises(KilledError):
            import_into(RunFolder.at("s3://bucket/run"), given)
        assert f"run/{MARK}" in buckets.objects["bucket"]
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "there"))
        other = RunFolder.at("s3://bucket/run")
        with pytest.raises(RunFolderError, match="has not ended"), other.locked():
            settle_plan(PLAN, other)
        import_into(other, given)
        assert {"run/stages/debates.json", "run/plan.yaml"} <= set(buckets.objects["bucket"])
        assert f"run/{MARK}" not in buckets.objects["bucket"]
