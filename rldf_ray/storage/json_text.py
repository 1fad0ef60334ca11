"""JSON that every reader takes: Python's own writes NaN and Infinity, which JSON does not have."""

from __future__ import annotations

import json
import math
from typing import Any

from rldf_ray.errors import UserError


class NotFiniteError(UserError, ValueError):
    """A number is NaN or infinite where nothing may stand in its place; the message names it."""


def json_text(value: object, **how: Any) -> str:
    """`value` as JSON, where a number that is NaN or infinite is null: it is not known.

    Args:
        how: what `json.dumps` takes besides.
    """
    try:
        return json.dumps(value, allow_nan=False, **how)
    except ValueError:
        return json.dumps(_known(value), allow_nan=False, **how)


def exact_json(value: object, what: str, advice: str = "", **how: Any) -> str:
    """`value` as JSON, where a null would be read as something else.

    Args:
        what: what it is, as the beginning of a sentence.
        advice: what to do about a number that is none.
        how: what `json.dumps` takes besides.

    Raises:
        NotFiniteError: a number in it is NaN or infinite.
    """
    try:
        return json.dumps(value, allow_nan=False, **how)
    except ValueError:
        place = _not_finite(value, "")
        if place is None:
            raise
        where = place.lstrip(".") or "it"
        raise NotFiniteError(
            f"{what} cannot be written: {where} is NaN or infinite" + (advice and f"; {advice}")
        ) from None


def _known(value: object) -> object:
    if isinstance(value, dict):
        return {key: _known(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_known(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _not_finite(value: object, path: str) -> str | None:
    """Where the first number that is none stands: 'samples[0].logprobs[3]'."""
    if isinstance(value, float) and not math.isfinite(value):
        return path
    members: list[tuple[str, object]] = []
    if isinstance(value, dict):
        members = [(f".{key}", member) for key, member in value.items()]
    elif isinstance(value, list | tuple):
        members = [(f"[{place}]", member) for place, member in enumerate(value)]
    places = (_not_finite(member, path + step) for step, member in members)
    return next((place for place in places if place is not None), None)
