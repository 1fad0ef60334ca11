"""What runs in the replicas of the reward model and of the trained referee."""

from __future__ import annotations

import asyncio
import os

from ray import serve

from rldf_ray.models.chat_template import AnsweredChat

REWARD_BATCH = 32
REWARD_WAIT_S = 0.01


class RefereeModel:
    """A trained referee's model; each text is scored alone, as where it was calibrated."""

    def __init__(self, folder: str, device: str, max_length: int) -> None:
        from rldf_ray.models.reward_score import reward_model

        self._model = reward_model(folder, device, os.cpu_count() or 1, max_length)
        self._turn = asyncio.Lock()

    async def reward(self, prompt: list[dict[str, str]], text: str) -> tuple[float | None, int]:
        """The reward of `text`, None where there is no room for it, and the tokens read.

        Raises:
            ChatTemplateError: the model's chat template does not write it as it is.
        """
        async with self._turn:
            return await asyncio.to_thread(self._model.score_answer, prompt, text)


class Reward:
    """The reward model; texts of several requests are scored in one forward pass."""

    def __init__(self, folder: str, device: str, max_length: int) -> None:
        from rldf_ray.models.reward_score import RewardModel

        self._model = RewardModel(folder, device, max_length)
        # Of a tokenizer's threads one at a time may use it.
        self._tokenizing = asyncio.Lock()

    async def score(self, prompt: str, text: str) -> float | None:
        """The reward of `text` after `prompt`; None where the prompt leaves no room for it.

        What cannot be scored is sorted out here: a batch has texts of several requests.

        Raises:
            ChatTemplateError: the model's chat template does not write it as it is.
        """
        async with self._tokenizing:
            chat = await asyncio.to_thread(
                self._model.template.answered, [{"role": "user", "content": prompt}], text
            )
        if not self._model.reads_answer(chat):
            return None
        reward: float = await self._scored(chat)
        return reward

    @serve.batch(max_batch_size=REWARD_BATCH, batch_wait_timeout_s=REWARD_WAIT_S)
    async def _scored(self, chats: list[AnsweredChat]) -> list[float]:
        rewards = await asyncio.to_thread(self._model.score_chats, chats)
        found: list[float] = rewards.tolist()
        return found
