"""A turn as guided JSON: arguments first, then what follows from them as percentages.

Its form is a choice. A model gives its arguments no ids: it is told the ids of the other's,
and can name no others. What a schema cannot hold (percentages that sum to 100) is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.protocols.evince.arguments import Argument, find_quote
from rldf_ray.protocols.evince.errors import TurnError
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.trace import Side
from rldf_ray.storage.json_lines import problems_of

LOWEST_SUM, HIGHEST_SUM = 95, 105
"""Percentages that sum to something between are divided by their sum; others make a turn fail."""
LONGEST_SENTENCE, LONGEST_QUOTE = 200, 120
"""Characters: a turn of three arguments and three replies ends within some 700 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidTurn:
    """What one side said in one round.

    Attributes:
        said: its percentages as distributions, one for each thing that is rated; None where they
            do not sum to about 100.
        raw_sums: of the percentages, before they were divided.
        answers: replies to the other's arguments, by their ids.
        concedes: ids of the other's arguments that it now accepts.
    """

    said: tuple[Distribution, ...] | None
    raw_sums: tuple[int, ...]
    arguments: tuple[Argument, ...]
    answers: Mapping[str, str]
    concedes: tuple[str, ...]

    def distributions(self) -> tuple[Distribution, ...]:
        """`said`.

        Raises:
            TurnError: the percentages are none.
        """
        if self.said is None:
            raise TurnError(
                f"percentages sum to {', '.join(map(str, self.raw_sums))}; allowed: "
                f"{LOWEST_SUM} to {HIGHEST_SUM}"
            )
        return self.said


def turn_schema(
    scale: LabelScale, others: Sequence[str], rated: Sequence[str], most: int
) -> dict[str, object]:
    """The JSON schema of a turn.

    Args:
        others: ids of the other side's arguments, which may be answered and conceded.
        rated: names of what is rated: one, or both sides' positions.
        most: arguments in a turn.
    """
    labels = {"type": "string", "enum": list(scale.names)}
    sentence = {"type": "string", "minLength": 1, "maxLength": LONGEST_SENTENCE}
    argument = _object(
        {
            "label": labels,
            "claim": sentence,
            "reason": sentence,
            "quote": {"type": "string", "maxLength": LONGEST_QUOTE},
        }
    )
    percent = {"type": "integer", "minimum": 0, "maximum": 100}
    parts: dict[str, object] = {}
    if others:
        known = {"type": "string", "enum": list(others)}
        answer = _object({"of": known, "reply": sentence})
        parts["answers"] = {"type": "array", "items": answer, "maxItems": most}
        parts["concedes"] = {"type": "array", "items": known, "maxItems": most}
    parts["arguments"] = {"type": "array", "items": argument, "minItems": 1, "maxItems": most}
    by_label = _object(dict.fromkeys(scale.names, percent))
    parts["distributions"] = _object(dict.fromkeys(rated, by_label))
    return _object(parts)


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


class _Argument(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    label: str
    claim: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    quote: str = ""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    of: str
    reply: str


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    arguments: list[_Argument] = Field(min_length=1)
    answers: list[_Answer] = []
    concedes: list[str] = []
    distributions: dict[str, dict[str, int]]


def parse_turn(
    text: str,
    *,
    scale: LabelScale,
    side: Side,
    round_: int,
    source: str,
    others: Sequence[str],
    rated: Sequence[str],
    most: int,
) -> SaidTurn:
    """The turn that a text holds.

    Args:
        source: the text that is debated, in which quotes are looked for.

    Raises:
        TurnError: it is no JSON, lacks something, or names a label or an argument that is not.
    """
    try:
        given = _Turn.model_validate_json(text)
    except ValidationError as error:
        raise TurnError(problems_of(error)) from None
    _check_names(given, scale, others, rated)
    if len(given.arguments) > most:
        raise TurnError(f"has {len(given.arguments)} arguments; allowed: {most}")
    arguments = tuple(
        Argument(
            argument_id=f"{side}{round_}.{number}",
            side=side,
            round=round_,
            label=one.label,
            claim=one.claim,
            reason=one.reason,
            quote=one.quote,
            quote_at=find_quote(one.quote, source),
        )
        for number, one in enumerate(given.arguments, start=1)
    )
    percentages = [given.distributions[name] for name in rated]
    sums = tuple(sum(one.values()) for one in percentages)
    whole = all(LOWEST_SUM <= total <= HIGHEST_SUM for total in sums)
    return SaidTurn(
        said=_divided(percentages, scale) if whole else None,
        raw_sums=sums,
        arguments=arguments,
        answers=_answers(given.answers),
        concedes=tuple(dict.fromkeys(given.concedes)),
    )


def _answers(given: Sequence[_Answer]) -> dict[str, str]:
    """Replies by the argument they answer; two to the same one are one reply."""
    replies: dict[str, str] = {}
    for one in given:
        replies[one.of] = f"{replies[one.of]} {one.reply}" if one.of in replies else one.reply
    return replies


def _check_names(
    given: _Turn, scale: LabelScale, others: Sequence[str], rated: Sequence[str]
) -> None:
    named = [one.of for one in given.answers] + given.concedes
    if set(named) - set(others):
        raise TurnError(
            f"answers or concedes {sorted(set(named) - set(others))}, which nobody said"
        )
    if set(given.distributions) != set(rated):
        raise TurnError(f"rates {sorted(given.distributions)} instead of {sorted(rated)}")
    labels = [one.label for one in given.arguments]
    labels += [label for one in given.distributions.values() for label in one]
    unknown = sorted(set(labels) - set(scale.names))
    if unknown:
        raise TurnError(f"names labels that are not on the scale: {', '.join(map(repr, unknown))}")
    if any(percent < 0 for one in given.distributions.values() for percent in one.values()):
        raise TurnError("a percentage is negative")


def _divided(
    percentages: Sequence[Mapping[str, int]], scale: LabelScale
) -> tuple[Distribution, ...]:
    return tuple(tuple(x / sum(one.values()) for x in scale.aligned(one)) for one in percentages)


class _Percentages(BaseModel):
    model_config = ConfigDict(extra="ignore")
    distribution: dict[str, int]


def parse_percentages(text: str, scale: LabelScale) -> Distribution:
    """The distribution of a one-shot answer.

    Raises:
        TurnError: it holds none.
    """
    try:
        percent = _Percentages.model_validate_json(text).distribution
    except ValidationError as error:
        raise TurnError(problems_of(error)) from None
    total = sum(percent.values())
    if min(percent.values(), default=-1) < 0 or not LOWEST_SUM <= total <= HIGHEST_SUM:
        raise TurnError(f"percentages sum to {total}; allowed: {LOWEST_SUM} to {HIGHEST_SUM}")
    try:
        return tuple(x / total for x in scale.aligned(percent))
    except KeyError as error:
        raise TurnError(f"names the label {error}, which is not on the scale") from None


def one_shot_schema(scale: LabelScale) -> dict[str, object]:
    """The JSON schema of a label without a dialogue: a reason, then percentages."""
    percent = {"type": "integer", "minimum": 0, "maximum": 100}
    return _object(
        {
            "reason": {"type": "string", "minLength": 1, "maxLength": 2 * LONGEST_SENTENCE},
            "distribution": _object(dict.fromkeys(scale.names, percent)),
        }
    )
