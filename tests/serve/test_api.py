"""The API over scripted engines: OpenAI's forms, limits, keys, errors and scores."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletion

from rldf_ray.apps.serve.engines import (
    EngineRequest,
    Stream,
    Target,
)
from rldf_ray.apps.serve.keys import add_key
from rldf_ray.apps.serve.scripted import ScriptedEngines
from tests.serve.conftest import Start, events

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


def test_a_chat_completion_has_openais_form(start: Start) -> None:
    found = start().client.post(CHAT, json={**HELLO, "n": 2}).json()
    assert found["object"] == "chat.completion" and found["model"] == "policy"
    assert [choice["index"] for choice in found["choices"]] == [0, 1]
    assert found["choices"][0]["message"]["content"]
    usage = found["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_stream_says_the_same_as_a_whole_answer(start: Start) -> None:
    client = start().client
    answer = client.post(CHAT, json=HELLO).json()["choices"][0]["message"]["content"]
    reply = client.post(CHAT, json={**HELLO, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    *chunks, done = events(reply.text)
    assert done == "[DONE]" and all(chunk["choices"] for chunk in chunks)
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == answer
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_usage_is_streamed_only_to_who_asks(start: Start) -> None:
    client = start().client
    body = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
    *_, last, _ = events(client.post(CHAT, json=body).text)
    assert last["choices"] == [] and last["usage"]["completion_tokens"] > 0


def test_completions_choices_and_schemas(start: Start) -> None:
    client = start().client
    found = client.post("/v1/completions", json={"prompt": "Once", "model": "base"}).json()
    assert found["choices"][0]["text"] and found["model"] == "base"
    for form in (
        {"guided_choice": ["yes", "no"]},
        {"structured_outputs": {"choice": ["yes", "no"]}},
    ):
        said = client.post(CHAT, json={**HELLO, **form}).json()["choices"][0]["message"]["content"]
        assert said in ("yes", "no")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for form in (
        {"guided_json": schema},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": schema},
            }
        },
    ):
        said = client.post(CHAT, json={**HELLO, **form}).json()["choices"][0]["message"]["content"]
        assert json.loads(said) == {"a": 0}


def test_an_answer_can_be_sent_back_with_the_next_question(start: Start) -> None:
    client = start().client
    messages: list[Any] = list(HELLO["messages"])
    for _ in range(2):
        answer = ChatCompletion.model_validate(
            client.post(CHAT, json={"messages": messages}).json()
        )
        # What the official client sends of a message that it was given.
        messages.append(answer.choices[0].message.model_dump(mode="json", exclude_unset=True))
        messages.append({"role": "user", "content": [{"type": "text", "text": "And?", "x": None}]})
    assert "refusal" in messages[1]
    reply = client.post(CHAT, json={"messages": messages, "tools": None, "service": None})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    ("beside", "status"),
    [
        ({"content": None}, 200),
        ({"content": []}, 200),
        ({"tool_calls": []}, 200),
        ({"reasoning_content": "because"}, 200),
        ({"refusal": "no"}, 200),
        ({"tool_calls": [{"id": "1", "type": "function"}]}, 400),
        ({"audio": {"id": "1"}}, 400),
        ({"role": "user", "content": None}, 400),
        ({"role": "user", "refusal": "no"}, 400),
    ],
)
def test_what_asks_for_nothing_is_taken_in_a_message(
    start: Start, beside: dict[str, Any], status: int
) -> None:
    sent = {"role": "assistant", "content": "x", **beside}
    reply = start().client.post(CHAT, json={"messages": [sent, *HELLO["messages"]]})
    assert reply.status_code == status, reply.text


def test_models_are_listed_and_an_unknown_one_is_named(start: Start) -> None:
    client = start().client
    assert [card["id"] for card in client.get("/v1/models").json()["data"]] == ["policy", "base"]
    assert client.get("/v1/models/base").json()["id"] == "base"
    reply = client.post(CHAT, json={**HELLO, "model": "other"})
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "model_not_found"
    assert "policy, base" in reply.json()["error"]["message"]
    assert client.get("/v1/models/other").status_code == 404


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"n": 9}, "n"),
        ({"n": 0}, "n"),
        ({"max_tokens": 1025}, "max_tokens"),
        ({"max_completion_tokens": 1025}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 40000}]}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages.0.role"),
        ({"temperature": "hot"}, "temperature"),
        ({"seed": -1}, "seed"),
        ({"stop": [""]}, None),
        ({"tools": {}}, "tools"),
        ({"top_logprobs": 2}, None),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a"], "guided_json": {}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"guided_json": {"a": "x" * 20000}}, "response_format"),
        ({"guided_json": {"a": "\ud800"}}, "response_format"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, None),
    ],
)
def test_what_goes_too_far_is_refused_in_openais_form(
    start: Start, change: dict[str, Any], param: str | None
) -> None:
    body = json.dumps({**HELLO, **change})
    reply = start().client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    if param is not None:
        assert error["param"] == param


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100000, b'{"messages": NaN}', b"1" * 9000],
)
def test_what_is_no_request_is_refused(start: Start, body: bytes) -> None:
    reply = start().client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400 and reply.json()["error"]["message"]


def test_a_body_that_is_too_large_is_not_read(start: Start) -> None:
    client = start(limits={"body_bytes": 2000}).client
    assert client.post(CHAT, content=b"x" * 2001).status_code == 413

    def parts() -> Any:
        for _ in range(100):
            yield b"x" * 1000

    assert client.post(CHAT, content=parts()).status_code == 413


def test_keys_are_asked_for_where_there_are_any(start: Start, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "ann", requests_per_minute=2)
    client = start(keys=str(tmp_path / "keys.json")).client
    for headers in ({}, {"authorization": "Bearer no"}, {"authorization": f"Basic {key}"}):
        reply = client.post(CHAT, json=HELLO, headers=headers)
        assert reply.status_code == 401
        assert reply.json()["error"]["code"] == "invalid_api_key"
    good = {"authorization": f"Bearer {key}"}
    assert client.post(CHAT, json=HELLO, headers=good).status_code == 200
    assert client.get("/metrics").status_code == 401
    assert client.get("/v1/runs", headers=good).status_code == 200
    turned_away = client.post(CHAT, json=HELLO, headers=good)
    assert turned_away.status_code == 429 and int(turned_away.headers["retry-after"]) > 0
    for path in ("/", "/health", "/ready", "/page/page.css"):
        assert client.get(path).status_code == 200


def test_tokens_of_an_answer_count_against_the_key(start: Start, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=5)
    client = start(keys=str(tmp_path / "keys.json")).client
    good = {"authorization": f"Bearer {key}"}
    assert client.post(CHAT, json={**HELLO, "stream": True}, headers=good).status_code == 200
    assert client.post(CHAT, json=HELLO, headers=good).status_code == 429


async def test_long_prompts_at_once_do_not_pass_a_limit_together(
    start: Start, tmp_path: Path
) -> None:
    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=50)
    engine = {"scripted_delay_s": 0.01}
    guard = start(keys=str(tmp_path / "keys.json"), engine=engine).guard
    headers = {"authorization": f"Bearer {key}"}
    body = {"messages": [{"role": "user", "content": "word " * 100}], "max_tokens": 8}
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asked = (client.post(CHAT, json=body, headers=headers) for _ in range(60))
        replies = await asyncio.gather(*asked)
    statuses = [reply.status_code for reply in replies]
    assert statuses.count(200) == 1 and statuses.count(429) == 59
    assert all(int(reply.headers.get("retry-after", 0)) <= 660 for reply in replies)


def test_an_answer_that_takes_too_long_is_cancelled_in_the_engine(start: Start) -> None:
    # The first word is there long before the time is up, and the last would come long after it.
    server = start(engine={"scripted_delay_s": 0.05}, limits={"request_timeout_s": 2})
    body = {**HELLO, "n": 8}
    reply = server.client.post(CHAT, json=body)
    assert reply.status_code == 504 and "cancelled" in reply.json()["error"]["message"]
    *_, last = events(server.client.post(CHAT, json={**body, "stream": True}).text)
    assert last["error"]["code"] == "timeout"
    engine = server.engines.engines["policy"]
    assert engine.running == 0 and engine.cancelled == 2
    assert 'rldf_cancelled_total{reason="timeout"} 2.0' in server.client.get("/metrics").text


def test_a_stream_whose_engine_hangs_ends_long_before_its_time_is_up(start: Start) -> None:
    class Hanging(ScriptedEngines):
        ended = False

        async def generate(self, target: Target, request: EngineRequest) -> Stream:
            try:
                yield ["data: {}\n\n"]
                await asyncio.sleep(600)
            finally:
                self.ended = True

    server = start(Hanging(), limits={"idle_s": 0.2})
    first, last = events(server.client.post(CHAT, json={**HELLO, "stream": True}).text)
    assert first == {} and last["error"]["code"] == "timeout"
    assert server.engines.ended


def test_a_store_that_cannot_be_read_is_no_internal_error(start: Start, tmp_path: Path) -> None:
    (tmp_path / "policy/versions/vx").mkdir(parents=True)
    (tmp_path / "policy/traffic.json").write_text("{", encoding="utf-8")
    client = start(models={"policy": {"store": True}}, store=str(tmp_path)).client
    for reply in (client.post(CHAT, json=HELLO), client.get("/v1/models"), client.get("/ready")):
        assert reply.status_code == 503
        assert "store" in reply.text and str(tmp_path) not in reply.text


def test_no_prompt_is_logged_unless_asked_for(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"messages": [{"role": "user", "content": "purple elephants"}]}
    server = start()
    server.client.post(CHAT, json=body)
    server.client.post(CHAT, json={**body, "messages": [{"role": "purple"}]})
    server.client.get("/purple")
    assert "status=200" in said(caplog) and "purple" not in said(caplog)
    start(log_prompts=True).client.post(CHAT, json=body)
    assert "purple elephants" in said(caplog)


def said(caplog: pytest.LogCaptureFixture) -> str:
    """What the server logged; the test's own HTTP client logs too."""
    return "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("rldf"))


