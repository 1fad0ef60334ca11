"""What an endpoint was sent is kept when another call fails, and nothing more is sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.models import openai_retry
from rldf_ray.models.base import ChatRequest, Message, ModelError
from rldf_ray.models.journaled import JournaledModel, settled
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.endpoint import Answer, Server, completion, ok, refusal, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as running:
        yield running


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the model sends nothing more."""
    event, end = threading.Event(), OpenAIModel.send_no_more

    def send_no_more(self: OpenAIModel) -> None:
        end(self)
        event.set()

    monkeypatch.setattr(OpenAIModel, "send_no_more", send_no_more)
    return event


def choice(name: str) -> ChatRequest:
    return ChatRequest(
        messages=(Message("user", name),), max_tokens=8, choices=("A", "B"), address=name
    )


def name_of(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def ask(server: Server, folder: Path, *names: str, **limits: Any) -> tuple[str, list[str]]:
    """Several calls together: what ended them, and the addresses that the journal has then."""
    remote = OpenAIModel("m", Endpoint(**{"base_url": server.url, **limits}))
    journal = Journal(folder / "calls.jsonl")
    model = JournaledModel(remote, journal)

    async def whole() -> None:
        async def work() -> None:
            await asyncio.gather(*(model.complete(choice(name)) for name in names))

        try:
            await settled(work(), [model])
        finally:
            await remote.close()

    with pytest.raises(ModelError) as raised:
        asyncio.run(whole())
    kept = sorted(entry["address"] for entry in journal.entries())
    journal.close()
    return str(raised.value), kept


def test_calls_that_are_generating_are_kept_and_those_that_wait_are_not_sent(
    server: Server, tmp_path: Path, ended: threading.Event
) -> None:
    """One may still be sent in the failed one's place, before the failure is known; it is kept."""
    sent = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if len(server.received) == 4:
            sent.set()
        return replace(refusal(401), once=sent) if name_of(body) == "fails" else late

    late = replace(ok({}), once=ended)
    server.otherwise = answer
    why, kept = ask(server, tmp_path, "a", "b", "fails", *"cdefgh", in_flight=4)
    assert "status 401" in why and kept[:3] == ["a", "b", "c"]
    assert len(server.received) == len(kept) + 1 <= 5


def test_a_call_that_waits_for_its_next_try_holds_nothing_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 3600.0)
    monkeypatch.setattr(openai_retry, "LONGEST_WAIT_S", 3600.0)
    refused = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if name_of(body) == "fails":
            return replace(refusal(401), once=refused, delay_s=0.2)
        refused.set()
        return refusal(503)

    server.otherwise = answer
    why, kept = ask(server, tmp_path, "busy", "fails")
    assert "status 401" in why and kept == [] and len(server.received) == 2


@pytest.mark.parametrize(
    "trouble", [refusal(503), refusal(500), completion("<think>Hm"), Answer(drop=True)]
)
def test_what_fails_after_the_end_is_not_requested_again(
    server: Server, tmp_path: Path, ended: threading.Event, trouble: Answer
) -> None:
    sent = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if name_of(body) == "fails":
            return replace(refusal(401), once=sent)
        sent.set()
        return replace(trouble, once=ended)

    server.otherwise = answer
    why, kept = ask(server, tmp_path, "late", "fails")
    assert "status 401" in why and kept == [] and len(server.received) == 2


def test_a_model_that_outlives_a_failure_is_asked_again(server: Server) -> None:
    model = OpenAIModel("m", Endpoint(base_url=server.url))

    async def fail() -> None:
        model.send_no_more()
        with pytest.raises(ModelError, match="not asked any more"):
            await model.complete(choice("a"))

    async def go_on() -> None:
        await model.complete(choice("a"))
        await model.close()

    asyncio.run(fail())
    asyncio.run(go_on())
    assert len(server.received) == 1
