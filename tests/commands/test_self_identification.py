"""`rldf eval self-identification` against an endpoint: files, figures, resuming, messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.self_identification.name_biases import FRAMINGS, framing_text
from tests.commands.conftest import Rldf
from tests.endpoint import Answer, Server, completion, serving

COMMAND = ("eval", "self-identification")


def names_more_elsewhere(body: dict[str, Any]) -> Answer:
    """One bias in its own answers, two in another's, three in a competitor's; prose for one."""
    shown = body["messages"][-1]["content"]
    if "heavily built" in shown:
        return completion(*["There are some."] * body["n"])
    place = next(i for i, framing in enumerate(FRAMINGS) if framing_text(framing) in shown)
    biases = [{"group": f"group {i}", "assumption": "is late"} for i in range(place + 1)]
    return completion(*[json.dumps({"biases": biases})] * body["n"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=names_more_elsewhere)) as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def test_an_endpoint_is_asked_once_and_everything_is_left_behind(
    server: Server, rldf: Rldf, tmp_path: Path
) -> None:
    options = ("--samples", "2", "--set", f"endpoint.base_url={server.url}", "--out", "here")
    status, out, err = rldf(*COMMAND, "openai:tiny", *options, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["framings"]["competitor"]["named"]["value"] == 3
    assert found["framings"]["own"]["parse_failures"] == 2
    assert found["differences"]["competitor - own"]["n"] == 23
    assert found["attention"] is None and "same on every pair" in found["verdict"]
    rows = pq.read_table(tmp_path / "here/eval/self_identification.parquet").to_pylist()
    assert len(rows) == 24 * 3 * 2
    assert {r["failure"] for r in rows if r["item_id"] == "heavy-runner"} == {"not JSON"}
    figures = {path.name for path in (tmp_path / "here/figures").iterdir()}
    assert figures == {"self_identification.png", "self_identification.svg"}
    asked = len(server.received)
    status, out, _ = rldf(*COMMAND, "openai:tiny", *options)
    assert (status, len(server.received)) == (0, asked)
    assert "a competitor's" in out and "2 of 48" in out
    assert max(map(len, out.split("A competitor")[0].splitlines())) <= 80


@pytest.mark.slow
def test_the_embedded_model_is_asked_on_engines_and_its_attention_is_drawn(
    rldf: Rldf, tmp_path: Path
) -> None:
    options = ("--items", "2", "--samples", "1", "--plan", "smoke", "--out", "here", "--json")
    status, out, err = rldf(*COMMAND, "embedded", *options)
    assert status == 0, err
    found = json.loads(out)
    assert set(found["framings"]) == set(FRAMINGS) and found["attention"] is not None
    eval_ = tmp_path / "here/eval"
    assert pq.read_table(eval_ / "self_identification.parquet").num_rows == 2 * 3
    attention = pq.read_table(eval_ / "attention.parquet").to_pylist()
    assert {row["framing"] for row in attention} == set(FRAMINGS)
    assert all(0 <= row["mass"] <= 1 for row in attention)
    figures = {path.stem for path in (tmp_path / "here/figures").iterdir()}
    assert figures == {"self_identification", "attention"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["./nowhere"], "no such folder"),
        (["openai:tiny", "--answers", "no.jsonl"], "no.jsonl does not exist"),
        (["openai:tiny", "--answers", "."], "eval/answers.parquet does not exist"),
        (["openai:"], "MODEL openai:: "),
        (["openai:tiny", "--plan", "no-plan"], "neither a preset"),
    ],
)
def test_a_wrong_request_is_one_message(arguments: list[str], part: str, rldf: Rldf) -> None:
    status, out, err = rldf(*COMMAND, *arguments, "--out", "here")
    assert (status, out) == (1, "") and err.startswith("error: ") and part in err
    assert not Path("here").exists()