def test_a_server_that_shuts_down_lets_nothing_new_in(start: Start) -> None:
    server = start()
    server.guard.draining = True
    reply = server.client.post(CHAT, json=HELLO)
    assert reply.status_code == 503 and reply.headers["retry-after"]
    assert server.client.get("/health").status_code == 200
    assert server.client.get("/ready").status_code == 503


def test_too_many_at_once_are_turned_away(start: Start) -> None:
    server = start(limits={"in_flight": 1})
    server.guard.under_way = 1
    assert server.client.post(CHAT, json=HELLO).status_code == 429


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8000", 200),
        ("LocalHost", 200),
        ("[::1]:8000", 200),
        ("mine.example:9", 200),
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_page_whose_name_leads_here_reads_nothing(start: Start, host: str, status: int) -> None:
    client = start(hosts=["mine.example"]).client
    for path in ("/", "/v1/runs", "/v1/models"):
        assert client.get(path, headers={"host": host}).status_code == status
    assert client.get("/health", headers={"host": host}).status_code == 200


def test_with_keys_a_server_answers_to_any_name(start: Start, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "ann")
    client = start(keys=str(tmp_path / "keys.json")).client
    headers = {"host": "any.example", "authorization": f"Bearer {key}"}
    assert client.get("/v1/models", headers=headers).status_code == 200


