"""What a plan adds to requests and to chat templates: checked, sent, rendered, remembered."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rldf_ray.apps.serve.settings_sources import settings_for
from rldf_ray.apps.tune.keys import topics_key
from rldf_ray.engines.checks import PreflightError
from rldf_ray.models.base import ChatRequest, Message
from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.models.openai_request import body_of
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import Endpoint, Plan, PlanError, Speaker, load_plan
from rldf_ray.plan.request_fields import SET_BY_US
from rldf_ray.plan.saved import settle_plan
from rldf_ray.preflight.models import check_templates
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.train.sft import encode
from tests.endpoint import Server, serving
from tests.fakes import plan_with

REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=8, address="a")
QUIET = "chat_template_kwargs={enable_thinking: false}"
FIELDS = (
    QUIET,
    "endpoint.reasoning_effort=low",
    "endpoint.chat_template_kwargs={thinking: true}",
    "endpoint.extra_body={top_k: 20}",
)
ASKED = [{"role": "user", "content": "Who should lead?"}]
# Finished chats hold an empty thought; without thinking, it also stands in what is answered.
SWITCHED = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}"
)


@pytest.fixture
def switched(tmp_path: Path) -> Path:
    """A model's folder whose template reads `enable_thinking`."""
    folder = tmp_path / "switched"
    tokenizer = chat_template("embedded").tokenizer
    tokenizer.chat_template = SWITCHED
    tokenizer.save_pretrained(folder)
    config = {"model_type": "llama", "max_position_embeddings": 8192}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_plan_without_them_is_what_it_was() -> None:
    plan, given = plan_with(), plan_with(*FIELDS)
    for written in (plan.to_yaml(), json.dumps(plan.model_dump(mode="json"))):
        assert "chat_template" not in written
        assert "reasoning" not in written and "extra_body" not in written
    assert Plan.model_validate(given.model_dump(mode="json")) == given
    digests = {plan_with(*FIELDS[:i]).digest() for i in range(len(FIELDS) + 1)}
    assert len(digests) == len(FIELDS) + 1
    assert plan_with("chat_template_kwargs={}", "endpoint.extra_body={}") == plan


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        *((f"endpoint.extra_body={{{name}: 1}}", name) for name in sorted(SET_BY_US)),
        ("endpoint.extra_body={stream: true}", "stream makes answers"),
        ("endpoint.extra_body={api_key: k-123}", "environment variable"),
        ("endpoint.extra_body={top_k: .nan}", "finite"),
        ("endpoint.chat_template_kwargs={tools: []}", "tools is given"),
        ("chat_template_kwargs={messages: []}", "messages is given"),
        ("chat_template_kwargs={a-b: 1}", "'a-b' is no name"),
        ("chat_template_kwargs=thinking", "dictionary"),
        ("endpoint.reasoning_effort=''", "at least 1"),
    ],
)
def test_what_is_set_elsewhere_is_refused(override: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem) as raised:
        load_plan("smoke", [override])
    assert "k-123" not in str(raised.value)


def test_every_field_of_our_own_is_refused() -> None:
    shapes = (
        replace(REQUEST, logprobs=True),
        replace(REQUEST, choices=("a",), choice_probabilities=True),
        replace(REQUEST, json_schema={"type": "object"}),
    )
    ours = {
        name for shape in shapes for elsewhere in (True, False)
        for name in body_of(shape, "m", elsewhere)
    }  # fmt: skip
    ours |= Endpoint(reasoning_effort="low", chat_template_kwargs={"a": 1}).request_fields().keys()
    assert ours == SET_BY_US


async def test_an_endpoint_is_sent_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as server:
        endpoint = plan_with(*FIELDS, f"endpoint.base_url={server.url}").endpoint
        model = OpenAIModel("m", endpoint)
        await model.complete(REQUEST)
        await model.close()
        (received,) = server.received
    assert received.body["reasoning_effort"] == "low"
    assert received.body["chat_template_kwargs"] == {"thinking": True}
    assert received.body["top_k"] == 20


def test_each_speaker_has_its_own() -> None:
    plan = plan_with(*FIELDS)
    assert plan.request_fields(Speaker.parse("openai:m")) == {
        "reasoning_effort": "low",
        "chat_template_kwargs": {"thinking": True},
        "top_k": 20,
    }
    rendered = {"chat_template_kwargs": {"enable_thinking": False}}
    assert plan.request_fields(Speaker.parse("vllm:m")) == rendered
    assert plan.request_fields(Speaker.parse("scripted:0")) == {}
    assert plan_with().request_fields(Speaker.parse("vllm:m")) == {}


