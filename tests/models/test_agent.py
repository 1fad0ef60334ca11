"""An agent's requests are its prompt, its seed and its address; a choice is one of the choices."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatRequest, Message, seed_of
from tests.fakes import RecordingModel, completion


def agent(model: RecordingModel, system: str | None = "Be brief.") -> Agent:
    return Agent(model=model, seed=7, system=system)


def test_a_request_has_the_system_prompt_first_and_a_seed_of_its_own() -> None:
    model = RecordingModel()
    for address in ("a/0", "a/1"):
        asyncio.run(agent(model).say("Well?", address, max_tokens=8, affinity="a"))
    assert [request.seed for request in model.requests] == [seed_of(7, "a/0"), seed_of(7, "a/1")]
    for request in model.requests:
        assert request.messages == (Message("system", "Be brief."), Message("user", "Well?"))
        assert (request.max_tokens, request.affinity, request.choices) == (8, "a", None)


def test_messages_are_sent_as_they_are() -> None:
    model = RecordingModel()
    messages = (Message("user", "One?"), Message("assistant", "Two."), Message("user", "Three?"))
    asyncio.run(agent(model, system=None).say(messages, "a", max_tokens=8))
    assert model.requests[0].messages == messages


def test_several_samples_are_one_request() -> None:
    model = RecordingModel(lambda request: None)
    samples = asyncio.run(agent(model).say_n(3, "Well?", "a", max_tokens=8))
    assert len(samples) == 3 and [request.n for request in model.requests] == [3]


def test_a_choice_is_greedy_guided_and_has_its_probabilities() -> None:
    model = RecordingModel()
    choice = asyncio.run(agent(model).choose("Well?", ("yes", "no"), "a", probabilities=True))
    (request,) = model.requests
    assert (request.temperature, request.choices) == (0.0, ("yes", "no"))
    assert choice.value in ("yes", "no") and choice.failure("the reply") is None
    assert choice.probabilities is not None
    assert sum(choice.probabilities.values()) == pytest.approx(1)


@given(st.text())
def test_a_reply_that_is_no_choice_has_no_value_and_keeps_its_text(text: str) -> None:
    def answer(request: ChatRequest) -> object:
        return completion(text)

    model = RecordingModel(answer)  # type: ignore[arg-type]
    choice = asyncio.run(agent(model).choose("Well?", ("yes", "no"), "a"))
    if text.strip() in ("yes", "no"):
        assert choice.value == text.strip()
    else:
        assert choice.value is None
        assert choice.failure("the reply") == f"the reply did not parse: {text.strip()!r}"


def test_requests_of_several_addresses_can_share_a_seed() -> None:
    model = RecordingModel()
    for address in ("a/own", "a/other"):
        asyncio.run(agent(model).say("Well?", address, max_tokens=8, seed=3))
    asyncio.run(agent(model).choose("Well?", ("yes", "no"), "a/choice", seed=0))
    assert [request.seed for request in model.requests] == [3, 3, 0]