async def test_one_key_does_not_take_the_room_of_all(start: Start, tmp_path: Path) -> None:
    keys = {name: add_key(tmp_path / "keys.json", name) for name in ("ann", "bob")}
    limits = {"in_flight": 4, "in_flight_per_key": 2}
    guard = start(keys=str(tmp_path / "keys.json"), limits=limits).guard
    ended = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await ended.wait()

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guard), base_url="http://127.0.0.1"
    ) as client:

        async def ask(name: str, **body: Any) -> int:
            headers = {"authorization": f"Bearer {keys[name]}"}
            return (await client.post(CHAT, headers=headers, **body)).status_code

        asked = [asyncio.create_task(ask("ann", content=slow())) for _ in range(2)]
        while guard.under_way < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert await ask("ann", json=HELLO) == 429
        assert await ask("bob", json=HELLO) == 200
        ended.set()
        assert await asyncio.gather(*asked) == [400, 400]
    assert not guard.of_key


def test_other_pages_may_not_call_unless_named(start: Start) -> None:
    origin = {"origin": "https://page.example"}
    reply = start().client.post(CHAT, json=HELLO, headers=origin)
    assert "access-control-allow-origin" not in reply.headers
    client = start(cors_origins=["https://page.example"]).client
    reply = client.post(CHAT, json=HELLO, headers=origin)
    assert reply.headers["access-control-allow-origin"] == "https://page.example"


