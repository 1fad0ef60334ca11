"""Labels without a dialogue, of A's model: what a dialogue has to be better than.

    one_shot           one answer
    mean_of_two        the mean of two answers with other seeds
    self_consistency   the mean of as many answers as cost what the dialogue cost, or of `MOST`

A baseline is a request of its own, never part of a dialogue (a choice).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rldf_ray.models.base import Message
from rldf_ray.protocols.evince.distribution import label_distribution
from rldf_ray.protocols.evince.errors import ReplyError
from rldf_ray.protocols.evince.prompt import TEXT, render
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.turn import one_shot_schema, parse_percentages
from rldf_ray.protocols.seats import Seats, all_of

MOST = 32
"""Answers of self-consistency at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer without a dialogue.

    Attributes:
        said: the percentages as it wrote them; None where they are none.
        distribution: the one that counts; None where the reply cannot be used.
        failure: why it cannot; None where it can.
        generated: tokens that it took.
    """

    said: Distribution | None
    distribution: Distribution | None
    failure: str | None
    generated: int


async def answer(
    seats: Seats,
    text: str,
    scale: LabelScale,
    settings: EvinceSettings,
    number: int,
    temperature: float,
) -> Answer:
    """Answer `number` of A's model about a text, with a distribution as a dialogue has them.

    Raises:
        ModelError: the model could not answer.
    """
    place = f"one shot/{number} at {temperature:g}"
    prompt = f"{text}\n\n{render('one_shot')}"
    turn = await seats.say(
        "one shot",
        settings.a,
        prompt,
        place,
        system=render("helper"),
        max_tokens=settings.max_tokens,
        temperature=temperature,
        json_schema=one_shot_schema(scale),
    )
    said, distribution, failure = None, None, None
    try:
        said = distribution = parse_percentages(turn.text, scale)
    except ReplyError as error:
        failure = str(error)
    if settings.distribution != "said":
        asked = [Message("user", prompt), Message("assistant", turn.text)]
        one = settings.model_copy(update={"rates": "item"})
        distribution, failure = None, None
        try:
            distribution = await label_distribution(
                seats, "one shot", settings.a, asked, TEXT, place, scale, one
            )
        except ReplyError as error:
            failure = str(error)
    return Answer(
        said=said,
        distribution=distribution,
        failure=failure,
        generated=_generated(seats, place),
    )


def _generated(seats: Seats, place: str) -> int:
    """Tokens of an answer and of the label after it."""
    begin = f"{seats.item}/{place}/"
    return sum(t.generated_tokens for t in seats.turns if f"{t.address}/".startswith(begin))


async def answers(
    seats: Seats,
    text: str,
    scale: LabelScale,
    settings: EvinceSettings,
    numbers: Sequence[int],
    temperature: float,
) -> list[Answer]:
    """The answers of these numbers."""
    return await all_of(
        *(answer(seats, text, scale, settings, number, temperature) for number in numbers)
    )


def mean(given: Iterable[Distribution | None]) -> Distribution | None:
    """The mean of the distributions there are; None where there is none."""
    several = [one for one in given if one is not None]
    if not several:
        return None
    return tuple(sum(column) / len(several) for column in zip(*several, strict=True))


def at_equal_tokens(spent: int, one: int) -> int:
    """How many answers of `one` token count cost what a dialogue of `spent` tokens did."""
    return max(1, min(MOST, round(spent / max(1, one))))
