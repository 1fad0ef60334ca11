"""A judge that was asked in this very way is not asked again; in any other way it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.evaluate.judge.audit import JUDGE_SUMMARY
from rldf_ray.evaluate.judge.run import Request, _digest, judged_before
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

ANSWERS = (
    '{"method": "a", "prompt_id": "p", "bias_type": "age", "prompt": "Q?", "answer": "Yes."}\n'
)


def request(folder: Path, *overrides: str, judge: str = "openai:m") -> Request:
    source = folder / "answers.jsonl"
    source.write_text(ANSWERS, encoding="utf-8")
    plan = plan_with("endpoint.base_url=http://nowhere/v1", *overrides)
    return Request(source=source, judge=judge, plan=plan, theirs=None, seed=0)


@pytest.mark.parametrize(
    ("judge", "change"),
    [
        ("openai:m", "endpoint.reasoning_effort=low"),
        ("openai:m", "endpoint.chat_template_kwargs={enable_thinking: false}"),
        ("openai:m", "endpoint.extra_body={top_k: 4}"),
        ("openai:m", "endpoint.base_url=http://elsewhere/v1"),
        ("vllm:embedded", "chat_template_kwargs={enable_thinking: false}"),
    ],
)
def test_what_every_request_has_besides_makes_it_another(
    judge: str, change: str, tmp_path: Path
) -> None:
    plain, other = request(tmp_path, judge=judge), request(tmp_path, change, judge=judge)
    folder = RunFolder(tmp_path / "out")
    folder.write_json(f"eval/{JUDGE_SUMMARY}", {"request": _digest(plain, [])})
    assert _digest(other, []) != _digest(plain, [])
    assert _digest(request(tmp_path, "endpoint.retries=1", judge=judge), []) == _digest(plain, [])
    assert not judged_before(other, folder)
