"""What an engine returns of a reasoning model, without an engine: vLLM's part is played."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rldf_ray.engines.vllm_actor import EngineSettings, VllmActor
from rldf_ray.models.base import ChatRequest, Completion, Message
from rldf_ray.models.chat_template import chat_template

OPENS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
REQUEST = ChatRequest(messages=(Message("user", "Who?"),), max_tokens=8, logprobs=True)


class Parameters(SimpleNamespace):
    pass


async def answered(
    monkeypatch: pytest.MonkeyPatch, text: str, request: ChatRequest, opens: bool
) -> Completion:
    vllm = ModuleType("vllm.sampling_params")
    vllm.SamplingParams = vllm.StructuredOutputsParams = Parameters  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", vllm)
    template = chat_template("embedded")
    if opens:
        template.tokenizer.chat_template = OPENS
        template = type(template)(template.tokenizer)
    actor = VllmActor.__new__(VllmActor)
    actor._template, actor._settings = template, EngineSettings(model="m", revision="base")
    actor._revision = "base"
    ids = template.tokenizer.encode(text)
    sample = SimpleNamespace(
        text=text,
        token_ids=ids,
        finish_reason="stop",
        logprobs=[{i: SimpleNamespace(logprob=-0.5)} for i in ids],
    )

    async def run(prompt: list[int], sampling: Any) -> Any:
        return SimpleNamespace(outputs=[sample], num_cached_tokens=0)

    monkeypatch.setattr(actor, "_run", run)
    (completion,) = await actor.complete(request)
    assert list(completion.token_ids) == ids
    # All that was generated is what PPO trains on.
    assert completion.logprobs is None or len(completion.logprobs) == len(ids)
    return completion


@pytest.mark.parametrize(
    ("opens", "text", "thinking", "answer", "reason"),
    [
        (False, " Me. ", "", " Me. ", "stop"),
        (False, "<think>\nWho?\n</think>\n\nMe.", "Who?", "Me.", "stop"),
        (False, "<think>\nWho? I", "Who? I", "", "length"),
        (True, "Who?\n</think>\n\nMe.", "Who?", "Me.", "stop"),
        (True, "Who? I", "Who? I", "", "length"),
    ],
)
async def test_thinking_is_split_off(
    monkeypatch: pytest.MonkeyPatch,
    opens: bool,
    text: str,
    thinking: str,
    answer: str,
    reason: str,
) -> None:
    given = await answered(monkeypatch, text, REQUEST, opens)
    assert (given.thinking, given.text, given.finish_reason) == (thinking, answer, reason)


async def test_guided_text_has_no_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = ChatRequest(messages=REQUEST.messages, max_tokens=8, json_schema={"type": "string"})
    given = await answered(monkeypatch, '"a <think> tag"', schema, opens=True)
    assert (given.thinking, given.text, given.finish_reason) == ("", '"a <think> tag"', "stop")