async def test_calls_with_other_fields_are_other_calls(tmp_path: Path) -> None:
    made = []
    for fields in (None, {}, {"top_k": 20}, {"top_k": 21}, {"top_k": 21}):
        journal = Journal(tmp_path / "calls.jsonl")
        model = JournaledModel(ScriptedModel(), journal, request_fields=fields)
        await model.complete(REQUEST)
        journal.close()
        made.append(model.made)
    assert made == [1, 0, 1, 1, 0]


def test_a_run_goes_on_with_its_own_alone(tmp_path: Path) -> None:
    folder = RunFolder.at(str(tmp_path / "run"))
    settle_plan(plan_with(), folder)
    folder.write_text("journal/calls.jsonl", "{}\n")
    settle_plan(plan_with(), folder)
    with pytest.raises(RunFolderError, match="chat_template_kwargs"):
        settle_plan(plan_with(QUIET), folder)


def test_sweeps_do_not_share_what_was_said_with_others() -> None:
    plans = [plan_with(), plan_with(QUIET)]
    taught = [plan_with("teacher=openai:m", *more) for more in ((), FIELDS[1:2])]
    assert len({topics_key(plan, 14) for plan in (*plans, *taught)}) == 4


def test_both_sides_render_the_same(switched: Path, tmp_path: Path) -> None:
    values = plan_with(QUIET).chat_template_kwargs
    template = chat_template(str(switched), values)
    assert template.text(ASKED, generate=True).endswith("<think>\n\n</think>\n\n")
    # A trainer saves the tokenizer that it was given.
    template.tokenizer.save_pretrained(tmp_path / "trained")
    shutil.copy(switched / "config.json", tmp_path / "trained")
    trained = chat_template(str(tmp_path / "trained"))
    again = chat_template(str(tmp_path / "trained"), values)
    for other in (trained, again):
        assert other.tokenizer.chat_template == template.tokenizer.chat_template
        assert other.prompt_ids(ASKED) == template.prompt_ids(ASKED)
    row = {"prompt": ASKED, "completion": [{"role": "assistant", "content": "Whoever can."}]}
    learned = encode(row, template)["input_ids"]
    assert learned[: len(template.prompt_ids(ASKED)) - 1] == template.prompt_ids(ASKED)[:-1]
    # And whoever wants other values still gets them.
    plain = AutoTokenizer.from_pretrained(switched)
    both: list[Any] = [
        t.apply_chat_template(ASKED, tokenize=False, enable_thinking=True)
        for t in (plain, trained.tokenizer)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    "value", [None, False, 3, -0.5, "low", 'a "b" %} é\n', [None, {"a": None}], {"a": [True]}]
)
def test_values_reach_the_template_as_they_are(value: object) -> None:
    tokenizer = chat_template("embedded").tokenizer
    shows = "\n\n{{ level }}{% for m in messages %}|{{ m['role'] }}|{{ m['content'] }}{% endfor %}"
    shows += "{% if add_generation_prompt %}|assistant|{% endif %}"
    tokenizer.chat_template = shows
    given = tokenizer.apply_chat_template(ASKED, tokenize=False, level=value)
    template = ChatTemplate(tokenizer, values={"level": value})
    assert template.text(ASKED, generate=False) == given


def test_named_templates_all_take_them() -> None:
    tokenizer = chat_template("embedded").tokenizer
    tokenizer.chat_template = {"default": SWITCHED, "tools": SWITCHED}
    template = ChatTemplate(tokenizer, values={"enable_thinking": False})
    assert template.text(ASKED, generate=True).endswith("</think>\n\n")
    assert len(set(tokenizer.chat_template.values())) == 1


def test_a_name_that_no_template_reads_is_refused(switched: Path) -> None:
    check_templates(plan_with(f"model={switched}", QUIET))
    check_templates(plan_with(f"model={switched}", "teacher=vllm:embedded", QUIET))
    with pytest.raises(PreflightError, match=r"chat_template_kwargs\.enable_thinkin: no chat"):
        check_templates(plan_with(f"model={switched}", "chat_template_kwargs.enable_thinkin=false"))


def test_a_run_is_served_with_its_own(tmp_path: Path, switched: Path) -> None:
    for overrides, expected in (((), None), ((QUIET,), {"enable_thinking": False})):
        plan = plan_with(f"model={switched}", *overrides)
        (tmp_path / "plan.yaml").write_text(plan.to_yaml(), encoding="utf-8")
        assert settings_for(str(tmp_path), ("base",), {}).chat_template_kwargs == expected
