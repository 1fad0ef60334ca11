"""`OpenAIModel` against a server on loopback that misbehaves on demand."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import ssl
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from rldf_ray.models import openai_retry
from rldf_ray.models.agent import Choice
from rldf_ray.models.base import (
    BudgetSpentError,
    ChatRequest,
    Completion,
    Message,
    ModelError,
    Usage,
)
from rldf_ray.models.concurrency import ConcurrencyLimiter
from rldf_ray.models.limits import Budget
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.models.openai_reply import choice_distribution
from rldf_ray.plan import Endpoint
from tests.endpoint import Answer, Server, completion, ok, refusal, serving, with_top

KEY = "sk-secret-0123456789"
KEY_ENV = "RLDF_TEST_KEY"
MODEL = "tiny-chat"
REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=8, seed=3)
# Reading all certificates takes longer than most tests here, and none of them uses TLS.
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SCORES = tuple(str(score) for score in range(11))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 0.005)
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: NO_CERTIFICATES)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def model_of(server: Server, **limits: Any) -> OpenAIModel:
    values = {"base_url": server.url, "api_key_env": KEY_ENV, "retries": 3, **limits}
    return OpenAIModel(MODEL, Endpoint(**values))


async def asked(model: OpenAIModel, request: ChatRequest = REQUEST) -> tuple[Completion, ...]:
    try:
        return await model.complete(request)
    finally:
        await model.close()


async def failed(model: OpenAIModel, request: ChatRequest = REQUEST) -> str:
    """The error of a call that must fail, after looking for the key in all that is printed."""
    with pytest.raises(ModelError) as raised:
        await asked(model, request)
    assert KEY not in "".join(traceback.format_exception(raised.value))
    return str(raised.value)


# --- what is sent and what comes back


@pytest.mark.asyncio
async def test_sends_every_setting_and_returns_what_came(server: Server) -> None:
    request = ChatRequest(
        messages=(Message("system", "Be brief."), Message("user", "Hello?")),
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        seed=11,
    )
    (said,) = await asked(model_of(server), request)
    assert said == Completion(
        text="answer 0",
        finish_reason="stop",
        usage=Usage(prompt=7, cached=0, generated=5),
        model=MODEL,
        revision="tiny-chat-0101",
    )
    (received,) = server.received
    assert received.path == "/v1/chat/completions"
    assert received.authorization == f"Bearer {KEY}"
    assert received.body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello?"},
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 11,
        "n": 1,
    }


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_prompt_is_not_sent_on_to_another_host(server: Server, status: int) -> None:
    with serving(Server()) as other:
        location = f"{other.url}/chat/completions"
        server.script = [refusal(status, "elsewhere", location=location)]
        reason = await failed(model_of(server))
        assert not other.received
    assert location in reason
    assert "set endpoint.base_url" in reason


@pytest.mark.asyncio
async def test_prompt_counts_on_the_first_sample_and_generated_tokens_add_up(
    server: Server,
) -> None:
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 8,
        "total_tokens": 28,
        "prompt_tokens_details": {"cached_tokens": 16},
    }
    server.otherwise = lambda body: ok(body, usage=usage, system_fingerprint="fp_1")
    samples = await asked(model_of(server), replace(REQUEST, n=3))
    assert [sample.text for sample in samples] == ["answer 0", "answer 1", "answer 2"]
    assert [sample.usage for sample in samples] == [
        Usage(20, 16, 3),
        Usage(0, 0, 3),
        Usage(0, 0, 2),
    ]
    assert {sample.revision for sample in samples} == {"fp_1"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "length"), (None, "length")],
)
async def test_finish_reason(server: Server, reason: str | None, expected: str) -> None:
    answer = completion("hi")
    answer.body["choices"][0]["finish_reason"] = reason
    server.script = [answer]
    (said,) = await asked(model_of(server))
    assert said.finish_reason == expected


@pytest.mark.asyncio
async def test_a_refusal_is_what_the_model_said(server: Server) -> None:
    answer = completion("")
    answer.body["choices"][0]["message"] = {
        "role": "assistant",
        "content": None,
        "refusal": "I would rather not.",
    }
    server.script = [answer]
    (said,) = await asked(model_of(server))
    assert said.text == "I would rather not."


@pytest.mark.asyncio
async def test_json_schema_is_asked_for_as_response_format(server: Server) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {}, "required": []}
    await asked(model_of(server), replace(REQUEST, json_schema=schema))
    assert server.received[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }


@pytest.mark.asyncio
async def test_choices_are_guided_where_base_url_is_set(server: Server) -> None:
    server.script = [completion("neither")]
    (said,) = await asked(model_of(server), replace(REQUEST, choices=("yes", "no")))
    assert server.received[0].body["structured_outputs"] == {"choice": ["yes", "no"]}
    assert said.text == "neither"


@pytest.mark.asyncio
async def test_choices_are_a_plain_request_at_the_default_url(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    await asked(model_of(server, base_url=None), replace(REQUEST, choices=("yes", "no")))
    body = server.received[0].body
    assert "structured_outputs" not in body
    assert body["max_completion_tokens"] == REQUEST.max_tokens and "max_tokens" not in body


@pytest.mark.asyncio
async def test_logprobs_of_tokens(server: Server) -> None:
    server.script = [with_top("a b", {"a": 0.5}, {" b": 0.25}), completion("a b")]
    request = replace(REQUEST, logprobs=True)
    model = model_of(server)
    (told,) = await model.complete(request)
    (untold,) = await asked(model, request)
    assert told.logprobs == pytest.approx((math.log(0.5), math.log(0.25)))
    assert told.token_ids == () and told.choice_probabilities is None
    assert untold.logprobs is None
    assert server.received[0].body["logprobs"] is True
    assert "top_logprobs" not in server.received[0].body


def test_one_model_works_in_one_event_loop_after_another(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(server, in_flight=1)

    async def two() -> None:
        await asyncio.gather(model.complete(REQUEST), model.complete(REQUEST))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # sockets of the first loop
        asyncio.run(two())
        asyncio.run(two())
        asyncio.run(model.close())
        gc.collect()
    assert len(server.received) == 4
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.asyncio
async def test_no_more_requests_under_way_than_in_flight(server: Server) -> None:
    both = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if server.at_once == 2:
            both.set()
        return replace(ok(body), once=both, delay_s=0.03)

    server.otherwise = answer
    model = model_of(server, in_flight=2)
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(6)))
    await model.close()
    assert server.most_at_once == 2


# --- limits


@pytest.mark.asyncio
async def test_fewer_requests_are_under_way_after_a_server_had_enough(server: Server) -> None:
    model = model_of(server, in_flight=16, retries=5)
    # All answers take equally long, however busy the machine: one that got slower gets no more.
    limiter = model._tries._limiter = ConcurrencyLimiter(16, clock=lambda: 0.0)
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(60)))
    before = limiter.room
    assert before > 4
    crowd = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if server.at_once > 4:
            crowd.set()
        return replace(ok(body), once=crowd)

    server.otherwise = answer
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(before)))
    assert server.most_at_once > 4
    before = limiter.room
    server.script = [refusal(429)] * 8
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(8)))
    await model.close()
    assert limiter.room < before


@pytest.mark.asyncio
async def test_no_more_requests_a_minute_than_the_plan_allows(server: Server) -> None:
    began = time.monotonic()
    model = model_of(server, requests_per_minute=600)
    model._tries._requests.correct(-599)  # a bucket of one
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(4)))
    await model.close()
    # A busy machine may deliver two of them late and together, but none of them early.
    since_s = sorted(request.at_s - began for request in server.received)
    assert all(at_s >= 0.099 * number for number, at_s in enumerate(since_s))
    assert len(since_s) == 4


@pytest.mark.asyncio
async def test_a_spent_budget_sends_nothing_more(server: Server) -> None:
    endpoint = Endpoint(base_url=server.url, api_key_env=KEY_ENV)
    model = OpenAIModel(MODEL, endpoint, Budget(tokens=30))  # a request: 2 + 8, answered: 12
    await model.complete(REQUEST)
    await model.complete(REQUEST)
    with pytest.raises(BudgetSpentError, match="24 tokens are spent"):
        await model.complete(REQUEST)
    await model.close()
    assert len(server.received) == 2


# --- probabilities of choices


def asking_scores() -> ChatRequest:
    return replace(REQUEST, choices=SCORES, choice_probabilities=True)


@pytest.mark.asyncio
async def test_choice_probabilities_come_from_the_first_token(server: Server) -> None:
    top = dict.fromkeys(SCORES, 0.02) | {"7": 0.4, " 7": 0.2, "The": 0.1}
    server.script = [with_top("7", top, {"<end>": 1.0})]
    (said,) = await asked(model_of(server), asking_scores())
    assert server.received[0].body["top_logprobs"] == 20
    assert said.choice_probabilities is not None
    assert said.choice_probabilities == pytest.approx(
        dict.fromkeys(SCORES, 0.02 / 0.8) | {"7": 0.6 / 0.8}
    )
    assert said.logprobs is None


@pytest.mark.parametrize(
    ("top", "choices", "expected"),
    [
        # what is left out may be the missing choice
        ([("a", 0.6), ("b", 0.3)], "abc", None),
        ([("a", 0.6), ("b", 0.395)], "abc", {"a": 0.6 / 0.995, "b": 0.395 / 0.995, "c": 0.0}),
        # no choice is missing: what is left out is no choice
        ([("a", 0.2), ("b", 0.2)], "ab", {"a": 0.5, "b": 0.5}),
        # 0.5% left out is little, but not beside the 1% that the choices hold
        ([("a", 0.01), ("The", 0.985)], "ab", None),
        # "1" may go on to "10", unless "10" is a token itself
        ([("1", 0.9), ("2", 0.1)], ("1", "2", "10"), None),
        ([("2", 0.995), ("1", 0.005)], ("1", "2", "10"), {"1": 0.005, "2": 0.995, "10": 0.0}),
        ([("1", 0.5), ("10", 0.5)], ("1", "10"), {"1": 0.5, "10": 0.5}),
        # a space may go on to any choice
        ([("a", 0.5), (" ", 0.5)], "ab", None),
        ([("The", 1.0)], "ab", None),
        ([("a", 0.0), ("The", 1.0)], "a", None),
        ([], "ab", None),
    ],
)
def test_choice_distribution(
    top: Sequence[tuple[str, float]], choices: Sequence[str], expected: dict[str, float] | None
) -> None:
    found = choice_distribution(top, choices)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.asyncio
async def test_a_server_that_sends_no_logprobs_tells_no_probabilities(server: Server) -> None:
    (said,) = await asked(model_of(server), asking_scores())
    assert said.text == "answer 0" and said.choice_probabilities is None


@pytest.mark.asyncio
async def test_a_400_for_another_reason_is_not_laid_to_logprobs(server: Server) -> None:
    server.script = [refusal(400, "prompt too long")]
    model = model_of(server)
    with pytest.raises(ModelError, match="prompt too long"):
        await model.complete(asking_scores())
    await asked(model, asking_scores())
    assert ["logprobs" in request.body for request in server.received] == [True, True]


# --- failures that pass


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "trouble", [refusal(429), refusal(500), refusal(503), refusal(408), Answer(drop=True)]
)
async def test_passing_trouble_is_tried_again(server: Server, trouble: Answer) -> None:
    server.script = [trouble, trouble]
    (said,) = await asked(model_of(server))
    assert said.text == "answer 0"
    assert len(server.received) == 3


@pytest.mark.asyncio
async def test_a_timeout_is_tried_again(server: Server) -> None:
    server.script = [Answer(delay_s=600, drop=True)]
    started = time.monotonic()
    await asked(model_of(server, timeout_s=2))
    assert len(server.received) == 2
    assert time.monotonic() - started < 300


@pytest.mark.asyncio
async def test_retry_after_in_seconds_is_honoured(server: Server) -> None:
    server.script = [refusal(429, **{"Retry-After": "0.3"}), refusal(503)]
    await asked(model_of(server))
    assert server.gaps_s[0] >= 0.3
    assert len(server.gaps_s) == 2


@pytest.mark.asyncio
async def test_retry_after_as_a_date_is_honoured(server: Server) -> None:
    # Dates have whole seconds: this one is between 0.5 and 1.5 s away.
    moment = datetime.now(UTC) + timedelta(seconds=1.5)
    server.script = [refusal(429, **{"Retry-After": format_datetime(moment, usegmt=True)})]
    await asked(model_of(server))
    came_back = server.received[1].at_s - time.monotonic() + time.time()
    assert came_back >= math.floor(moment.timestamp()) - 0.01


@pytest.mark.asyncio
@pytest.mark.parametrize("value", ["soon", "-5", "nan", "0", ""])
async def test_a_senseless_retry_after_is_ignored(server: Server, value: str) -> None:
    server.script = [refusal(429, **{"Retry-After": value})]
    await asked(model_of(server))
    assert server.gaps_s[0] < 60


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [429, 200])
@pytest.mark.parametrize(
    "named", [{"code": "insufficient_quota"}, {"type": "insufficient_quota", "code": 429}]
)
async def test_an_account_without_credit_is_not_asked_again(
    status: int, named: dict[str, Any], server: Server
) -> None:
    """It looks like a rate limit, and does not pass."""
    server.script = [Answer(status, {"error": {"message": "You exceeded your quota", **named}})]
    with pytest.raises(ModelError, match=r"refused: status 429 .*no credit left: add some"):
        await asked(model_of(server))
    assert len(server.received) == 1


@pytest.mark.asyncio
async def test_a_rate_limit_that_speaks_of_a_quota_passes(server: Server) -> None:
    said = {"message": "You exceeded your current quota, check your plan", "code": 429}
    server.script = [Answer(429, {"error": {**said, "status": "RESOURCE_EXHAUSTED"}})]
    assert await asked(model_of(server))
    assert len(server.received) == 2


@pytest.mark.asyncio
async def test_a_wait_too_long_to_sit_out_is_told(server: Server) -> None:
    server.script = [refusal(429, "quota used up", **{"Retry-After": "86400"})]
    text = await failed(model_of(server))
    assert len(server.received) == 1
    assert "429" in text and "quota used up" in text and "86400 s" in text


@pytest.mark.asyncio
async def test_waits_grow_and_stay_below_the_longest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(openai_retry, "LONGEST_WAIT_S", 0.08)
    monkeypatch.setattr("tenacity.wait.random.uniform", lambda low, high: high)
    server.script = [refusal(500)] * 14
    await asked(model_of(server, retries=14))
    assert server.gaps_s[0] >= 0.04
    assert min(server.gaps_s[1:]) >= 0.08
    assert server.gaps_s[-1] < 0.04 * 2**13


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("trouble", "timeout_s", "told"),
    [
        (refusal(500, f"overloaded, {KEY}"), 60, "status 500 (overloaded, [key])"),
        (refusal(429, "slow down"), 60, "status 429 (slow down)"),
        (Answer(drop=True), 60, "no connection (RemoteProtocolError"),
        (Answer(delay_s=600, drop=True), 1, "timeout after 1 s (endpoint.timeout_s)"),
    ],
)
async def test_giving_up_tells_tries_and_the_last_failure(
    server: Server, trouble: Answer, timeout_s: float, told: str
) -> None:
    server.otherwise = lambda body: trouble
    text = await failed(model_of(server, retries=2, timeout_s=timeout_s))
    assert len(server.received) == 3
    assert "in 3 tries" in text and told in text
    assert MODEL in text and server.url in text


@pytest.mark.asyncio
async def test_no_retries_means_one_try(server: Server) -> None:
    server.otherwise = lambda body: refusal(500)
    assert "in 1 try;" in await failed(model_of(server, retries=0))
    assert len(server.received) == 1


@pytest.mark.asyncio
async def test_a_port_where_nothing_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        text = await failed(model_of(Server(url=url), retries=1))
    assert "in 2 tries" in text and "no connection (ConnectError" in text


# --- failures that stay


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (400, "the request itself"),
        (401, f"environment variable {KEY_ENV}"),
        (403, "may not use the model"),
        (404, "check the model's name"),
        (422, "no retry can help"),
    ],
)
async def test_a_final_refusal_is_told_at_once(server: Server, status: int, told: str) -> None:
    server.otherwise = lambda body: refusal(status, f"not for Bearer {KEY}")
    text = await failed(model_of(server))
    assert len(server.received) == 1
    assert f"status {status}" in text and told in text
    assert MODEL in text and server.url in text


@pytest.mark.asyncio
async def test_a_long_reason_is_not_cut_within_the_key(server: Server) -> None:
    server.otherwise = lambda body: refusal(400, f"{'x' * 290}{KEY}{'y' * 300}")
    text = await failed(model_of(server))
    assert "sk-" not in text and "[key]" in text and len(text) < 600


@pytest.mark.asyncio
async def test_a_refused_key_is_not_even_told_in_part(server: Server) -> None:
    server.otherwise = lambda body: refusal(401, f"wrong key sk-sec***{KEY[-4:]}")
    text = await failed(model_of(server))
    assert KEY[-4:] not in text and "sk-sec" not in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"<html>hello</html>", headers={"Content-Type": "text/html"}),
        Answer(body=b"{torn"),
        Answer(body=[]),
        Answer(body={"object": "list", "data": []}),
        Answer(body=b"[" * 100_000),
    ],
)
async def test_no_answer_is_made_up_of_something_else(server: Server, answer: Answer) -> None:
    server.script = [answer]
    assert "no chat completion" in await failed(model_of(server))


@pytest.mark.asyncio
async def test_more_samples_than_requested_are_an_error(server: Server) -> None:
    server.script = [completion("one", "two")]
    assert "returned 2 samples where 1" in await failed(model_of(server))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "The response was filtered.", "code": "content_filter", "param": "n"}),
        (400, {"message": "Your prompt may violate our usage policy.", "code": "invalid_prompt"}),
        (400, {"message": "Content Exists Risk"}),
        (403, {"message": "This model requires moderation and your input was flagged"}),
    ],
)
async def test_a_content_filter_refuses_one_item_and_not_the_run(
    server: Server, caplog: pytest.LogCaptureFixture, status: int, error: dict[str, str]
) -> None:
    refused = Answer(status, {"error": error})
    server.otherwise = lambda body: refused if body["messages"][0]["content"] == "?" else ok(body)
    model = model_of(server)
    asking = replace(asking_scores(), messages=(Message("user", "?"),))
    for _ in range(2):
        (empty,) = await model.complete(asking)
        assert (empty.text, empty.finish_reason, empty.usage) == ("", "length", Usage())
        assert empty.refusal is not None and error["message"] in empty.refusal
    (said,) = await asked(model)
    assert said.text == "answer 0" and said.refusal is None
    assert len(server.received) == 3
    (line,) = [r.getMessage() for r in caplog.records if r.name.startswith("rldf_ray")]
    assert "content filter" in line
    assert Choice(None, None, empty).failure("the score") == f"no answer: {empty.refusal}"


# --- keys


def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_ENV)
    with pytest.raises(ModelError, match=f"{KEY_ENV} is not set"):
        OpenAIModel(MODEL, Endpoint(api_key_env=KEY_ENV))


def test_a_key_that_no_header_can_carry_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, f"{KEY}\nsecond line")
    with pytest.raises(ModelError, match="characters") as raised:
        OpenAIModel(MODEL, Endpoint(api_key_env=KEY_ENV))
    assert KEY not in str(raised.value)


@pytest.mark.asyncio
async def test_a_server_of_ones_own_needs_no_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_ENV)
    await asked(model_of(server))
    assert server.received[0].authorization == "Bearer none"


def test_a_base_url_without_http_is_refused() -> None:
    """A run of an earlier version may have one."""
    values = {"base_url": "localhost:8000/v1", "api_key_env": KEY_ENV}
    endpoint = Endpoint.model_validate(values, context={"saved": True})
    with pytest.raises(ModelError, match=r"base_url=localhost:8000/v1: .* begins with http"):
        OpenAIModel(MODEL, endpoint)


def test_the_model_is_called_by_its_name(server: Server) -> None:
    assert model_of(server).name == MODEL
