"""What the page can read of a run: filters, one debate, before and after, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from rldf_ray.storage.run_folder import RunFolder
from tests.serve.a_run import write_run
from tests.serve.conftest import Start


@pytest.fixture
def client(start: Start, tmp_path: Path) -> TestClient:
    return start(runs=[str(write_run(tmp_path / "small"))]).client


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({}, 8),
        ({"bias_type": "age"}, 4),
        ({"identity": "old person"}, 4),
        ({"round": 2}, 4),
        ({"label": "high", "bias_type": "beauty"}, 2),
        ({"least": 3}, 4),
        ({"most": 1.1}, 2),
        ({"least": 1.15, "most": 1.3}, 2),
        ({"offset": 7}, 8),
        ({"bias_type": "none"}, 0),
    ],
)
def test_statements_are_filtered(client: TestClient, query: dict[str, Any], number: int) -> None:
    found = client.get("/v1/runs/small/statements", params=query).json()
    assert found["total"] == number and found["score"] == "expected_score"
    assert len(found["data"]) == max(0, number - query.get("offset", 0))
    assert found["facets"]["round"] == [1, 2]
    if "identity" in query:
        assert {row["identity"] for row in found["data"]} == {"old person"}


def test_a_debate_comes_in_its_order(client: TestClient) -> None:
    rows = client.get("/v1/runs/small/debates/d1").json()["data"]
    assert [(row["round"], row["role"]) for row in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert client.get("/v1/runs/small/debates/d9").status_code == 404


def test_answers_stand_side_by_side(client: TestClient) -> None:
    (entry,) = client.get("/v1/runs/small/answers").json()["data"]
    assert list(entry["models"]) == ["base", "sft", "policy"]
    assert entry["models"]["policy"]["reward"] == 1.0


def test_the_report_runs_no_script(client: TestClient) -> None:
    reply = client.get("/v1/runs/small/report.html")
    assert reply.headers["content-security-policy"] == "sandbox"
    assert client.get("/v1/runs/small/report").json()["run"]["name"] == "small"


@pytest.mark.parametrize("name", ["other", "..", "%2e%2e", "..%2f..%2fetc", "small%00"])
def test_only_named_runs_are_read(client: TestClient, name: str) -> None:
    for part in ("report", "statements", "answers"):
        assert client.get(f"/v1/runs/{name}/{part}").status_code in (400, 404)


@pytest.mark.parametrize("query", ["round=x", "least=nan", "least=11", "offset=-1", "label=no"])
def test_a_wrong_filter_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/runs/small/statements?{query}").status_code == 400


def test_a_run_that_has_not_come_so_far_says_so(start: Start, tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    client = start(runs=[str(tmp_path / "begun")]).client
    for part in ("report", "report.html", "statements", "answers", "debates/d0"):
        reply = client.get(f"/v1/runs/begun/{part}")
        assert reply.status_code == 404 and "yet" in reply.json()["error"]["message"]


@pytest.mark.parametrize(("stage", "part"), [("eval", "answers"), ("debates", "statements")])
def test_what_a_stage_that_is_done_anew_has_left_is_not_shown(
    start: Start, tmp_path: Path, stage: str, part: str
) -> None:
    run = RunFolder(write_run(tmp_path / "small"))
    run.remove(f"stages/{stage}.json")
    client = start(runs=[str(run.root)]).client
    for other in ("answers", "statements"):
        status = 404 if other == part else 200
        assert client.get(f"/v1/runs/small/{other}").status_code == status


@pytest.mark.parametrize("content", [b"", b"PAR1 half", b"\xff\xfe{"])
@pytest.mark.parametrize(
    ("part", "name", "what"),
    [
        ("statements", "data/transcripts.parquet", "do the stage debates again"),
        ("debates/d0", "data/transcripts.parquet", "do the stage debates again"),
        ("answers", "eval/answers.parquet", "do the stage eval again"),
        ("report", "report.json", "`rldf report` writes it again"),
    ],
)
def test_a_torn_file_is_named_and_is_no_missing_one(
    start: Start, tmp_path: Path, part: str, name: str, what: str, content: bytes
) -> None:
    (write_run(tmp_path / "small") / name).write_bytes(content)
    client = start(runs=[str(tmp_path / "small")]).client
    reply = client.get(f"/v1/runs/small/{part}")
    message = reply.json()["error"]["message"]
    assert reply.status_code == 500 and message.startswith(f"{name} of this run cannot be read")
    assert what in message and str(tmp_path) not in message


def test_a_table_of_another_kind_and_a_torn_page_are_named(start: Start, tmp_path: Path) -> None:
    run = RunFolder(write_run(tmp_path / "small"))
    run.write_table("data/transcripts.parquet", pa.table({"a": [1]}))
    run.write_table("eval/answers.parquet", pa.table({"a": [1]}))
    (run.root / "report.html").write_bytes(b"\xff")
    client = start(runs=[str(run.root)]).client
    for part in ("statements", "answers", "report.html"):
        reply = client.get(f"/v1/runs/small/{part}")
        assert reply.status_code == 500 and "cannot be read" in reply.json()["error"]["message"]


def test_a_page_comes_from_wherever_its_rows_lie(start: Start, tmp_path: Path) -> None:
    """Tables are read some rows at a time, and a page may begin in one part and end in another."""
    written = write_run(tmp_path / "long")
    folder = RunFolder(written)
    table = folder.read_table("data/transcripts.parquet")
    rows = [{**row, "text": f"{i}", "debate_id": f"d{i % 7}"}
            for i, row in enumerate(table.to_pylist() * 5000)]  # fmt: skip
    long = pa.Table.from_pylist(rows, schema=table.schema)
    folder.write_batches("data/transcripts.parquet", long.schema, long.to_batches(4096))
    client = start(runs=[str(written)]).client
    wanted = [row["text"] for row in rows if row["bias_type"] == "age"]
    for offset in (0, 8180, 19_990, 20_000):
        query = {"bias_type": "age", "offset": offset}
        found = client.get("/v1/runs/long/statements", params=query).json()
        assert found["total"] == len(wanted) == 20_000
        assert [row["text"] for row in found["data"]] == wanted[offset : offset + 50]
    debate = client.get("/v1/runs/long/debates/d3").json()["data"]
    assert len(debate) == sum(row["debate_id"] == "d3" for row in rows)
