"""A prompt that the model cannot read fails its item, in every study, and ends none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rldf_ray.console import Progress
from rldf_ray.models.base import ChatRequest, Completion, PromptTooLongError
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.studies.conftest import Played

LONG = "words without an end"
BOTH = (("short", "The mayor opened the bridge on Monday."), ("long", f"The mayor said {LONG}."))
ROWS: dict[str, list[dict[str, Any]]] = {
    "judges": [
        {"id": name, "question": "Which?", "answer1": text, "answer2": "Another."}
        for name, text in BOTH
    ],
    "evince": [{"id": name, "text": text, "given": {"ann": "neutral"}} for name, text in BOTH],
    "mabrf": [
        {"id": name, "question": "Who?", "context": text, "options": ["a", "b"], "label": 1}
        for name, text in BOTH
    ],
    "persuasion": [
        {"id": name, "story": text, "question": "Who?", "correct": "a", "incorrect": "b"}
        for name, text in BOTH
    ],
}
MORE = {
    "evince": ["settings.items=null"],
    "mabrf": ["settings.kind=choices", "settings.searches={without: none}"],
    "persuasion": ["settings.items=null"],
}


@pytest.mark.parametrize("study", ROWS)
def test_a_prompt_that_is_too_long_fails_its_item_alone(
    study: str, tmp_path: Path, played_by: Played, caplog: pytest.LogCaptureFixture
) -> None:
    class Short(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            if any(LONG in message.content for message in request.messages):
                raise PromptTooLongError("it does not fit engines.max_model_len")
            return await super().complete(request)

    played_by(Short())
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS[study]), encoding="utf-8")
    plan = [f"settings.data={data}", *MORE.get(study, ())]
    out = tmp_path / "out"
    run_study(study, load_study(study, "smoke", plan), out, Progress())
    turns = pq.read_table(out / "data/turns.parquet").to_pylist()
    refused = {turn["item_id"] for turn in turns if turn["refusal"] is not None}
    answered = {turn["item_id"] for turn in turns if turn["refusal"] is None}
    assert {place.partition("/")[0] for place in refused} == {"long"}
    assert any(not place.startswith("long") for place in answered)
    assert "such items count as failed" in caplog.text
    assert (out / "report.html").exists()
