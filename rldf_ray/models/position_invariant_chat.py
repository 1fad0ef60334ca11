"""A model that answers chats position-invariantly, or with stock attention as its control."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.models.base import (
    ChatRequest,
    Completion,
    FinishReason,
    ModelError,
    PromptTooLongError,
    Usage,
)
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.position_invariant import PositionInvariant, PositionInvariantError


class PositionInvariantChat:
    """Answers one request at a time.

    Args:
        folder: of a Llama, Qwen2 or Qwen3 model that follows instructions.
        invariant: False reads documents where they stand: the same code with stock attention.
        longest: most tokens of a prompt and its answer.

    Raises:
        ModelError: the model cannot be read so.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str,
        revision: str,
        device: str,
        dtype: str,
        invariant: bool,
        longest: int,
        template_values: dict[str, Any] | None = None,
    ) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        path = resolve_model(str(folder))
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
        try:
            self._reader = PositionInvariant(model.eval().requires_grad_(False).to(device))
        except PositionInvariantError as error:
            raise ModelError(f"{name}: {error}") from error
        tokenizer = AutoTokenizer.from_pretrained(path)
        self._template = ChatTemplate(tokenizer, f"model {name}", template_values)
        ends = model.generation_config.eos_token_id or tokenizer.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        self._ends = {*listed, *self._template.closing[:1]}
        self._name, self._revision = name, revision
        self._invariant, self._longest = invariant, longest

    def answer(self, request: ChatRequest) -> tuple[Completion, ...]:
        """The samples of a request.

        Raises:
            ModelError: it asks for more than free text, or is too long.
        """
        if request.choices is not None or request.json_schema is not None or request.logprobs:
            raise ModelError(
                f"{self._name}: a position-invariant model writes free text; it takes no choices, "
                "no JSON schema, and reports no log-probabilities"
            )
        parts = self._parts(request)
        length = sum(map(len, parts))
        if length + request.max_tokens > self._longest:
            raise PromptTooLongError(
                f"{self._name}: a prompt of {length} tokens and an answer of "
                f"{request.max_tokens} exceed engines.max_model_len={self._longest}"
            )
        return tuple(self._sample(request, parts, number) for number in range(request.n))

    def _parts(self, request: ChatRequest) -> list[list[int]]:
        """Token ids of prefix, documents and suffix, each tokenized by itself.

        With stock attention the documents are in the prefix; the tokens are the same.
        """
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        text = self._template.text(messages, generate=True)
        encode = self._template.tokenizer
        prefix, *documents, suffix = (
            encode(part, add_special_tokens=False)["input_ids"]
            for part in _split(text, request.documents, self._name)
        )
        if self._invariant and documents:
            return [prefix, *documents, suffix]
        whole = [*prefix, *(token for document in documents for token in document), *suffix]
        return [whole[:-1], whole[-1:]]

    def _sample(
        self, request: ChatRequest, parts: Sequence[Sequence[int]], number: int
    ) -> Completion:
        generator = torch.Generator().manual_seed(request.seed + number)
        said: list[int] = []
        finish: FinishReason = "length"
        read, reading = self._reader.read(parts, room=request.max_tokens)
        logits = read[-1]
        while len(said) < request.max_tokens:
            token = _next(logits.float().cpu(), request, generator)
            said.append(token)
            if token in self._ends:
                finish = "stop"
                break
            if len(said) < request.max_tokens:
                logits = self._reader.follow(token, reading)
        spoken = self._template.spoken(said)
        prompt = sum(map(len, parts))
        return Completion(
            text=spoken.answer,
            finish_reason=finish if spoken.ended else "length",
            usage=Usage(prompt=prompt if number == 0 else 0, generated=len(said)),
            model=self._name,
            revision=self._revision,
            prompt_ids=tuple(token for part in parts for token in part),
            token_ids=tuple(said),
            thinking=spoken.thinking,
        )


def _split(text: str, documents: Sequence[str], name: str) -> list[str]:
    """Prefix, documents and suffix of a rendered chat.

    Raises:
        ModelError: the documents do not stand in it one after another.
    """
    if not documents:
        return [text, ""]
    place = text.find("".join(documents))
    if place < 1:
        raise ModelError(
            f"{name}: the documents of a request do not stand in its last message as they are; "
            "does the chat template change its text?"
        )
    return [text[:place], *documents, text[place + sum(map(len, documents)) :]]


def _next(logits: Tensor, request: ChatRequest, generator: torch.Generator) -> int:
    """The next token: the likeliest, or one drawn at the request's temperature and top_p."""
    if request.temperature == 0:
        return int(logits.argmax())
    chances = (logits / request.temperature).softmax(-1)
    if request.top_p < 1:
        ordered, order = chances.sort(descending=True)
        # The tokens before which less than top_p has been reached.
        ordered[ordered.cumsum(-1) - ordered >= request.top_p] = 0
        chances = torch.zeros_like(chances).scatter(0, order, ordered)
    return int(torch.multinomial(chances, 1, generator=generator))
