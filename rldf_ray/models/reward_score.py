"""The reward model: a scalar for (prompt, answer), the same way in training and in scoring.

The last token's hidden state goes through a linear layer to a scalar, in float32 (METHOD 3). Which
token is the last one is read off the attention mask: where padding is the end-of-sequence token, as
in Llama after TRL, ids alone do not say it. What the model reads is always prompt and answer in the
chat template, closed as a finished answer is, and cut on the right; `scored_ids` builds that for
the trainer, for PPO and for evaluation alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.models.embedded import resolve_model


def chat_ids(tokenizer: Any, messages: Sequence[dict[str, str]], *, generate: bool) -> list[int]:
    """Token ids of a conversation; with `generate`, up to where the assistant begins."""
    ids: list[int] = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=generate, tokenize=True, return_dict=False
    )
    return ids


def closing_ids(tokenizer: Any) -> list[int]:
    """What the chat template puts after an assistant's answer (end of turn)."""
    probe = [{"role": "user", "content": "a"}]
    begun = chat_ids(tokenizer, probe, generate=True)
    answered = chat_ids(tokenizer, [*probe, {"role": "assistant", "content": "b"}], generate=False)
    answer = tokenizer.encode("b", add_special_tokens=False)
    return answered[len(begun) + len(answer) :]


def scored_ids(
    prompt_ids: Sequence[int], answer_ids: Sequence[int], closing: Sequence[int], max_length: int
) -> list[int]:
    """What the reward model reads, at most `max_length` ids, the answer cut on the right.

    `answer_ids` may or may not end with the end-of-turn token. The closing ids are kept, so that
    the scalar is always read at the same place.
    """
    answer = list(answer_ids)
    if answer and closing and answer[-1] == closing[0]:
        answer.pop()
    room = max(0, max_length - len(prompt_ids) - len(closing))
    return [*prompt_ids, *answer[:room], *closing][:max_length]


class RewardModel:
    """A reward model of a folder, for scoring alone.

    Args:
        folder: written by `train/reward.py`.
        device: "cpu" or "cuda".
        max_length: longest input, tokens.
        model: computes in place of the folder's weights where they are in memory already.

    Attributes:
        model: what computes, a transformers sequence classifier where none was given.
    """

    def __init__(self, folder: str | Path, device: str, max_length: int, model: Any = None) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = model
        if model is None:
            self.model = AutoModelForSequenceClassification.from_pretrained(
                folder, num_labels=1, dtype="auto"
            )
            self.model.eval().requires_grad_(False).to(device)
            score_last_token(self.model)
        self._closing = closing_ids(self.tokenizer)
        self._device = device
        self._max_length = max_length

    def score(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], batch: int = 8
    ) -> Tensor:
        """Rewards of answers given as token ids, [B] float32 on the CPU; higher is less biased."""
        inputs = [
            scored_ids(prompt, answer, self._closing, self._max_length)
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        rewards = [self._forward(inputs[i : i + batch]) for i in range(0, len(inputs), batch)]
        return torch.cat(rewards) if rewards else torch.empty(0)

    def score_answer(
        self, prompt: Sequence[dict[str, str]], answer: str
    ) -> tuple[float | None, int]:
        """The reward of `answer` after the messages of `prompt`, scored alone, and the tokens read.

        The reward is None where the prompt leaves no room for a word of the answer.
        """
        begun = chat_ids(self.tokenizer, prompt, generate=True)
        said = self.tokenizer.encode(answer, add_special_tokens=False)
        if not said or len(begun) + len(self._closing) >= self._max_length:
            return None, 0
        read = min(self._max_length, len(begun) + len(said) + len(self._closing))
        return float(self.score([begun], [said])[0]), read

    @torch.no_grad()
    def _forward(self, inputs: Sequence[list[int]]) -> Tensor:
        # Any id will do, and a tokenizer need not have one: nothing reads what is not attended to.
        ids, attention = padded(inputs, 0)
        logits: Tensor = self.model(
            input_ids=ids.to(self._device), attention_mask=attention.to(self._device)
        ).logits
        return logits[:, 0].float().cpu()


def reward_model(folder: str, device: str, threads: int, max_length: int) -> RewardModel:
    """A reward model for statements that are scored one at a time.

    Args:
        folder: also an address in an object store.
        threads: torch threads on a CPU.
    """
    if device == "cpu":
        torch.set_num_threads(threads)
    return RewardModel(resolve_model(folder), device, max_length)


class ExactHead(torch.nn.Linear):
    """A score head without bias that computes in float32, whatever its weight is in.

    In bfloat16, with its 8 bits, many statements would have the same reward.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight.shape[-1], 1, bias=False, device="meta")
        # The parameter itself, not a copy of it: it may be one that is trained, or sharded.
        parameter = torch.nn.Parameter
        self.weight = weight if isinstance(weight, parameter) else parameter(weight)

    def forward(self, hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            return torch.nn.functional.linear(hidden.float(), self.weight.float())


def score_last_token(model: Any) -> None:
    """Have a transformers sequence classifier score each row's last token; changed in place.

    By itself it takes the last token that is not padding by its id, which is another one where an
    answer ends with that id.
    """
    from transformers.modeling_outputs import SequenceClassifierOutputWithPast

    model.score = ExactHead(model.score.weight)

    # Trainers go by the names of a model's arguments.
    @wraps(model.forward)
    def forward(input_ids: Tensor, attention_mask: Tensor, **given: Any) -> Any:
        decoder = model.base_model
        hidden = decoder(input_ids=input_ids, attention_mask=attention_mask, **given)[0]
        return SequenceClassifierOutputWithPast(
            logits=model.score(last_states(hidden, attention_mask))
        )

    model.forward = forward


def last_states(hidden: Tensor, attention: Tensor) -> Tensor:
    """The state of each row's last token, [B, T, H] -> [B, H]; rows are padded on the right."""
    rows = torch.arange(len(hidden), device=hidden.device)
    return hidden[rows, attention.sum(1) - 1]


def padded(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Right-padded ids [B, T] int64 and their attention mask [B, T] int64."""
    longest = max(len(sequence) for sequence in sequences)
    ids = torch.full((len(sequences), longest), pad_id, dtype=torch.long)
    attention = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.long)
        attention[row, : len(sequence)] = 1
    return ids, attention
