"""A dialogue about a label over HTTP: streamed turn by turn, within limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rldf_ray.apps.serve import evince
from rldf_ray.apps.serve.bodies import EvinceBody
from rldf_ray.apps.serve.service import Service
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from tests.serve.conftest import Start

TEXT = {"text": "The mayor opened the bridge.", "target": "the mayor", "rounds": 2}


def found(text: str) -> list[tuple[str, Any]]:
    pairs = []
    for block in filter(None, text.split("\n\n")):
        kind, data = block.split("\n", 1)
        pairs.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return pairs


def test_a_dialogue_is_streamed_turn_by_turn(start: Start) -> None:
    reply = start().client.post("/v1/evince", json={**TEXT, "given": "neutral"})
    events = found(reply.text)
    kinds = [kind for kind, _ in events]
    assert kinds[:4] == ["dialogue", "turn", "turn", "round"]
    assert kinds[-2:] == ["decision", "done"]
    assert events[0][1]["given"] == "neutral"
    turns = [data for kind, data in events if kind == "turn"]
    assert [(turn["side"], turn["round"]) for turn in turns][:2] == [("A", 1), ("B", 1)]
    assert sum(turns[0]["distribution"]) == pytest.approx(1)
    measured = next(data for kind, data in events if kind == "round")
    assert measured["level"] == 0.9
    assert {"wd", "kl", "jsd", "nce"} < set(measured)
    decided = dict(events)["decision"]
    assert decided["label"] in events[0][1]["labels"]


@pytest.mark.parametrize("given", load_scale("toward").names)
def test_a_person_looks_at_a_given_label_that_moves(start: Start, given: str) -> None:
    events = found(start().client.post("/v1/evince", json={**TEXT, "given": given}).text)
    decided = dict(events)["decision"]
    assert ("label moves" in decided["review"]) is (decided["label"] != given)


def test_a_person_looks_at_quotes_that_are_not_in_the_text(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(body: EvinceBody, service: Service) -> EvinceSettings:
        settings = evince_checked(body, service)
        # No score is weak, so that what is flagged is quotes alone.
        crit = settings.crit.model_copy(update={"weak": 0.0})
        return settings.model_copy(update={"crit": crit})

    evince_checked = evince.checked
    monkeypatch.setattr(evince, "checked", checked)
    events = found(start().client.post("/v1/evince", json=TEXT).text)
    last = [data for kind, data in events if kind == "turn"][-2:]
    assert any(one["quote_at"] is None for turn in last for one in turn["arguments"])
    assert "weak arguments" in dict(events)["decision"]["review"]


def test_without_a_given_label_a_defends_the_model_s_own(start: Start) -> None:
    events = found(start().client.post("/v1/evince", json=TEXT).text)
    assert events[0][1]["given"] in events[0][1]["labels"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scale": "/etc/passwd"}, "scale: one of"),
        ({"given": "blue"}, "given: one of negative"),
        ({"rounds": 99}, "rounds: this server holds at most"),
        ({"model": "none"}, "none"),
        ({"text": " "}, "text"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    start: Start, changed: dict[str, Any], words: str
) -> None:
    reply = start().client.post("/v1/evince", json={**TEXT, **changed})
    assert 400 <= reply.status_code < 500
    assert words in reply.text
