"""What tries take that bring no answer: they count towards the budget, over all starts."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import APIConnectionError, APITimeoutError, DefaultAsyncHttpxClient

from rldf_ray.models import openai_retry
from rldf_ray.models.base import BudgetSpentError, ChatRequest, Message, ModelError, Usage
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.limits import Budget, Rate, estimated
from rldf_ray.models.openai_connection import Connection
from rldf_ray.models.openai_http import THINKING_TOKENS, OpenAIModel
from rldf_ray.models.openai_refusal import error_in_reply
from rldf_ray.models.openai_spent import spent_without_answer
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.endpoint import Answer, Server, completion, ok, refusal, serving

REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=8, address="d/1")
# Of httpx's interface; which it is, the openai package chooses.
HTTP: Any = importlib.import_module(DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])
MOST = estimated(REQUEST)
ANSWERED = Usage(prompt=7, generated=5)
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(openai_retry, "LONGEST_WAIT_S", 0.002)
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: NO_CERTIFICATES)
    caplog.set_level(logging.WARNING)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def start(
    url: str, folder: Path, *requests: ChatRequest, **limits: Any
) -> tuple[Usage, Usage, ModelError | None]:
    """One start of a run: what is spent before and after its calls, and what ended it."""

    async def whole() -> tuple[Usage, Usage, ModelError | None]:
        endpoint = Endpoint(**{"base_url": url, "retries": 2, "budget_tokens": 100_000, **limits})
        journal = Journal(folder / "journal/calls.jsonl")
        budget = Budget.of(endpoint, ("m",), journal)
        before, failure = budget.spent, None
        remote = OpenAIModel("m", endpoint, budget)
        model = JournaledModel(remote, journal)
        try:
            for request in requests:
                await model.complete(request)
        except ModelError as error:
            failure = error
        finally:
            await remote.close()
            journal.close()
        return before, budget.spent, failure

    return asyncio.run(whole())


def times(number: int, usage: Usage) -> Usage:
    return sum([usage] * number, Usage())


TIMEOUT = Answer(delay_s=600, drop=True)
FAILED = {"finish_reason": "error", "message": {"content": "He may", "reasoning_content": "?"}}
USAGE = {"prompt_tokens": 30, "completion_tokens": 20}


@pytest.mark.parametrize(
    ("trouble", "taken"),
    [
        (TIMEOUT, MOST),
        (Answer(drop=True), MOST),
        (refusal(504), MOST),
        (refusal(429), Usage()),
        (refusal(500), Usage()),
        (refusal(503), Usage()),
        (Answer(body={"error": {"message": "later", "code": 502}}), Usage()),
        (Answer(body={"error": {"message": "too late", "code": 504}}), MOST),
        (Answer(body={"error": {"message": "later"}, "usage": USAGE}), Usage(30, 0, 20)),
        (Answer(body={"choices": [FAILED], "usage": USAGE}), Usage(30, 0, 20)),
        (Answer(body={"choices": [FAILED]}), Usage(2, 0, 2, 4)),
        (replace(completion("x"), body={"choices": [], "usage": USAGE}), Usage(30, 0, 20)),
    ],
)
def test_a_try_without_an_answer_counts_as_what_it_can_have_taken_over_all_starts(
    server: Server, tmp_path: Path, trouble: Answer, taken: Usage
) -> None:
    limits = {"timeout_s": 1.0} if trouble is TIMEOUT else {}
    server.script = [trouble]
    _, spent, failure = start(server.url, tmp_path, REQUEST, **limits)
    assert failure is None and spent == taken + ANSWERED

    server.otherwise = lambda body: trouble
    other = replace(REQUEST, address="d/2")
    before, after, failure = start(server.url, tmp_path, REQUEST, other, **limits)
    assert failure is not None
    assert before == spent and after == spent + times(3, taken)
    assert start(server.url, tmp_path)[0] == after


def test_a_request_that_was_never_sent_costs_nothing(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        _, spent, failure = start(url, tmp_path, REQUEST)
    assert failure is not None and spent == Usage()
    assert not (tmp_path / "journal/lost.json").exists()


@pytest.mark.parametrize(
    ("cause", "taken"),
    [
        (HTTP.ConnectError("refused"), Usage()),
        (HTTP.ConnectTimeout(""), Usage()),
        (HTTP.PoolTimeout(""), Usage()),
        (HTTP.ReadTimeout(""), MOST),
        (HTTP.ReadError("reset"), MOST),
        (HTTP.RemoteProtocolError("gone"), MOST),
    ],
)
def test_only_what_was_sent_can_be_charged(cause: Exception, taken: Usage) -> None:
    to = HTTP.Request("POST", "http://localhost")
    timeout = isinstance(cause, HTTP.TimeoutException)
    error = APITimeoutError(to) if timeout else APIConnectionError(request=to)
    error.__cause__ = cause
    assert spent_without_answer(error, REQUEST) == taken


async def test_a_connection_that_hangs_ends_before_an_answer_that_does() -> None:
    """So that the one is told from the other."""
    connection = Connection(Endpoint(base_url="http://localhost:1/v1", timeout_s=60))
    limits = connection._client().timeout
    assert isinstance(limits, HTTP.Timeout) and limits.connect == 54 and limits.read == 60
    await connection.close()


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["\ud800", "error"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["message", "content", "error", "finish_reason", "reasoning_content",
                         "prompt_tokens", "completion_tokens"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(error=wild, choices=wild, usage=wild)
@settings(deadline=None, max_examples=200)
def test_whatever_a_reply_with_an_error_says_it_takes_something_or_nothing(
    error: Any, choices: Any, usage: Any
) -> None:
    response = HTTP.Response(200, request=HTTP.Request("POST", "http://localhost"))
    failure = error_in_reply({"error": error, "choices": choices, "usage": usage}, response)
    if failure is not None:
        used = spent_without_answer(failure, REQUEST)
        assert used.prompt >= 0 and used.generated >= 0


def test_replies_that_are_of_no_use_count_over_all_starts(server: Server, tmp_path: Path) -> None:
    """Of a choice that was cut off inside a thought, and of samples before one that failed."""
    cut = completion("<think>Is it")
    server.script = [cut]
    _, spent, failure = start(server.url, tmp_path, replace(REQUEST, choices=("A", "B")))
    assert failure is None and spent == times(2, ANSWERED)
    assert server.received[-1].body["max_tokens"] == 8 + THINKING_TOKENS
    before, _, _ = start(server.url, tmp_path)
    assert before == spent

    server.script = [completion("one")]
    server.otherwise = lambda body: refusal(400)
    _, after, failure = start(server.url, tmp_path, replace(REQUEST, n=2, address="d/2"))
    assert failure is not None and after == spent + ANSWERED
    assert start(server.url, tmp_path)[0] == after


def test_a_budget_that_timeouts_have_spent_ends_the_run_and_says_so(
    server: Server, tmp_path: Path
) -> None:
    server.otherwise = lambda body: Answer(drop=True)
    budget = 3 * MOST.total
    _, spent, failure = start(server.url, tmp_path, REQUEST, retries=6, budget_tokens=budget)
    assert isinstance(failure, BudgetSpentError) and spent == times(3, MOST)
    assert len(server.received) == 3
    assert "30 tokens are spent, 30 of them on tries that brought no answer" in str(failure)
    _, _, again = start(server.url, tmp_path, REQUEST, budget_tokens=budget)
    assert isinstance(again, BudgetSpentError) and len(server.received) == 3


@pytest.mark.parametrize(("trouble", "kept"), [(Answer(drop=True), True), (refusal(429), False)])
async def test_tokens_a_minute_are_given_back_where_none_can_have_been_taken(
    server: Server, trouble: Answer, kept: bool
) -> None:
    server.script = [trouble]
    model = OpenAIModel("m", Endpoint(base_url=server.url, retries=0, tokens_per_minute=1000))
    rate = model._tries._tokens = Rate(1000, clock=lambda: 0.0)
    with pytest.raises(ModelError):
        await model.complete(REQUEST)
    await model.close()
    assert rate._bucket is not None
    assert rate._bucket.wait_s(1000) == pytest.approx(0.06 * MOST.total if kept else 0.0)


def test_what_an_interrupted_run_had_sent_counts_and_what_waited_does_not(
    server: Server, tmp_path: Path
) -> None:
    both_sent, held = threading.Event(), threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if len(server.received) == 2:
            both_sent.set()
        return replace(ok(body), once=held)

    server.otherwise = answer
    endpoint = Endpoint(base_url=server.url, in_flight=2, budget_tokens=1000)
    journal = Journal(tmp_path / "journal/calls.jsonl")
    model = JournaledModel(
        OpenAIModel("m", endpoint, Budget.of(endpoint, ("m",), journal)), journal
    )

    async def interrupted() -> None:
        requests = [replace(REQUEST, address=f"d/{i}") for i in range(5)]
        calls = [asyncio.create_task(model.complete(request)) for request in requests]
        await asyncio.to_thread(both_sent.wait, 60)
        assert not any(call.done() for call in calls)

    asyncio.run(interrupted())
    journal.close()
    held.set()
    assert start(server.url, tmp_path)[0] == times(2, MOST)
    assert len(server.received) == 2


def test_a_file_of_losses_that_cannot_be_read_is_said(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.script = [Answer(drop=True)]
    start(server.url, tmp_path, REQUEST)
    path = tmp_path / "journal/lost.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {"m": MOST.numbers()}
    path.write_text('{"m": 7}', encoding="utf-8")
    assert start(server.url, tmp_path)[0] == ANSWERED
    assert any(str(path) in record.getMessage() for record in caplog.records)
