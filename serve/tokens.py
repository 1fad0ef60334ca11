"""Texts as the tokens of a served model, in the form of vLLM's /tokenize and /detokenize."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.models.chat_template import ChatTemplate


def tokenized(
    body: Mapping[str, Any], template: ChatTemplate, max_model_len: int
) -> dict[str, Any]:
    """The tokens of a prompt, or of messages up to where the assistant is to go on."""
    chat = "messages" in body
    text = body.get("prompt", "")
    if chat:
        generate = body.get("add_generation_prompt", True)
        text = template.text(body["messages"], generate=generate)
    tokenizer = template.tokenizer
    # A template writes what its model's texts begin with.
    special = body.get("add_special_tokens", not chat)
    ids: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
    strings = tokenizer.convert_ids_to_tokens(ids) if body.get("return_token_strs") else None
    return {"count": len(ids), "max_model_len": max_model_len, "tokens": ids, "token_strs": strings}


def detokenized(body: Mapping[str, Any], template: ChatTemplate) -> dict[str, Any]:
    """The text of token ids; those beyond the vocabulary have none."""
    return {"prompt": template.tokenizer.decode(body["tokens"])}
