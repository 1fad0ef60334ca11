"""What hostile and odd clients do, against vLLM behind Ray Serve with keys and two API replicas."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml
from openai import OpenAI

from benchmarks.running_server import Running, running
from rldf_ray.apps.serve.keys import add_key, remove_key

pytestmark = pytest.mark.slow

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "word " * 3000}], "max_tokens": 4}
ENDLESS: dict[str, Any] = {**HELLO, "max_tokens": 512, "n": 8, "temperature": 1.0, "stream": True}
# Of what is refused at once; a busy machine is slow, and what went wrong took two minutes.
AT_ONCE_S = 60
NAMES = ("The nurse", "The doctor", "The lawyer", "The cook")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(keys: Path) -> str:
    return add_key(keys, "ann")


@pytest.fixture(scope="module")
def server(keys: Path, key: str) -> Iterator[Running]:
    settings = {
        "models": {"policy": {"folder": "embedded"}},
        "keys": str(keys),
        "hosts": ["mine.example"],
        "api_replicas": 2,
        "engine": {"max_model_len": 1024, "max_num_seqs": 32, "cpus": 0.5},
        "limits": {"request_timeout_s": 300, "max_tokens": 512, "idle_s": 20},
    }
    config = keys.parent / "application.yaml"
    config.write_text(yaml.safe_dump({"applications": [{"args": settings}]}), encoding="utf-8")
    with running(str(config), log=keys.parent / "serve.txt") as server:
        yield server


@pytest.fixture
def http(server: Running, key: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=server.address, headers=headers, timeout=500) as client:
        yield client


@pytest.fixture
def client(server: Running, key: str) -> OpenAI:
    return OpenAI(base_url=f"{server.address}/v1", api_key=key, max_retries=0)


def address(server: Running) -> tuple[str, int]:
    return "127.0.0.1", int(server.address.rpartition(":")[2])


def until_nothing_runs(http: httpx.Client) -> None:
    deadline = time.monotonic() + AT_ONCE_S
    while http.get("/ready").json()["generating"] != {"policy": 0}:
        assert time.monotonic() < deadline, "the engine goes on for nobody"
        time.sleep(0.5)


def test_answers_are_sent_back_with_all_their_nulls(client: OpenAI) -> None:
    messages: list[Any] = list(HELLO["messages"])
    for _ in range(3):
        found = client.chat.completions.create(model="policy", messages=messages, max_tokens=4)
        messages += [found.choices[0].message, {"role": "user", "content": "And?"}]
    assert "refusal" in messages[1].model_dump(exclude_unset=True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", [LONG, {**HELLO, "n": 2, "temperature": 0}])
def test_what_the_engine_refuses_is_refused_at_once(
    http: httpx.Client, body: dict[str, Any], stream: bool
) -> None:
    began = time.monotonic()
    reply = http.post(CHAT, json={**body, "stream": stream})
    assert reply.status_code == 400 and reply.json()["error"]["message"]
    assert time.monotonic() - began < AT_ONCE_S


def test_prompts_are_scored_as_texts_and_as_tokens(client: OpenAI, http: httpx.Client) -> None:
    prompts = [f"{name} said that she was {word}" for name in NAMES for word in ("late", "here")]
    tokens = [http.post("/tokenize", json={"prompt": p}).json()["tokens"] for p in prompts]
    fixed: dict[str, Any] = {"model": "policy", "temperature": 0, "echo": True, "logprobs": 1}

    def scored(given: Any, most: int) -> Any:
        return client.completions.create(prompt=given, max_tokens=most, seed=1, **fixed).choices[0]

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda given: scored(given, 0), prompts))
        ids = list(pool.map(lambda given: scored(given, 1), tokens))
    for prompt, of_prompt, text, said in zip(prompts, tokens, texts, ids, strict=True):
        assert text.text == prompt and said.text.startswith(prompt)
        first, *rest = text.logprobs.token_logprobs
        assert first is None and len(rest) == len(of_prompt) - 1 and max(rest) <= 0
        assert said.logprobs.token_logprobs[1:-1] == pytest.approx(rest, abs=0.2)
    body = {"prompt": prompts[0], "max_tokens": 1, "prompt_logprobs": 2}
    (choice,) = http.post("/v1/completions", json=body).json()["choices"]
    assert len(choice["prompt_logprobs"]) == len(tokens[0])


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string", "maxLength": 900}
    for _ in range(depth):
        found = {"type": "object", "properties": {"a": found, "b": found}}
    return found


SCHEMAS: dict[str, dict[str, Any]] = {
    "pattern": {"type": "string", "pattern": "(a?){1000}" * 1000},
    "patterns": {
        "type": "object",
        "properties": {f"p{i}": {"type": "string", "pattern": "(a?){1000}"} for i in range(200)},
        "required": [f"p{i}" for i in range(200)],
    },
    "one count": {"type": "string", "pattern": "(a?){1000}"},
    "within bounds": {"type": "string", "pattern": "((a?){100}){10}"},
    "optional": {"type": "string", "pattern": "([a-z]?){100}"},
    "one after the other": {"type": "string", "pattern": ".{0,128}.{0,128}.{0,128}"},
    "squares": {"type": "string", "pattern": "((a?){100}){100}"},
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    "length": {"type": "string", "minLength": 10**9, "maxLength": 10**9},
    "branches": {"anyOf": [{"type": "string", "maxLength": 1000 - i} for i in range(18)]},
    "deep": nested(8),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_keeps_nobody_else_waiting(http: httpx.Client, name: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        body = {**HELLO, "guided_json": SCHEMAS[name]}
        bombs = [pool.submit(http.post, CHAT, json=body) for _ in range(2)]
        time.sleep(0.5)
        began = time.monotonic()
        assert http.post(CHAT, json=HELLO).status_code == 200
        assert time.monotonic() - began < AT_ONCE_S
        assert {bomb.result().status_code for bomb in bombs} <= {200, 400}


def test_heads_that_are_too_large_and_halves_are_ended(server: Running, http: httpx.Client) -> None:
    reply = http.get("/", headers={"x-long": "a" * 100_000})
    assert reply.status_code == 431 and reply.json()["error"]["message"]
    many = {f"x-{i}": "1" for i in range(200)}
    assert http.get("/", headers=many).status_code == 431
    halves = [socket.create_connection(address(server), 300) for _ in range(500)]
    for i, half in enumerate(halves):
        half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"[: 8 + i % 40])
    assert http.post(CHAT, json=HELLO).status_code == 200
    assert all(b" 408 " in half.recv(200) for half in halves)
    for half in halves:
        half.close()


def test_other_names_are_not_served(http: httpx.Client) -> None:
    for host, status in (("evil.example", 403), ("mine.example:80", 200), ("localhost", 200)):
        assert http.get("/v1/models", headers={"host": host}).status_code == status


def test_a_key_that_was_taken_back_stays_so(keys: Path, http: httpx.Client) -> None:
    revoked = add_key(keys, "bob")
    bob = {"authorization": f"Bearer {revoked}"}
    time.sleep(3)
    assert http.post(CHAT, json=HELLO, headers=bob).status_code == 200
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(add_key, keys, f"other{i}") for i in range(4)]
        taken = pool.submit(remove_key, keys, "bob")
        others += [pool.submit(add_key, keys, f"another{i}") for i in range(4)]
    taken.result()
    time.sleep(3)
    for _ in range(4):
        assert http.post(CHAT, json=HELLO, headers=bob).status_code == 401
    for other in others:
        headers = {"authorization": f"Bearer {other.result()}"}
        assert http.get("/v1/models", headers=headers).status_code == 200


def test_long_prompts_at_once_do_not_pass_a_limit_together(keys: Path, http: httpx.Client) -> None:
    spent = add_key(keys, "carl", tokens_per_minute=50)
    few = add_key(keys, "dora", requests_per_minute=1)
    time.sleep(3)
    body = {**HELLO, "messages": [{"role": "user", "content": "word " * 200}]}

    def ask(key: str) -> httpx.Response:
        return http.post(CHAT, json=body, headers={"authorization": f"Bearer {key}"})

    with ThreadPoolExecutor(20) as pool:
        for key in (spent, few):
            replies = list(pool.map(ask, [key] * 40))
            statuses = [reply.status_code for reply in replies]
            assert statuses.count(200) == 1 and statuses.count(429) == 39, statuses
            assert all(int(r.headers.get("retry-after", 0)) <= 660 for r in replies)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**ENDLESS, "stream": False}),
        (CHAT, ENDLESS),
        ("/v1/completions", {"prompt": "Once", "max_tokens": 512, "n": 8, "temperature": 1.0}),
        ("/v1/bias", {"input": [f"text {i}" * 50 for i in range(64)], "referee": True}),
        ("/v1/debate", {"topic": "Tests", "rounds": 5, "debaters": 4, "max_tokens": 256}),
    ],
)
def test_what_its_caller_has_dropped_is_cancelled(
    http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    until_nothing_runs(http)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(drop, [http] * 6, [path] * 6, [body] * 6))
    # To the end all of them would take far longer.
    until_nothing_runs(http)


def drop(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    """Ask, and go after a few seconds."""
    until = time.monotonic() + 5
    with (
        suppress(httpx.TimeoutException),
        http.stream("POST", path, json=body, timeout=httpx.Timeout(60, read=4)) as reply,
    ):
        for _ in reply.iter_raw():
            if time.monotonic() > until:
                return


def test_a_frozen_engine_ends_its_streams(server: Running, http: httpx.Client) -> None:
    engine = server.replica("rldf-policy")
    with http.stream("POST", CHAT, json=ENDLESS) as reply:
        lines = reply.iter_lines()
        next(lines)
        engine.suspend()
        began = time.monotonic()
        try:
            *_, last = [line for line in lines if line]
        finally:
            engine.resume()
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] in ("timeout", "engine_lost")
    assert time.monotonic() - began < 20 + AT_ONCE_S
    assert http.post(CHAT, json=HELLO).status_code == 200


def test_it_answers_as_before(client: OpenAI, http: httpx.Client) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=HELLO["messages"])
    assert http.get("/ready").json()["ready"]
