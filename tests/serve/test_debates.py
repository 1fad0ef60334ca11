"""Debates over HTTP: streamed statement by statement, within limits, with turns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.apps.serve import debates
from rldf_ray.apps.serve.bodies import DebateBody
from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.engines import EngineRequest, Stream, Target
from rldf_ray.apps.serve.keys import Key, add_key, read_keys
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.topics.bias_type import bias_type
from tests.serve.conftest import Start, events


async def test_a_debate_waits_for_its_turn_and_no_longer(start: Start) -> None:
    server = start(limits={"debates_in_flight": 1, "debate_wait_s": 0.01})
    await server.service.debates.acquire()
    body = DebateBody(topic="Tests")
    asked = debates.events(body, bias_type("age"), server.service, Caller())
    found = [event async for event in asked]
    assert found[-1].startswith("event: error") and "ask again" in found[-1]


async def test_a_debate_that_takes_too_long_gives_its_turn_back(start: Start) -> None:
    server = start(
        engine={"scripted_delay_s": 5}, limits={"debates_in_flight": 1, "debate_s": 0.01}
    )
    body = DebateBody(topic="Tests")
    asked = debates.events(body, bias_type("age"), server.service, Caller())
    found = [event async for event in asked]
    assert found[-1].startswith("event: error") and "not done in 0.01 s" in found[-1]
    assert not server.service.debates.locked()


async def test_one_key_does_not_take_every_turn_of_debates(start: Start, tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        add_key(tmp_path / "keys.json", name)
    ann, bob = read_keys(tmp_path / "keys.json")
    server = start(limits={"debates_in_flight": 3, "debates_per_key": 2})
    body = DebateBody(topic="Tests", rounds=1)

    async def last(key: Key) -> str:
        asked = debates.events(body, bias_type("age"), server.service, Caller(key))
        return [event async for event in asked][-1]

    ends = await asyncio.gather(*(last(ann) for _ in range(4)), last(bob))
    assert sum("2 debates of this key" in end for end in ends) == 2
    assert sum(end.startswith("event: done") for end in ends) == 3
    assert not server.service.debates_of


def test_a_debate_is_streamed_statement_by_statement(start: Start) -> None:
    body = {"topic": "Tests are fun", "rounds": 2, "debaters": 3, "bias_type": "profession"}
    text = start().client.post("/v1/debate", json=body).text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if "event: " in line]
    assert kinds == ["debate", *["statement"] * 3, "scores", *["statement"] * 3, "scores", "done"]
    found = events(text)
    assert found[0]["identities"] == ["doctor", "lawyer", "engineer"]
    assert {s["role"] for s in found[1:4]} == {0, 1, 2} and all(s["text"] for s in found[1:4])
    assert sorted(score["rank"] for score in found[4]["scores"]) == [1, 2, 3]
    assert found[-1]["tokens"] > 0


@pytest.mark.parametrize(
    "change",
    [{"topic": " "}, {"rounds": 6}, {"debaters": 9}, {"bias_type": "/etc/passwd"}, {"x": 1}],
)
def test_debates_have_limits(start: Start, change: dict[str, Any]) -> None:
    reply = start().client.post("/v1/debate", json={"topic": "Tests", **change})
    assert reply.status_code == 400


def test_a_debate_that_fails_says_so(start: Start) -> None:
    server = start(limits={"request_timeout_s": 0.2}, engine={"scripted_delay_s": 1.0})
    found = events(server.client.post("/v1/debate", json={"topic": "Tests"}).text)
    assert "no answer in time" in found[-1]["message"]


def test_a_trained_referee_judges_a_debate(start: Start, fitted: str) -> None:
    body = {"topic": "Tests are fun", "rounds": 1, "debaters": 3}
    found = events(start(trained_referee=fitted).client.post("/v1/debate", json=body).text)
    assert found[0]["referee"] == "trained"
    scores = found[4]["scores"]
    # All three are scored alike.
    assert [row["rank"] for row in scores] == [1, 1, 1]
    assert all(row["expected_score"] == pytest.approx(1.192, abs=1e-3) for row in scores)


def test_a_server_debates_with_the_prompts_of_its_settings(start: Start) -> None:
    asked: list[str] = []

    class Recording(ScriptedEngines):
        async def generate(self, target: Target, request: EngineRequest) -> Stream:
            asked.append(str(request.body["messages"]))
            async for piece in super().generate(target, request):
                yield piece

    prompts = {
        "protocols/multirole/prompts/opening.txt": "OWN {{ topic }}{{ question }}",
        "referee/prompts/system.txt": "OWN REFEREE",
    }
    client = start(Recording(), prompts=prompts).client
    client.post("/v1/debate", json={"topic": "Tests", "rounds": 1})
    assert len(asked) == 3 + 4 and all("OWN" in text for text in asked)
    client.post("/v1/bias", json={"input": "one", "referee": True})
    assert len(asked) == 3 + 4 + 1 and "OWN REFEREE" in asked[-1]
