"""A real server: vLLM behind Ray Serve, asked by the clients people use."""

from __future__ import annotations

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from benchmarks.running_server import Running

pytestmark = pytest.mark.slow

QUESTION: list[Any] = [{"role": "user", "content": "What do you think of working from home?"}]
BOTH = pytest.mark.parametrize("model", ["base", "policy"])


@pytest.fixture
def client(real_server: Running) -> OpenAI:
    return OpenAI(base_url=f"{real_server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture
def http(real_server: Running) -> httpx.Client:
    return httpx.Client(base_url=real_server.address, timeout=1200)


def say(client: OpenAI, model: str = "base", **settings: Any) -> Any:
    fixed = {"max_tokens": 24, "temperature": 0, "seed": 1}
    return client.chat.completions.create(model=model, messages=QUESTION, **fixed | settings)


@BOTH
def test_a_seed_repeats_an_answer_and_another_one_does_not(client: OpenAI, model: str) -> None:
    def text(seed: int) -> str:
        found = say(client, model, temperature=1.0, seed=seed)
        return str(found.choices[0].message.content)

    assert text(1) == text(1) != text(2)


def test_the_adapter_is_another_model_than_its_base(client: OpenAI) -> None:
    answers = {model: say(client, model) for model in ("base", "policy")}
    texts = [found.choices[0].message.content for found in answers.values()]
    assert texts[0] != texts[1]
    assert [found.model for found in answers.values()] == ["base", "policy"]
    assert [card.id for card in client.models.list()] == ["policy", "base"]


@BOTH
def test_a_stream_says_the_same_with_usage(client: OpenAI, model: str) -> None:
    whole = say(client, model)
    options = {"include_usage": True}
    chunks = list(say(client, model, stream=True, stream_options=options))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert len(chunks) > 10
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_logprobs_n_and_stop(client: OpenAI) -> None:
    found = say(client, n=2, temperature=1.0, logprobs=True, top_logprobs=3)
    assert len(found.choices) == 2
    for choice in found.choices:
        positions = choice.logprobs.content
        assert len(positions) > 0 and all(p.logprob <= 0 for p in positions)
        assert all(len(p.top_logprobs) == 3 for p in positions)
    cut = say(client, stop=[" "])
    assert cut.choices[0].finish_reason == "stop" and " " not in cut.choices[0].message.content
    short = say(client, max_tokens=3)
    assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3


def test_structured_output(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"fair": {"type": "boolean"}},
        "required": ["fair"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
    said = say(client, response_format=form, max_tokens=40).choices[0].message.content
    assert isinstance(json.loads(said)["fair"], bool)
    choice = {"structured_outputs": {"choice": ["fair", "unfair"]}}
    assert say(client, extra_body=choice).choices[0].message.content in ("fair", "unfair")
    guided = {"guided_choice": ["yes", "no"]}
    assert say(client, extra_body=guided).choices[0].message.content in ("yes", "no")


def test_completions(client: OpenAI) -> None:
    found = client.completions.create(
        model="base", prompt="Once upon a time", max_tokens=8, temperature=0, logprobs=2
    )
    assert found.choices[0].text and len(found.choices[0].logprobs.tokens) == 8


def test_errors_are_the_clients_own(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        say(client, "other")
    with pytest.raises(openai.BadRequestError, match="at most 512"):
        say(client, max_tokens=4000)
    long = [{"role": "user", "content": "word " * 3000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="1024"):
            client.chat.completions.create(
                model="base",
                messages=long,  # type: ignore[arg-type]
                max_tokens=4,
                stream=stream,
            )
        with pytest.raises(openai.BadRequestError):
            say(client, n=2, stream=stream)
    bad = {"structured_outputs": {"json": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError):
        say(client, extra_body=bad)
    assert say(client).choices


def test_curl(real_server: Running) -> None:
    body = json.dumps({"messages": QUESTION, "max_tokens": 4})
    url = f"{real_server.address}/v1/chat/completions"
    command = ["curl", "-sf", url, "-H", "content-type: application/json", "-d", body]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert found["model"] == "policy" and found["choices"][0]["message"]["content"]


def test_langchain(real_server: Running) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(
        base_url=f"{real_server.address}/v1",
        api_key="none",  # type: ignore[arg-type]
        model="policy",
        max_completion_tokens=8,
        temperature=0,
    )
    whole = chat.invoke("What do you think of working from home?").content
    assert whole and "".join(str(c.content) for c in chat.stream("Hello")) != ""


def generating(http: httpx.Client) -> int:
    """Generations under way, as the engine itself counts them."""
    while True:
        found: int | None = http.get("/ready").json()["generating"]["base"]
        if found is not None:  # else the engine was too busy to say
            return found


def cancelled(http: httpx.Client) -> float:
    """Generations that the API has cancelled because their clients had gone."""
    lines = http.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith('rldf_cancelled_total{reason="client"}')]
    return float(counts[0].split()[-1]) if counts else 0.0


def test_a_client_that_goes_cancels_the_generation_in_the_engine(http: httpx.Client) -> None:
    before = cancelled(http)
    # To the end these would take far longer than what is done meanwhile.
    body = {"model": "base", "messages": QUESTION, "max_tokens": 512, "stream": True, "n": 8}
    with http.stream("POST", "/v1/chat/completions", json=body) as reply:
        lines = reply.iter_lines()  # kept: httpx closes the connection with it
        assert next(lines).startswith("data: ")
        assert generating(http) > 0
    deadline = time.monotonic() + 600
    while cancelled(http) == before or generating(http) > 0:
        assert time.monotonic() < deadline, "the engine goes on generating for nobody"
        time.sleep(0.1)


def test_bias_scores_texts_together(http: httpx.Client) -> None:
    texts = ["Old people cannot learn.", "It depends on the person.", "Old people cannot learn."]
    body = {"input": texts, "prompt": "What do you think of age?", "referee": True}
    found = http.post("/v1/bias", json=body).json()
    rows = found["data"]
    assert rows[0]["reward"] == pytest.approx(rows[2]["reward"], abs=1e-3)
    assert rows[0]["reward"] != pytest.approx(rows[1]["reward"], abs=1e-6)
    assert all(0 <= row["score"] <= 10 and 0 < row["expected_score"] < 10 for row in rows)
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(http.post, "/v1/bias", json={**body, "referee": False}) for _ in "1234"
        ]
    for call in calls:
        assert [row["reward"] for row in call.result().json()["data"]] == pytest.approx(
            [row["reward"] for row in rows], abs=1e-3
        )


def test_a_debate_is_held_and_refereed(http: httpx.Client) -> None:
    body = {"topic": "Office hours suit everybody", "rounds": 1, "debaters": 2, "max_tokens": 32}
    text = http.post("/v1/debate", json=body).text
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    kinds = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
    assert kinds == ["debate", "statement", "statement", "scores", "done"]
    assert found[0]["model"] == "policy" and found[0]["referee"] == "base"
    assert sorted(score["rank"] for score in found[3]["scores"]) == [1, 2]
    assert all(0 < score["expected_score"] < 10 for score in found[3]["scores"])
