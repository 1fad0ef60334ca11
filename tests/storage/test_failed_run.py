"""A run in a bucket that fails: what tells why is there for whoever looks, and nothing torn."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from rldf_ray.errors import UserError
from rldf_ray.storage.journal_segments import JOURNAL
from rldf_ray.storage.lock import LOCK
from rldf_ray.storage.mirror import Mirror
from rldf_ray.storage.object_store import ObjectStore
from rldf_ray.storage.run_folder import RunFolder
from tests.s3_server import Buckets

RUN = "s3://bucket/run"
TOLD = {"audit.json", "eval/referee.parquet", "logs/ray/engine.log", "sft/progress.jsonl"}
TORN = {"sft/model/weights", "ppo/checkpoints/step-1/shard", "model/weights", "eval/.scratch"}


class BrokenError(UserError):
    """What ends the work."""


def failing(error: type[BaseException] = BrokenError) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        for name in sorted(TOLD | TORN):
            folder.path(name).write_text(name, encoding="utf-8")
        folder.path(JOURNAL).write_bytes(b'{"address":"a"}\n')
        raise error("as it were")


def names(buckets: Buckets) -> set[str]:
    return {name.removeprefix("run/") for name in buckets.objects["bucket"] if name[-1] != "/"}


@pytest.mark.parametrize("error", [BrokenError, ValueError, KeyboardInterrupt, SystemExit])
def test_what_tells_why_a_run_failed_is_in_the_bucket_and_stays(
    buckets: Buckets, error: type[BaseException]
) -> None:
    with pytest.raises(error, match="as it were"):
        failing(error)
    assert names(buckets) == TOLD | {f"{JOURNAL}/{0:016d}"}
    again = RunFolder.at(RUN)
    with again.locked():
        assert {name for name in TOLD | TORN if (again.root / name).exists()} == TOLD | {
            "eval/.scratch"
        }


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_store_that_takes_nothing_more_hides_no_reason(
    buckets: Buckets, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    buckets.writes_left = writes
    with pytest.raises(BrokenError, match="as it were"):
        failing()
    assert LOCK not in names(buckets)


def test_a_store_that_is_gone_hides_no_reason(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object) -> None:
        raise OSError(113, "No route to host")

    def hold() -> None:
        with RunFolder.at(RUN).locked():
            for does in ("write", "upload", "delete", "list", "stat"):
                monkeypatch.setattr(ObjectStore, does, gone)
            raise BrokenError("as it were")

    with pytest.raises(BrokenError, match="as it were"):
        hold()


@pytest.mark.parametrize("fails", [False, True])
def test_what_another_machine_has_written_since_is_not_overwritten(
    buckets: Buckets, fails: bool
) -> None:
    """A driver has fetched what the workers of a job, elsewhere, go on writing."""
    name, driver = "ppo/progress.jsonl", Mirror(RUN)
    driver.store.write(name, b"one\n")

    def work() -> None:
        with driver.held():
            assert (driver.root / name).read_bytes() == b"one\n"
            driver.store.write(name, b"one\ntwo\n")
            if fails:
                raise BrokenError

    with pytest.raises(BrokenError) if fails else nullcontext():
        work()
    assert driver.store.read(name) == b"one\ntwo\n"


def test_what_was_fetched_and_then_changed_goes_up(buckets: Buckets) -> None:
    driver = Mirror(RUN)
    driver.store.write("report.json", b"{}")
    with driver.held():
        (driver.root / "report.json").write_text("[]", encoding="utf-8")
        driver.store.write("report.json", b"{  }")
    assert driver.store.read("report.json") == b"[]"
