"""Tools, /v1/responses, tokens and other fields: what is taken, refused, and told to engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rldf_ray.apps.serve.engine_asked import folded, schemas_of, scores_prompt, unseen
from rldf_ray.apps.serve.engines import EngineRequest, Stream, Target
from rldf_ray.apps.serve.responses import TokenizeBody, tokenize_body
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.apps.serve.settings import read_settings
from rldf_ray.apps.serve.tokens import detokenized, tokenized
from rldf_ray.models.chat_template import ChatTemplate
from tests.serve.conftest import Start

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "The weather", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": WEATHER}
NAMED = {"type": "function", "function": {"name": "weather"}}
OTHER = {"type": "function", "function": {"name": "other"}}
COUNTS = {"name": "f", "parameters": {"minItems": 10**9}}
COSTLY = {"name": "f", "parameters": {"type": "string", "pattern": "([a-z]?){60}"}}
LONG = {**WEATHER, "description": "x" * 40_000}
PARSED = {"engine": {"tool_call_parser": "hermes"}}


class Told(ScriptedEngines):
    """Keeps what engines are told, and answers with `said`."""

    def __init__(self, *said: Any) -> None:
        super().__init__()
        self.said, self.requests = said, []  # type: ignore[var-annotated]

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        self.requests.append(request)
        for piece in self.said:
            yield piece

    @property
    def body(self) -> dict[str, Any]:
        return dict(self.requests[-1].body)


WHOLE = {"model": "e", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}


def test_tools_and_their_results_reach_the_engine(start: Start) -> None:
    engines = Told(WHOLE)
    call = {
        "id": "call_1",
        "type": "function",
        "index": 0,
        "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
    }
    messages = [
        *HELLO["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    body = {"messages": messages, "tools": [TOOL], "tool_choice": NAMED}
    reply = start(engines, **PARSED).client.post(CHAT, json=body)
    assert reply.status_code == 200, reply.text
    assert engines.body["tools"] == [TOOL] and engines.body["tool_choice"] == NAMED
    _, called, result = engines.body["messages"]
    del call["index"]
    assert called == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert result == {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}


@pytest.mark.parametrize(
    ("change", "settings", "param"),
    [
        ({"tools": [TOOL]}, {}, "tools"),
        ({"tools": [TOOL], "tool_choice": NAMED}, {}, "tools"),
        ({"tools": [TOOL], "tool_choice": "none"}, {}, None),
        ({"tools": [TOOL]}, PARSED, None),
        ({"tools": [TOOL], "tool_choice": "required"}, PARSED, None),
        ({"tools": [TOOL], "tool_choice": NAMED}, PARSED, None),
        ({"tools": [TOOL], "tool_choice": OTHER}, PARSED, "tool_choice"),
        ({"tools": []}, {}, None),
        ({"tool_choice": "required"}, {}, "tool_choice"),
        ({"tool_choice": "none"}, {}, None),
        ({"tools": [TOOL], "guided_choice": ["a"]}, PARSED, "tools"),
        ({"tools": [{**TOOL, "function": COUNTS}]}, PARSED, "tools"),
        ({"tools": [TOOL] * 65}, PARSED, "tools"),
        ({"tools": [{**TOOL, "function": COSTLY}] * 2}, PARSED, None),
        ({"tools": [{**TOOL, "function": COSTLY}] * 3}, PARSED, "tools"),
        ({"tools": [{**TOOL, "function": LONG}]}, PARSED, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, {}, "messages.0"),
        ({"messages": [{"role": "user", "content": "x", "tool_call_id": "1"}]}, {}, "messages.0"),
        ({"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}, {}, None),
        ({"logit_bias": {"12": -100, "7": 3.5}}, {}, None),
        ({"logit_bias": {"word": 1}}, {}, "logit_bias.word.[key]"),
        ({"logit_bias": {"1": 101}}, {}, "logit_bias.1"),
        ({"reasoning_effort": "low"}, {}, None),
        ({"reasoning_effort": "much"}, {}, "reasoning_effort"),
    ],
)
def test_what_nothing_could_come_of_is_refused(
    start: Start, change: dict[str, Any], settings: dict[str, Any], param: str | None
) -> None:
    reply = start(Told(WHOLE), **settings).client.post(CHAT, json={**HELLO, **change})
    if param is None:
        assert reply.status_code == 200, reply.text
    else:
        assert reply.status_code == 400 and reply.json()["error"]["param"] == param, reply.text


def test_no_tools_are_not_told(start: Start) -> None:
    engines = Told(WHOLE)
    body = {**HELLO, "tools": [], "tool_choice": "none", "parallel_tool_calls": False}
    assert start(engines).client.post(CHAT, json=body).status_code == 200
    assert engines.body == HELLO


def test_completions_take_tokens_and_echo(start: Start) -> None:
    engines = Told(WHOLE)
    client = start(engines).client
    body = {"prompt": [[1, 2], [3]], "echo": True, "logprobs": 1, "max_tokens": 0}
    assert client.post("/v1/completions", json=body).status_code == 200
    assert engines.body == body
    for wrong in (
        {"prompt": [1, -2]},
        {"prompt": []},
        {"prompt": "x", "max_tokens": 0},
        {"prompt": "x", "prompt_logprobs": 1, "stream": True},
        {"prompt": [[1]] * 9},
        {"prompt": [1] * 20_000},
    ):
        assert client.post("/v1/completions", json=wrong).status_code == 400, wrong


def test_responses_are_passed_on_and_counted(start: Start, tmp_path: Any) -> None:
    said = {"id": "r", "model": "e", "output": [], "usage": {"input_tokens": 5, "output_tokens": 6}}
    engines = Told(said)
    server = start(engines, **PARSED)
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    ]
    tool = {"type": "function", **WEATHER, "strict": True}
    body = {
        "input": items,
        "tools": [tool],
        "tool_choice": "required",
        "store": True,
        "metadata": {"a": "b"},
        "max_output_tokens": 9,
    }
    reply = server.client.post(RESPONSES, json=body)
    assert reply.status_code == 200 and reply.json()["model"] == "policy"
    assert engines.requests[-1].kind == "responses"
    assert engines.body == {
        "input": [{"type": "message", "role": "user", "content": "Weather?"}, *items[1:]],
        "tools": [tool],
        "tool_choice": "required",
        "store": False,
        "max_output_tokens": 9,
    }
    metrics = server.client.get("/metrics").text
    assert 'kind="prompt",model="policy",version=""} 5.0' in metrics
    assert 'kind="completion",model="policy",version=""} 6.0' in metrics


def test_an_answers_parts_reach_the_engine_as_one_text(start: Start) -> None:
    engines = Told(WHOLE)
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in ("Hel", "lo")]
    answers = [
        {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": said}
        for said in ([], parts)
    ]
    body = {"input": [*answers, {"role": "user", "content": "ü" * 30_000}]}
    assert start(engines).client.post(RESPONSES, json=body).status_code == 200
    assert [item["content"] for item in engines.body["input"][:2]] == ["", "Hello"]
    assert {*engines.body["input"][0]} == {"type", "role", "content"}


def test_a_tools_schema_is_not_taken_for_usage(start: Start) -> None:
    told = {"response": {"tools": [{"choices": [], "usage": {}}]}}
    text = json.dumps(told, separators=(",", ":"))
    event = f"event: response.created\ndata: {text}\n\n"
    reply = start(Told([event])).client.post(RESPONSES, json={"input": "x", "stream": True})
    assert reply.text == event


def test_a_streamed_response_is_counted_at_its_end(start: Start) -> None:
    delta = 'event: response.output_text.delta\ndata: {"delta": "Hi"}\n\n'
    usage = {"input_tokens": 5, "output_tokens": 6}
    end = f"event: response.completed\ndata: {json.dumps({'response': {'usage': usage}})}\n\n"
    server = start(Told([delta], [end]))
    reply = server.client.post(RESPONSES, json={"input": "Hello", "stream": True})
    assert reply.text == delta + end and reply.headers["content-type"].startswith("text/event")
    assert 'kind="completion",model="policy",version=""} 6.0' in server.client.get("/metrics").text


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": []},
        {"input": "x", "previous_response_id": "r"},
        {"input": "x", "background": True},
        {"input": "x" * 40_000},
        {"input": "x", "max_output_tokens": 1025},
        {"input": "x", "tools": [{"type": "web_search"}]},
        {"input": "x", "tools": [{"type": "function", **WEATHER}]},
        {"input": "x", "text": {"format": {"type": "json_schema"}}},
        {"input": "x", "text": {"format": {"type": "json_schema", "schema": {"minItems": 10**9}}}},
        {"input": "x", "include": ["message.output_text.logprobs"]},
        {"input": "x", "reasoning": {"summary": "auto"}},
        {"input": [{"type": "item_reference", "id": "r"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
    ],
)
def test_wrong_responses_are_refused(start: Start, wrong: dict[str, Any]) -> None:
    reply = start(Told(WHOLE)).client.post(RESPONSES, json=wrong)
    assert reply.status_code == 400 and reply.json()["error"]["message"], reply.text


def test_a_scripted_engine_says_that_it_calls_nothing(start: Start) -> None:
    client = start(**PARSED).client
    assert client.post("/tokenize", json={"prompt": "x"}).status_code == 400
    assert client.post("/detokenize", json={"tokens": [1]}).status_code == 400
    assert client.post("/tokenize", json={}).json()["error"]["param"] == "prompt"
    forced = {**HELLO, "tools": [TOOL], "tool_choice": "required"}
    assert "scripted" in client.post(CHAT, json=forced).json()["error"]["message"]


def test_schemas_are_found_wherever_a_body_has_them() -> None:
    one, two = {"type": "object"}, PARAMETERS
    assert list(schemas_of({"structured_outputs": {"json": one}})) == [one]
    assert list(schemas_of({"structured_outputs": {"choice": ["a"]}})) == []
    assert list(schemas_of({"text": {"format": {"schema": one}}, "tools": [WEATHER]})) == [one, two]
    assert list(schemas_of({"tools": [TOOL, {"type": "function", "function": {}}]})) == [two]


def test_prompts_are_scored_where_their_logprobs_are_asked_for() -> None:
    assert scores_prompt({"echo": True, "logprobs": 0}) and scores_prompt({"prompt_logprobs": 0})
    assert not scores_prompt({"echo": True})
    assert not scores_prompt({"logprobs": 1, "echo": False})


def test_instructions_are_folded_for_a_template_without_a_system() -> None:
    user = {"type": "message", "role": "user", "content": "Hi"}
    system = {**user, "role": "system", "content": "Be kind"}
    assert folded({"input": "Hi", "instructions": "Be brief", "seed": 1}) == {
        "input": [{**user, "content": "Be brief\n\nHi"}],
        "seed": 1,
    }
    called = {"type": "function_call_output", "call_id": "c", "output": "sunny"}
    found = folded({"input": [system, called, user], "instructions": "Be brief"})
    assert found == {"input": [called, {**user, "content": "Be brief\n\nBe kind\n\nHi"}]}
    assert folded({"input": [called], "instructions": "Be brief"})["input"][0]["role"] == "user"


@pytest.mark.parametrize("kind", ["chat", "completion", "responses", "tokenize", "detokenize"])
@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": ""}]},
        {"prompt": [1, 2]},
        {"prompt": ""},
        {"input": "hello", "instructions": "brief"},
        {"tokens": [1]},
    ],
)
def test_there_is_always_a_text_to_route_by(kind: Any, body: dict[str, Any]) -> None:
    (message,) = EngineRequest(kind, body).messages
    assert message["content"]


TEMPLATE = (
    "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
    "{% if reasoning_effort %}Think: {{ reasoning_effort }}\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def embedded() -> ChatTemplate:
    from transformers import AutoTokenizer

    from rldf_ray.models.embedded import embedded_model_folder

    return ChatTemplate(AutoTokenizer.from_pretrained(embedded_model_folder()))


def test_what_a_template_does_not_write_is_not_asked_of_the_model(embedded: ChatTemplate) -> None:
    tools, effort = {"tools": [TOOL]}, {"reasoning_effort": "low"}
    assert "tools" in str(unseen(tools, embedded))
    assert "effort" in str(unseen(effort, embedded))
    assert "effort" in str(unseen({"reasoning": {"effort": "high"}}, embedded))
    assert unseen({"tools": [], "reasoning": {}}, embedded) is None
    other = ChatTemplate(embedded.tokenizer.__class__(**_as_read(embedded)))
    other.tokenizer.chat_template = TEMPLATE
    assert unseen(tools | effort, other) is None


def _as_read(template: ChatTemplate) -> dict[str, Any]:
    """What makes the same tokenizer again."""
    tokenizer = template.tokenizer
    return {"tokenizer_object": tokenizer._tokenizer, "eos_token": tokenizer.eos_token,
            "chat_template": tokenizer.chat_template}  # fmt: skip


def test_tokens_are_the_models_own(embedded: ChatTemplate) -> None:
    found = tokenized({"prompt": "Hello there", "return_token_strs": True}, embedded, 1024)
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert found["max_model_len"] == 1024
    assert detokenized({"tokens": found["tokens"]}, embedded) == {"prompt": "Hello there"}
    chat = tokenized(HELLO, embedded, 1024)
    assert chat["tokens"] == embedded.prompt_ids(HELLO["messages"])
    ended = tokenized({**HELLO, "add_generation_prompt": False}, embedded, 1024)
    assert 0 < ended["count"] < chat["count"]
    assert detokenized({"tokens": [2**31 - 1]}, embedded) == {"prompt": ""}


def test_parts_of_a_message_are_counted_as_the_engine_writes_them(embedded: ChatTemplate) -> None:
    parts = [{"type": "text", "text": text} for text in ("Hello", "there")]
    body = TokenizeBody.model_validate({"messages": [{"role": "developer", "content": parts}]})
    settings = read_settings({"models": {"policy": {"folder": "p"}}})
    engine = tokenize_body(body, settings)
    assert engine["messages"] == [{"role": "system", "content": "Hello\nthere"}]
    # Where a chat is folded for the engine, its parts are joined by the same rule.
    folding = embedded.__class__(embedded.tokenizer)
    folding.folds_system = True
    assert folding.shown(engine["messages"]) == folding.shown(
        [{"role": "developer", "content": parts}]  # type: ignore[list-item]
    )
