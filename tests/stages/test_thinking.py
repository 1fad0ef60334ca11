"""A reasoning model's thoughts are in a run's journal and nowhere else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rldf_ray import pipeline
from rldf_ray.cluster.placement import Resources
from rldf_ray.console import Progress
from rldf_ray.models.scripted import instance, sentences
from tests.endpoint import Answer, Server, completion, serving
from tests.fakes import plan_with

THOUGHT = "zzyzx"
STAGES = ("topics", "debates", "data")
TABLES = ("transcripts", "sft", "pairs", "prompts")


@contextmanager
def cluster(logs: Path) -> Iterator[Resources]:
    yield Resources(4, 0, 64)


def thinker(form: str) -> Any:
    """A server whose model thinks before everything; of every seventh answer nothing is left."""
    numbers = itertools.count()

    def answer(body: dict[str, Any]) -> Answer:
        number = next(numbers)
        choices = body.get("structured_outputs", {}).get("choice")
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if choices:
            said = choices[number * 7 % len(choices)]
        elif schema:
            said = json.dumps(instance(schema, number))
        else:
            said = sentences(number * 31)
        cut = number % 7 == 0
        thought = f"{THOUGHT} {number}, or {said}?"
        if form == "apart":
            reply = completion("" if cut else said)
            reply.body["choices"][0]["message"]["reasoning"] = thought
        else:
            begin = "<think>\n" if form == "tags" or cut else ""
            reply = completion(begin + thought + ("" if cut else f"\n</think>\n\n{said}"))
        return reply

    return answer


def content_of(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["apart", "tags", "begun by the template"])
def test_thoughts_reach_no_prompt_and_no_data(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "ray_cluster", cluster)
    with serving(Server(otherwise=thinker(form))) as server:
        plan = plan_with(
            "teacher=openai:thinker",
            f"endpoint.base_url={server.url}",
            "referee={kind: prompted, label_source: said, audit_pairs: 2}",
        )
        pipeline.run(plan, "run", Progress(), only=STAGES)
        bodies = [request.body for request in server.received]
    prompts = [body["messages"] for body in bodies]
    assert prompts and THOUGHT not in json.dumps(prompts)
    journal = Path("run/journal/calls.jsonl").read_text(encoding="utf-8")
    # A choice that was cut off is requested again, and stands in the journal once.
    calls = {(json.dumps(body["messages"]), body["seed"]) for body in bodies}
    assert journal.count(THOUGHT) >= len(journal.splitlines()) == len(calls)
    written = {
        path.relative_to("run").as_posix(): content_of(path)
        for path in Path("run").rglob("*")
        if path.is_file() and path.parent.name not in ("journal", "logs")
    }
    assert [name for name, text in written.items() if THOUGHT in text or "think>" in text] == []
    tables = {name: pq.read_table(f"run/data/{name}.parquet").to_pylist() for name in TABLES}
    assert all(tables.values())
    cut = [row for row in tables["transcripts"] if row["finish_reason"] == "length"]
    assert cut and all(row["text"] == "" and row["label"] is None for row in cut)
    assert {row["failure"] for row in cut} == {
        "the debater said nothing: cut off while it was thinking"
    }
