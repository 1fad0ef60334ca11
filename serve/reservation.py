"""What a request may come to in tokens, from its body alone: its key's limit is held to it.

A protocol asks many times, and shows with each what was said before; that is counted here as its
study would count it beforehand. A body that cannot be read is counted as the largest that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError

from rldf_ray.apps.serve.bodies import BiasBody, DebateBody, DebiasBody, EvinceBody
from rldf_ray.apps.serve.body import Body
from rldf_ray.apps.serve.protocol_settings import evince_settings, mabrf_settings
from rldf_ray.apps.serve.settings import Limits
from rldf_ray.protocols.evince.estimate import estimate as evince_estimate
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.mabrf.estimate import estimate as mabrf_estimate
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.study import Estimated

Given = TypeVar("Given", bound=Body)

# A token is about so many bytes of text.
BYTES_PER_TOKEN = 4
SPEAKING = ("/v1/chat/", "/v1/completions", "/v1/responses")
# Tokens of a debater's or referee's prompt besides what was said: instructions and identities.
SKELETON = 350
# A score is read off two places: after nothing, and after the 1 that a 10 begins with.
READINGS = 2


@dataclass(frozen=True)
class Reservation:
    """Tokens of the body itself, which a request costs in any case, and of all its calls."""

    prompt: int
    total: int


def reservation(path: str, body: bytes, limits: Limits) -> Reservation | None:
    """What to keep for a request; None of one that asks no model."""
    prompt = len(body) // BYTES_PER_TOKEN
    if path.startswith(SPEAKING):
        return Reservation(prompt, prompt + _answers(body, limits))
    calls = _PROTOCOLS.get(path)
    return None if calls is None else Reservation(prompt, max(prompt, calls(body, limits)))


class _Asked(msgspec.Struct):
    """What a body says about the length of its answers."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    n: int | None = None
    prompt: Any = None

    @property
    def prompts(self) -> int:
        """Of a completion; a list of numbers is one prompt."""
        several = isinstance(self.prompt, list) and not all(isinstance(p, int) for p in self.prompt)
        return len(self.prompt) if several else 1


def _answers(body: bytes, limits: Limits) -> int:
    """The most tokens that the answers to a request for text may have."""
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        # What is wrong with it is said where it is read, which may take more than is JSON.
        return limits.max_tokens * limits.n
    fields = (asked.max_completion_tokens, asked.max_output_tokens, asked.max_tokens)
    longest = next((field for field in fields if field is not None), limits.max_tokens)
    answers = min(max(asked.n or 1, 1) * asked.prompts, limits.n)
    return min(max(longest, 0), limits.max_tokens) * answers


def _debate(body: bytes, limits: Limits) -> int:
    """Every debater reads all earlier rounds; the referee scores each statement, and ranks them."""
    given = _read(body, DebateBody) or DebateBody.model_validate(
        {
            "topic": "-" * 2000,
            "debaters": 5,
            "rounds": limits.debate_rounds,
            "max_tokens": max(8, limits.max_tokens),
        }
    )
    rounds, said = _within(given.rounds, given.max_tokens, limits)
    debaters, prompt = given.debaters, SKELETON + _tokens(given.topic)
    total = 0
    for earlier in range(rounds):
        total += debaters * (prompt + earlier * debaters * said + said)
        total += READINGS * debaters * (prompt + said)
        total += prompt + debaters * said
    return total


def _evince(body: bytes, limits: Limits) -> int:
    given = _read(body, EvinceBody) or EvinceBody.model_validate(
        {
            "text": "-" * 20_000,
            "rounds": limits.debate_rounds,
            "max_tokens": max(64, limits.max_tokens),
        }
    )
    rounds, said = _within(given.rounds, given.max_tokens, limits)
    # The scale is a name of the client's, which might be a file's: none is needed to count.
    settings = evince_settings(rounds=rounds, max_tokens=max(64, said))
    labels = {} if given.given is None else {"given": given.given}
    item = EvinceItem(item_id="", text_id="", text=given.text, target=given.target, given=labels)
    return _sum(evince_estimate([item], settings))


def _debias(body: bytes, limits: Limits) -> int:
    given = _read(body, DebiasBody)
    passes, said = limits.debate_rounds, limits.max_tokens
    options: tuple[str, ...] = ()
    searches = True
    if given is not None:
        passes, said = _within(given.max_passes, given.max_tokens, limits)
        options, searches = tuple(given.options), given.corpus is not None
    settings = mabrf_settings(
        options=bool(options), passes=passes, max_tokens=max(32, said), searches=searches
    )
    question = body.decode("utf-8", "replace")
    item = MabrfItem(item_id="", group="", context="", question=question, options=options)
    return _sum(mabrf_estimate([item], settings))


def _bias(body: bytes, limits: Limits) -> int:
    """The reward model's tokens count for nothing; the referee reads each text after the prompt."""
    given = _read(body, BiasBody)
    if given is None:
        return limits.bias_texts * READINGS * (SKELETON + len(body) // BYTES_PER_TOKEN)
    texts = given.texts[: limits.bias_texts]
    if not given.referee:
        return 0
    prompt = SKELETON + _tokens(given.prompt)
    return READINGS * sum(prompt + _tokens(text) for text in texts)


_PROTOCOLS: dict[str, Callable[[bytes, Limits], int]] = {
    "/v1/debate": _debate,
    "/v1/evince": _evince,
    "/v1/debias": _debias,
    "/v1/bias": _bias,
}


def _read(body: bytes, kind: type[Given]) -> Given | None:
    """The body; None of one that is wrong, which is said where it is answered."""
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        return None


def _within(rounds: int, said: int, limits: Limits) -> tuple[int, int]:
    """More is refused before it is begun."""
    return min(rounds, limits.debate_rounds), min(said, limits.max_tokens)


def _tokens(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN


def _sum(estimates: Iterable[Estimated]) -> int:
    return int(sum(one.prompt + one.generated for one in estimates))