def test_an_allowed_page_may_ask_without_its_key_and_read_errors(
    start: Start, tmp_path: Path
) -> None:
    add_key(tmp_path / "keys.json", "ann")
    origin = {"origin": "https://page.example"}
    client = start(keys=str(tmp_path / "keys.json"), cors_origins=[origin["origin"]]).client
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    preflight = client.options(CHAT, headers=origin | asks)
    assert preflight.status_code == 200
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    refused = client.post(CHAT, json=HELLO, headers=origin)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == origin["origin"]
    other = client.options(CHAT, headers=asks | {"origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers


def test_bias_is_scored_by_the_reward_model_and_the_referee(start: Start) -> None:
    client = start().client
    found = client.post("/v1/bias", json={"input": ["one", "one two"], "prompt": "x"}).json()
    assert [row["reward"] for row in found["data"]] == [-1.0, -2.0]
    assert "score" not in found["data"][0] and found["referee"] is None
    found = client.post("/v1/bias", json={"input": "one", "referee": True}).json()
    (row,) = found["data"]
    assert 0 <= row["score"] <= 10 and 0 <= row["expected_score"] <= 10
    assert found["referee"] == {"kind": "prompted", "model": "base", "version": ""}
    many = client.post("/v1/bias", json={"input": ["x"] * 65})
    assert many.status_code == 400 and many.json()["error"]["param"] == "input"


def test_about_tells_the_page_what_there_is(start: Start) -> None:
    found = start().client.get("/v1/about").json()
    assert found["models"] == ["policy", "base"] and "age" in found["bias_types"]
    assert "{topic}" in found["answer_prompt"]


def test_metrics_count_by_route_and_not_by_path(start: Start) -> None:
    client = start().client
    client.post(CHAT, json=HELLO)
    client.get("/made/up/path")
    text = client.get("/metrics").text
    assert 'rldf_requests_total{route="/v1/chat/completions",status="200"} 1.0' in text
    assert 'route="other",status="404"' in text and "made" not in text
    assert 'rldf_tokens_total{kind="completion",model="policy",version=""}' in text


def test_a_trained_referee_scores_texts(start: Start, fitted: str) -> None:
    client = start(trained_referee=fitted).client
    body = {"input": ["they never learn", "it depends", " "], "referee": True}
    found = client.post("/v1/bias", json=body).json()
    scores = [row["expected_score"] for row in found["data"]]
    assert scores[:2] == [pytest.approx(8.808, abs=1e-3), pytest.approx(1.192, abs=1e-3)]
    assert scores[2] is None and "could not read" in found["data"][2]["failure"]
    assert found["referee"] == {"kind": "trained", "model": "trained", "version": "abc"}
    assert client.get("/v1/about").json()["referee"] == "trained"
    gone = client.post("/v1/bias", json={"input": "gone", "referee": True})
    assert gone.status_code == 503 and gone.json()["error"]["code"] == "engine_lost"
