"""The reward model: a scalar for (prompt, answer), the same way in training and in scoring.

The last token's hidden state goes through a linear layer to a scalar, in float32 (METHOD 3). Which
token is the last one is read off the attention mask: where padding is the end-of-sequence token, as
in Llama after TRL, ids alone do not say it. What the model reads is always prompt and answer in the
chat template, closed as a finished answer is, and cut on the right; `ChatTemplate` builds that for
the trainer, for PPO and for evaluation alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.models.chat_template import AnsweredChat, ChatTemplate
from rldf_ray.models.embedded import resolve_model


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
        self.template = ChatTemplate(self.tokenizer, f"the reward model {folder}")
        self._device = device
        self._max_length = max_length

    def score(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], batch: int = 8
    ) -> Tensor:
        """Rewards of what engines were given and said, [B] float32 on the CPU.

        Higher is less biased.
        """
        finished = map(self.template.finished, prompts, answers)
        return self.score_chats(list(finished), batch)

    def score_chats(self, chats: Sequence[AnsweredChat], batch: int = 8) -> Tensor:
        """Rewards of finished chats, [B] float32 on the CPU."""
        inputs = [chat.cut(self._max_length) for chat in chats]
        rewards = [self._forward(inputs[i : i + batch]) for i in range(0, len(inputs), batch)]
        return torch.cat(rewards) if rewards else torch.empty(0)

    def score_answer(
        self, prompt: Sequence[dict[str, str]], answer: str
    ) -> tuple[float | None, int]:
        """The reward of `answer` after the messages of `prompt`, scored alone, and the tokens read.

        The reward is None where the prompt leaves no room for a word of the answer.
        """
        chat = self.template.answered(prompt, answer)
        if not self.reads_answer(chat):
            return None, 0
        return float(self.score_chats([chat])[0]), len(chat.cut(self._max_length))

    def reads_answer(self, chat: AnsweredChat) -> bool:
        """Whether any of its answer is left where it is cut; else the reward is the prompt's."""
        return bool(chat.answer) and len(chat.prompt) + len(chat.closing) < self._max_length

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
