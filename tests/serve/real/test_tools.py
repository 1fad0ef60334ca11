"""A real server: tools, /v1/responses, tokens, and what evaluation harnesses ask of completions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from benchmarks.running_server import Running

pytestmark = pytest.mark.slow

QUESTION: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "description": "The weather in a city", "parameters": PARAMETERS}
TOOLS: list[Any] = [{"type": "function", "function": FUNCTION}]
NAMED: Any = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture
def client(real_server: Running) -> OpenAI:
    return OpenAI(base_url=f"{real_server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture
def http(real_server: Running) -> httpx.Client:
    return httpx.Client(base_url=real_server.address, timeout=1200)


def say(client: OpenAI, **settings: Any) -> Any:
    fixed = {"model": "base", "messages": QUESTION, "max_tokens": 80, "temperature": 0, "seed": 1}
    return client.chat.completions.create(**fixed | settings)  # type: ignore[call-overload]


def city_of(arguments: str) -> str:
    return str(json.loads(arguments)["city"])


@pytest.mark.parametrize("choice", [NAMED, "required"], ids=["named", "required"])
def test_a_call_is_made_streamed_and_answered(client: OpenAI, choice: Any) -> None:
    message = say(client, tools=TOOLS, tool_choice=choice).choices[0].message
    (call,) = message.tool_calls
    assert call.function.name == "weather"
    assert city_of(call.function.arguments) in ("Rome", "Oslo")
    chunks = say(client, tools=TOOLS, tool_choice=choice, stream=True)
    parts = [c.choices[0].delta.tool_calls for c in chunks if c.choices]
    said = "".join(part[0].function.arguments or "" for part in parts if part)
    assert city_of(said) == city_of(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    again = say(client, tools=TOOLS, tool_choice="none", messages=[*QUESTION, message, result])
    assert again.choices[0].message.content and not again.choices[0].message.tool_calls


def test_a_model_that_is_left_the_choice_may_answer(client: OpenAI) -> None:
    found = say(client, tools=TOOLS).choices[0].message
    assert found.content or found.tool_calls
    alone = say(client, tools=[]).choices[0].message
    assert alone.content != found.content  # it was shown the tools


def test_a_reasoning_effort_that_no_template_reads_is_refused(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="reasoning effort"):
        say(client, reasoning_effort="low")


def test_sampling_settings_are_followed(client: OpenAI, http: httpx.Client) -> None:
    # Words that are as likely as one another may change places in a longer answer.
    first = {"max_tokens": 12}
    drawn = [
        say(client, **first | change).choices[0].message.content
        for change in (
            {},
            {"temperature": 2.0, "extra_body": {"top_k": 1}},
            {"temperature": 2.0, "extra_body": {"min_p": 1.0}},
            {"temperature": 2.0},
        )
    ]
    assert drawn[0] == drawn[1] == drawn[2] != drawn[3]
    (token,) = http.post(
        "/tokenize", json={"model": "base", "prompt": "weather", "add_special_tokens": False}
    ).json()["tokens"]
    biased = say(client, max_tokens=3, logit_bias={str(token): 100})
    assert biased.choices[0].message.content == "weatherweatherweather"
    with pytest.raises(openai.BadRequestError):
        say(client, logit_bias={"99999999": 1})


def test_tokens_are_told_and_read(client: OpenAI, http: httpx.Client) -> None:
    prompt = "The nurse said that she was late"
    tokens = http.post("/tokenize", json={"model": "base", "prompt": prompt}).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json() == {"prompt": prompt}
    fixed: dict[str, Any] = {"model": "base", "temperature": 0, "max_tokens": 8}
    said = {client.completions.create(prompt=p, **fixed).choices[0].text for p in (prompt, tokens)}
    assert len(said) == 1
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="base", prompt=[99_999_999], max_tokens=1)


def test_an_engine_with_adapters_scores_no_prompt(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="carries adapters"):
        client.completions.create(model="base", prompt="Once", echo=True, logprobs=1, max_tokens=1)


def test_a_chat_has_the_tokens_that_it_is_counted_for(client: OpenAI, http: httpx.Client) -> None:
    body = {"model": "base", "messages": QUESTION}
    assert http.post("/tokenize", json=body).json()["count"] == say(client).usage.prompt_tokens


def test_responses_answer_stream_and_call(client: OpenAI) -> None:
    fixed: dict[str, Any] = {"model": "base", "max_output_tokens": 80, "temperature": 0}
    text = "How is the weather in Rome?"
    whole = client.responses.create(input=text, **fixed)
    assert whole.model == "base" and whole.output_text == say(client).choices[0].message.content
    assert whole.usage is not None and whole.usage.output_tokens > 0
    with client.responses.stream(input=text, **fixed) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == whole.output_text
        assert stream.get_final_response().usage == whole.usage
    schema = {"type": "json_schema", "name": "where", "schema": PARAMETERS, "strict": True}
    formed = client.responses.create(input=text, text={"format": schema}, **fixed)
    assert city_of(formed.output_text) in ("Rome", "Oslo")
    tool: Any = {"type": "function", **FUNCTION, "strict": True}
    asked: list[Any] = [{"role": "user", "content": text}]
    called = client.responses.create(input=asked, tools=[tool], tool_choice="required", **fixed)
    (call,) = [item for item in called.output if item.type == "function_call"]
    assert city_of(call.arguments) in ("Rome", "Oslo")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    told = [*asked, call.model_dump(exclude_none=True), output]
    assert client.responses.create(input=told, **fixed).output_text


def test_an_adapter_answers_to_responses_too(client: OpenAI) -> None:
    fixed: dict[str, Any] = {"input": "Hello", "max_output_tokens": 16, "temperature": 0}
    one, other = (client.responses.create(model=m, **fixed) for m in ("base", "policy"))
    assert (one.model, other.model) == ("base", "policy")
    assert one.output_text != other.output_text
