"""The one narrow interface through which everything in the project talks to a language model.

A `ChatModel` takes a `ChatRequest` and returns its samples. Backends: vLLM engines in Ray actors
(`pool.py`), OpenAI-compatible endpoints (`openai_http.py`), a deterministic script (`scripted.py`).
Only primitives cross this boundary, so a caller never sees a backend's types.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol

from rldf_ray.errors import UserError
from rldf_ray.storage.digest import digest

FinishReason = Literal["stop", "length"]


class ModelError(UserError):
    """A model could not answer; the message says which model, what happened and what to do."""


class EngineDiedError(ModelError):
    """The engine a request was sent to is dead; another one can answer the same request."""


class PromptTooLongError(ModelError):
    """The prompt and the longest answer exceed what the model reads; others are answered."""


class BudgetSpentError(ModelError):
    """The plan's budget allows no further request; what was finished is kept.

    Nothing is wrong, and the same command with a higher budget continues: hence its own status.
    """

    exit_status = 3
    heading = "stopped"


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One generation request.

    Attributes:
        messages: the conversation; what several requests share stands first, so that an engine's
            prefix cache can reuse it.
        max_tokens: most tokens to generate for each sample.
        temperature: 0 is greedy.
        top_p: nucleus sampling threshold in (0, 1].
        seed: seed of this request alone; the same request with the same seed repeats its answer
            as far as the backend allows.
        n: number of samples.
        choices: where given, the answer is one of these strings, enforced by guided decoding.
        choice_probabilities: with `choices`, also return the probability of every choice.
        json_schema: where given, the answer is JSON of this schema, enforced by guided decoding.
        logprobs: return the log-probability of every generated token.
        affinity: requests of the same affinity prefer the same engine (the debate's id).
        address: names this call within its run; finished calls are remembered under it.
        documents: parts of the last message, as they stand in it one after another, that a
            position-invariant model reads as a set; all others read them where they stand.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    n: int = 1
    choices: tuple[str, ...] | None = None
    choice_probabilities: bool = False
    json_schema: dict[str, object] | None = None
    logprobs: bool = False
    affinity: str = ""
    address: str = ""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request.

    Attributes:
        cached: the part of `prompt` that the prefix cache saved.
        by_characters: the part of `prompt` and `generated` that is counted by the characters of
            the texts, as the server reported no figures.
    """

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    by_characters: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.generated + other.generated,
            self.by_characters + other.by_characters,
        )

    def __neg__(self) -> Usage:
        return Usage(-self.prompt, -self.cached, -self.generated, -self.by_characters)

    def __sub__(self, other: Usage) -> Usage:
        return self + -other

    @property
    def total(self) -> int:
        """Prompt and answer."""
        return self.prompt + self.generated

    def numbers(self) -> dict[str, int]:
        """By kind, as files hold them; `by_characters` only where something is counted so."""
        return {name: n for name, n in asdict(self).items() if n or name != "by_characters"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sample.

    Attributes:
        text: the answer, without special tokens and without thinking.
        finish_reason: "stop" if the model ended by itself, "length" if it was cut, or ended
            inside a thought.
        usage: tokens of this sample; a request's prompt is counted on its first sample only.
        model, revision: what answered; the revision identifies weights (hash or policy version).
        prompt_ids, token_ids: the ids the engine consumed and produced, where the backend tells;
            training uses these and never re-tokenises.
        logprobs: natural log-probability of each of `token_ids`, where asked for.
        choice_probabilities: probability of each choice, summing to 1, where asked for and the
            backend tells; None otherwise.
        refusal: why there is no text, where a server's content filter let none through; None
            otherwise.
        thinking: what a reasoning model thought before it answered; `token_ids` and `logprobs`
            cover it too. It is kept, and shown to nobody.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    model: str
    revision: str
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    choice_probabilities: dict[str, float] | None = field(default=None)
    refusal: str | None = None
    thinking: str = ""


class ChatModel(Protocol):
    """Anything that answers chat requests."""

    @property
    def name(self) -> str:
        """What reports and records call this model."""
        ...

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer `request` with its `n` samples.

        Raises:
            ModelError: the model could not answer. No answer is ever made up.
        """
        ...


def seed_of(root: int, address: str) -> int:
    """The seed of the call at `address`: every generation of a run has its own (31 bits)."""
    return int(digest(root, address)[:8], 16) & 0x7FFFFFFF
