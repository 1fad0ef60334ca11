"""Thinking that an endpoint returns is split off, kept in the journal, and shown to nobody."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatRequest, Completion, Message
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.openai_http import THINKING_TOKENS, OpenAIModel
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.endpoint import Answer, Server, completion, serving, with_top

REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=8, address="a")
LETTER = replace(REQUEST, choices=("A", "B"), choice_probabilities=True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as running:
        yield running


def thought(answer: Answer, **message: Any) -> Answer:
    """The same answer with more in its message."""
    answer.body["choices"][0]["message"] |= message
    return answer


async def said(server: Server, answer: Answer, request: ChatRequest = REQUEST) -> Completion:
    server.script = [answer]
    model = OpenAIModel("m", Endpoint(base_url=server.url))
    try:
        (completed,) = await model.complete(request)
    finally:
        await model.close()
    return completed


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_thinking_that_the_server_split_off(server: Server, name: str) -> None:
    given = await said(server, thought(completion("Hi."), **{name: "Who?"}))
    assert (given.text, given.thinking, given.finish_reason) == ("Hi.", "Who?", "stop")
    none = await said(server, thought(completion("Hi."), **{name: None}))
    assert (none.text, none.thinking) == ("Hi.", "")


async def test_thinking_in_tags(server: Server) -> None:
    given = await said(server, completion("<think>\nWho?\n</think>\n\nHi."))
    assert (given.text, given.thinking, given.finish_reason) == ("Hi.", "Who?", "stop")
    schema = replace(REQUEST, json_schema={"type": "object"})
    fenced = await said(server, completion('Who?</think>\n```json\n{"a": 1}\n```'), schema)
    assert json.loads(fenced.text) == {"a": 1}


async def test_what_ends_inside_a_thought_was_cut_off(server: Server) -> None:
    tagged = await said(server, completion("<think>Who? They"))
    apart = await said(server, thought(completion(""), reasoning_content="Who? They", content=None))
    for given in (tagged, apart):
        assert (given.text, given.thinking, given.finish_reason) == ("", "Who? They", "length")


@pytest.mark.parametrize(
    "answer",
    [
        with_top("B", {"B": 0.75, "A": 0.25}),
        with_top("<think>\n\n</think>\n\nB", *({t: 1.0} for t in ("<think>", "\n\n", "</think>")),
                 {"\n\n": 1.0}, {"B": 0.75, "A": 0.25}),
        with_top("<think>A</think>B", *({t: 1.0} for t in ("<think>", "A", "</think>")),
                 {"B": 0.75, "A": 0.25}),
        thought(with_top("B", {"A": 1.0}, {"</think>": 1.0}, {"B": 0.75, "A": 0.25}),
                reasoning="A"),
        thought(with_top("B", {"B": 0.75, "A": 0.25}), reasoning="A"),
    ],
)  # fmt: skip
async def test_a_letters_probabilities_are_none_of_a_thoughts(
    server: Server, answer: Answer
) -> None:
    given = await said(server, answer, LETTER)
    assert given.text == "B"
    assert given.choice_probabilities == pytest.approx({"A": 0.25, "B": 0.75})


async def test_no_probabilities_where_the_letters_token_is_not_to_be_seen(server: Server) -> None:
    unlisted = with_top("B", {"A": 0.75, "B": 0.25}, {"B": 1.0})
    given = await said(server, thought(unlisted, reasoning="A"), LETTER)
    assert given.text == "B" and given.choice_probabilities is None


async def test_a_choice_that_was_not_reached_says_why(server: Server) -> None:
    server.script = [completion("<think>Is it A")] * 2
    model = OpenAIModel("m", Endpoint(base_url=server.url))
    choice = await Agent(model=model, seed=0).choose("Which?", ("A", "B"), "a")
    await model.close()
    assert choice.value is None
    assert choice.failure("the letter") == "no answer: cut off while it was thinking"


async def test_the_journal_keeps_thinking_and_nothing_new_without_it(
    server: Server, tmp_path: Path
) -> None:
    server.script = [completion("<think>Who?</think>Hi."), completion("Hi.")]
    path = tmp_path / "calls.jsonl"
    journal = Journal(path)
    inner = OpenAIModel("m", Endpoint(base_url=server.url))
    model = JournaledModel(inner, journal)
    (first,) = await model.complete(REQUEST)
    await model.complete(replace(REQUEST, address="b"))
    await inner.close()
    journal.close()
    thoughtful, plain = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert thoughtful["samples"][0]["thinking"] == "Who?"
    assert "thinking" not in plain["samples"][0]
    journal = Journal(path)
    (again,) = await JournaledModel(inner, journal).complete(REQUEST)
    journal.close()
    assert again == first


async def test_a_model_that_thinks_before_it_chooses_gets_room(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    cut = completion("")
    cut.body["choices"][0]["finish_reason"] = "length"
    server.script = [cut, with_top("B", {"B": 0.75, "A": 0.25}), completion("A")]
    model = OpenAIModel("m", Endpoint(base_url=server.url))
    try:
        agent = Agent(model=model, seed=1)
        for value in ("B", "A"):
            choice = await agent.choose("Which?", ("A", "B"), "a", probabilities=True)
            assert choice.value == value
    finally:
        await model.close()
    limits = [request.body["max_tokens"] for request in server.received]
    assert limits == [16, 16 + THINKING_TOKENS, 16 + THINKING_TOKENS]
    assert sum("thinks before it chooses" in r.getMessage() for r in caplog.records) == 1


def thinking_first(body: dict[str, Any]) -> Answer:
    """A model that thinks longer than a choice has tokens."""
    if body["max_tokens"] > THINKING_TOKENS:
        return completion(*["B"] * body.get("n", 1))
    answer = completion(*["<think>Is it A"] * body.get("n", 1))
    for choice in answer.body["choices"]:
        choice["finish_reason"] = "length"
    return answer


async def test_choices_that_are_cut_off_together_are_all_requested_again(
    server: Server, tmp_path: Path
) -> None:
    all_sent = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if len(server.received) == 4:
            all_sent.set()
        return replace(thinking_first(body), once=all_sent)

    server.otherwise = answer
    journal = Journal(tmp_path / "calls.jsonl")
    inner = OpenAIModel("m", Endpoint(base_url=server.url))
    for received in (4 + 4, 4 + 4):
        agent = Agent(model=JournaledModel(inner, journal), seed=1)
        asking = (agent.choose(f"Which of {i}?", ("A", "B"), f"a/{i}") for i in range(4))
        choices = await asyncio.gather(*asking)
        assert [choice.value for choice in choices] == ["B"] * 4
        assert len(server.received) == received
    await inner.close()
    journal.close()


async def test_a_sample_that_is_cut_off_among_others_is_requested_again(server: Server) -> None:
    some = completion("A", "<think>Is it B", "A")
    some.body["choices"][1]["finish_reason"] = "length"
    server.script, server.otherwise = [some], thinking_first
    model = OpenAIModel("m", Endpoint(base_url=server.url))
    choices = await Agent(model=model, seed=1).sample(3, "Which?", ("A", "B"), "a")
    await model.close()
    assert [choice.value for choice in choices] == ["B"] * 3


async def test_a_sample_of_its_own_that_is_cut_off_is_requested_again(server: Server) -> None:
    """From a server that knows no `n`."""
    server.script = [completion("A"), thinking_first({"max_tokens": 16})]
    server.otherwise = lambda body: completion("B")
    model = OpenAIModel("m", Endpoint(base_url=server.url))
    choices = await Agent(model=model, seed=1).sample(3, "Which?", ("A", "B"), "a")
    await model.close()
    assert [choice.value for choice in choices] == ["A", "B", "B"]
    assert [r.body["max_tokens"] > THINKING_TOKENS for r in server.received] == [
        *(False, False, True, True)
    ]


async def test_answers_that_begin_inside_a_thought_are_said_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for text, times in (("<think>Who?</think>Hi.", 0), ("Who?</think>Hi.", 1), ("Plain.", 0)):
        caplog.clear()
        assert (await said(server, completion(text))).text
        assert sum("inside a thought" in r.getMessage() for r in caplog.records) == times
