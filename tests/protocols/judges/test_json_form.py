"""Judges that write their verdicts as JSON: what others see of them, and who is chosen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from rldf_ray.models.base import ChatRequest
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.protocols.judges.study import hold
from tests.protocols.judges.items import cast, item, settings


def say(request: ChatRequest) -> str:
    schema: Any = request.json_schema
    if schema is None:
        return "I attack it.\nThe score of Assistant 1: 1\nThe score of Assistant 2: 9"
    if "best" in schema["properties"]:
        return json.dumps({"evaluation": "They differ.", "best": "A"})
    return json.dumps({"evaluation": "The first is right.", "score_1": 8, "score_2": 3})


def test_verdicts_in_json_are_read_and_shown_as_text() -> None:
    asked: list[ChatRequest] = []

    def reply(request: ChatRequest) -> str:
        asked.append(request)
        return say(request)

    of = settings(
        form="json",
        judges=["j"],
        debates=[["j", "k"]],
        meta={"pools": {"j": [["j", "k"]]}},
        conditions=["clean"],
        rounds=1,
    )
    model = ScriptedModel(reply=reply)
    found = asyncio.run(hold(item(0), cast(of, j=model, k=model)))
    assert all((row["score_1"], row["score_2"]) == (8, 3) for row in found.outcomes)
    chosen = [row["chosen"] for row in found.outcomes if row["mode"] == "select"]
    assert len(chosen) == 1 and chosen[0] in {"j", "k"}
    critic = next(r for r in asked if r.address.endswith("/critic"))
    shown = critic.messages[-1].content
    assert critic.json_schema is None
    assert "The first is right.\nThe score of Assistant 1: 8" in shown
    assert '"score_1"' not in shown.partition("Proceed")[0]
    judge = next(r for r in asked if r.address.endswith("/judge") and "/1/" in r.address)
    assert "Reply with JSON" in judge.messages[-1].content
    assert "ends with these two lines" not in judge.messages[-1].content
