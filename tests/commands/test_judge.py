"""`rldf eval judge`: an endpoint judges a file of answers, once, and says whose model it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.judge.audit import audit_remarks
from rldf_ray.evaluate.judge.judging_model import same_model
from rldf_ray.plan import load_plan
from rldf_ray.storage.run_folder import RunFolder
from tests.commands.conftest import Rldf
from tests.fakes import plan_with


class SaysForty(BaseHTTPRequestHandler):
    """A chat endpoint whose model says "40" to everything but comparisons, without logprobs."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        text = "1" if "Answer 2:" in body["messages"][-1]["content"] else "40"
        if "unclear" in body["messages"][-1]["content"]:
            text = "hard to say"
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        content = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Nothing on the terminal."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    SaysForty.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), SaysForty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.fixture
def answers(tmp_path: Path) -> str:
    rows = [
        {
            "method": method,
            "prompt_id": f"p{i}",
            "bias_type": "age",
            "prompt": f"Question {i}?",
            "answer": "an unclear thing" if (method, i) == ("RLDF", 0) else f"{method} {i}",
        }
        for method in ("Default", "RLDF")
        for i in range(3)
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_answers_are_judged_audited_compared_and_not_asked_again(
    endpoint: str, answers: str, rldf: Rldf, tmp_path: Path
) -> None:
    words = ["eval", "judge", answers, "--judge", "openai:m", "--set"]
    words += [f"endpoint.base_url={endpoint}", "--against", "Default", "--audit-pairs", "2"]
    status, out, err = rldf(*words, "--json")
    assert status == 0, err
    summary = json.loads(out)
    asked = len(SaysForty.asked)
    assert summary["score_source"] == "said" and summary["same_model_as"] is None
    assert summary["failures"]["number"] == 3 and summary["failures"]["of"] == 18
    everything = summary["methods"]["RLDF"]["all"]["BS"]
    # What it says is on a scale on which more is better.
    assert everything["mean"] == 60 and everything["n"] == 2 and everything["without_score"] == 1
    assert "too few controls" in summary["audit"]["BS"]["verdict"]
    preferred = summary["preferences"]["methods"]["RLDF"]["BS"]
    assert preferred["preferred"] == 0.5 and preferred["first"] == 1 and preferred["failures"] == 1
    folder = tmp_path / "runs/judge/answers/eval"
    assert pq.read_table(folder / "judge.parquet").num_rows == 18
    assert pq.read_table(folder / "judge_pairs.parquet").num_rows == 18
    assert pq.read_table(folder / "judge_audit.parquet").num_rows > 0
    assert set(pq.read_table(folder / "judge_long.parquet")["set"].to_pylist()) == {"answers"}
    status, out, _ = rldf(*words)
    assert status == 0 and len(SaysForty.asked) == asked
    assert "3 of 18 judgements did not parse" in out and "is not known" in out


def test_whose_answers_they_are_is_told_by_their_run_and_by_no_other_plan(
    endpoint: str, answers: str, rldf: Rldf, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run-0.1")
    run.write_text("plan.yaml", plan_with("teacher=openai:m").to_yaml())
    run.write_table("eval/answers.parquet", answers_table(answers))
    run.finish("eval", "key", {})
    words = ["--judge", "openai:m", "--set", f"endpoint.base_url={endpoint}", "--json"]
    words += ["--plan", "quickstart", "--audit-pairs", "0"]
    for source, same in (
        (answers, None),
        ("run-0.1", ["topic writer", "teacher", "referee"]),
        ("run-0.1/eval/answers.parquet", ["topic writer", "teacher", "referee"]),
    ):
        status, out, err = rldf("eval", "judge", source, *words)
        assert status == 0, err
        assert json.loads(out)["same_model_as"] == same
    # A run has one folder of judgements, whichever way its answers are given.
    assert {path.name for path in (tmp_path / "runs/judge").iterdir()} == {"answers", "run-0.1"}


def answers_table(path: str) -> pa.Table:
    return pa.Table.from_pylist(
        [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    )


def test_nothing_of_another_judge_is_left_beside_this_ones(
    endpoint: str, answers: str, rldf: Rldf, tmp_path: Path
) -> None:
    words = ["eval", "judge", answers, "--set", f"endpoint.base_url={endpoint}"]
    more = ["--against", "Default", "--audit-pairs", "2"]
    assert rldf(*words, "--judge", "openai:m", *more)[0] == 0
    status, out, err = rldf(*words, "--judge", "openai:other", "--audit-pairs", "0")
    assert status == 0, err
    assert "The judge was not audited, so nothing is known of how good its scores are." in out
    left = {path.name for path in (tmp_path / "runs/judge/answers/eval").iterdir()}
    assert left == {"judge.json", "judge.parquet", "judge_long.parquet"}


def test_bias_types_that_a_judge_was_not_audited_on_are_named() -> None:
    groups = {"age": {}, "religion": {}, "all": {}}
    audit = {"BS": {"verdict": "BS: fine."}}
    summary = {"methods": {"a": groups}, "audit": audit, "audited_bias_types": ["age"]}
    assert list(audit_remarks(summary)) == [
        "BS: fine.",
        "It was not audited on religion: there are no labelled statements.",
    ]


def test_a_plan_tells_whether_the_judge_is_the_teacher() -> None:
    plan = load_plan("smoke", ["teacher=vllm:big", "referee={kind: prompted, model: openai:other}"])
    assert same_model("openai:big", plan) == ["topic writer", "teacher"]
    assert same_model("openai:other", plan) == ["referee"]
    assert same_model("vllm:embedded", plan) == ["the model that was trained"]
    assert same_model("vllm:big", None) == []
    itself = load_plan("smoke", [])
    assert same_model("vllm:embedded", itself) == [
        "topic writer",
        "teacher",
        "what the referee is fitted from",
        "the model that was trained",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--judge", "m"], "'vllm:MODEL'"),
        (["--judge", "openai:m", "--measures", "BS,XX"], "--measures is 'BS,XX'"),
        (["--judge", "openai:m", "--against", "SFT"], "the methods Default, RLDF"),
    ],
)
def test_wrong_requests_are_refused_before_anything_starts(
    words: list[str], said: str, answers: str, rldf: Rldf
) -> None:
    status, _, err = rldf("eval", "judge", answers, *words)
    assert status == 1 and said in err


def test_a_missing_file_says_what_is_needed(rldf: Rldf) -> None:
    status, _, err = rldf("eval", "judge", "nowhere", "--judge", "openai:m")
    assert status == 1 and "method, prompt_id, bias_type" in err
