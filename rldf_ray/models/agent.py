"""An agent: a prompt plus a `ChatModel`. It says something, or it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, seed_of

CHOICE_TOKENS = 16
"""Most tokens of a choice, where the caller names no other limit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What an agent chose.

    Attributes:
        value: one of the choices; None where the reply is none of them.
        probabilities: of every choice, summing to 1; None where they were not requested or the
            backend reports none.
        completion: the reply as the model gave it.
    """

    value: str | None
    probabilities: dict[str, float] | None
    completion: Completion

    def failure(self, what: str) -> str | None:
        """Why there is no value, with the raw reply; None where there is one.

        Args:
            what: what did not parse, as the beginning of a sentence: "the referee's score".
        """
        if self.value is not None:
            return None
        if self.completion.refusal is not None:
            return f"no answer: {self.completion.refusal}"
        if self.completion.thinking and not self.completion.text.strip():
            return "no answer: cut off while it was thinking"
        return f"{what} did not parse: {self.completion.text.strip()!r}"


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Whoever takes part in a protocol, behind any backend.

    Attributes:
        system: the system prompt, None for none; what the agent's requests share stands there.
        seed: root of the seeds of its requests; each has its own, by its address.
    """

    model: ChatModel
    seed: int
    system: str | None = None

    async def say(
        self,
        prompt: str | Sequence[Message],
        address: str,
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        affinity: str = "",
        json_schema: dict[str, object] | None = None,
        seed: int | None = None,
        documents: Sequence[str] = (),
    ) -> Completion:
        """One sampled reply to `prompt`: a user's message, or the messages after the system's.

        Args:
            seed: where requests of several addresses share one, as when only the framing or the
                model differs; by default the address has its own.

        Raises:
            ModelError: the model could not answer.
        """
        (completion,) = await self.say_n(
            1,
            prompt,
            address,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            affinity=affinity,
            json_schema=json_schema,
            seed=seed,
            documents=documents,
        )
        return completion

    async def say_n(
        self,
        n: int,
        prompt: str | Sequence[Message],
        address: str,
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        affinity: str = "",
        json_schema: dict[str, object] | None = None,
        seed: int | None = None,
        documents: Sequence[str] = (),
    ) -> tuple[Completion, ...]:
        """`n` samples of what `say` gives."""
        return await self.model.complete(
            ChatRequest(
                messages=self._messages(prompt),
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                seed=self._seed(address, seed),
                n=n,
                json_schema=json_schema,
                affinity=affinity,
                address=address,
                documents=tuple(documents),
            )
        )

    async def choose(
        self,
        prompt: str | Sequence[Message],
        choices: Sequence[str],
        address: str,
        *,
        probabilities: bool = False,
        max_tokens: int = CHOICE_TOKENS,
        affinity: str = "",
        seed: int | None = None,
    ) -> Choice:
        """One of `choices`, greedily and by guided decoding where the backend has it.

        Raises:
            ModelError: the model could not answer.
        """
        (completion,) = await self.model.complete(
            ChatRequest(
                messages=self._messages(prompt),
                max_tokens=max_tokens,
                temperature=0.0,
                seed=self._seed(address, seed),
                choices=tuple(choices),
                choice_probabilities=probabilities,
                affinity=affinity,
                address=address,
            )
        )
        return _choice(completion, choices)

    async def sample(
        self,
        n: int,
        prompt: str | Sequence[Message],
        choices: Sequence[str],
        address: str,
        *,
        temperature: float = 1.0,
        max_tokens: int = CHOICE_TOKENS,
        affinity: str = "",
        seed: int | None = None,
    ) -> tuple[Choice, ...]:
        """`n` sampled choices, by guided decoding where the backend has it.

        Raises:
            ModelError: the model could not answer.
        """
        completions = await self.model.complete(
            ChatRequest(
                messages=self._messages(prompt),
                max_tokens=max_tokens,
                temperature=temperature,
                seed=self._seed(address, seed),
                n=n,
                choices=tuple(choices),
                affinity=affinity,
                address=address,
            )
        )
        return tuple(_choice(completion, choices) for completion in completions)

    def _seed(self, address: str, given: int | None) -> int:
        return seed_of(self.seed, address) if given is None else given

    def _messages(self, prompt: str | Sequence[Message]) -> tuple[Message, ...]:
        asked = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        return asked if self.system is None else (Message("system", self.system), *asked)


def _choice(completion: Completion, choices: Sequence[str]) -> Choice:
    said = completion.text.strip()
    value = said if said in choices else None
    return Choice(value, completion.choice_probabilities, completion)
