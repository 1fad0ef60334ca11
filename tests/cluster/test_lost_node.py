"""A node is lost in the middle of debates: the others go on, and every statement is there once.

Ray's own cluster of several raylets on one machine; real hosts are in test_hosts.py. The run is in
a bucket, and is read on a machine that has nothing of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from rldf_ray.storage.journal import Journal
from rldf_ray.storage.mirror import JOURNAL, copy_of
from rldf_ray.storage.run_folder import RunFolder
from tests.s3_server import as_environment, s3_server

pytestmark = pytest.mark.cluster

RUN = "s3://bucket/run"
DEBATES, ROLES, ROUNDS = 24, 3, 4
COMMAND = [
    str(Path(sys.executable).with_name("rldf")), "debate", RUN, "--plan", "smoke",
    "--set", "teacher=scripted:0.3", "--set", f"debate.debates={DEBATES}",
    "--set", f"debate.rounds={ROUNDS}", "--set", "engines.count=3",
    "--set", "referee.kind=prompted",
]  # fmt: skip


def calls(copy: Path) -> int:
    path = copy / JOURNAL
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_node_is_lost_in_the_middle_of_debates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    with s3_server("bucket") as (url, _):
        settings = as_environment(url) | {"RLDF_CACHE": str(tmp_path / "driver")}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        nodes = [cluster.add_node(num_cpus=2) for _ in range(3)]
        log = (tmp_path / "log").open("w+", encoding="utf-8")
        process = subprocess.Popen(
            COMMAND, env=os.environ | {"RAY_ADDRESS": cluster.address}, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + 900
            while calls(copy_of(RUN)) < 100 and process.poll() is None:
                assert time.monotonic() < deadline, "the run made no progress"
                time.sleep(0.05)
            assert process.poll() is None, "the run ended before a node could be lost"
            cluster.remove_node(nodes[0], allow_graceful=False)
            assert process.wait(900) == 0, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
        finally:
            process.kill()
            cluster.shutdown()
            log.close()
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "another machine"))
        _every_statement_is_there_once()


def _every_statement_is_there_once() -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        rows = folder.read_table("data/transcripts.parquet").to_pylist()
        journal = Journal(folder.path(JOURNAL))
        addresses = Counter(entry["address"] for entry in journal.entries())
        journal.close()
    assert len({(row["debate_id"], row["round"], row["role"]) for row in rows}) == len(rows)
    assert len(rows) == DEBATES * ROLES * ROUNDS
    assert set(addresses.values()) == {1}, "a finished call was made again"
