"""What every request body has in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from rldf_ray.apps.serve.output_forms import OutputFormError, check_form
from rldf_ray.apps.serve.settings import Limits
from rldf_ray.errors import UserError

Text = Annotated[str, StringConstraints(max_length=1_000_000)]


class BodyError(UserError, ValueError):
    """A request that is well-formed and goes too far; `param` is the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Body(BaseModel):
    """A field it does not know is refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _nulls_ask_for_nothing(cls, given: object) -> object:
        """Clients send fields that they leave unset as null, those of other servers too."""
        if not isinstance(given, dict):
            return given
        known = {name for key, field in cls.model_fields.items() for name in (key, field.alias)}
        return {k: value for k, value in given.items() if value is not None or k in known}


class Decoding(Body):
    """How every route that generates may be told to draw tokens."""

    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, lt=2**31)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = Field(None, ge=0, lt=2**63)
    stream: bool | None = None
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None


def fields_set(body: Body) -> dict[str, Any]:
    """What a body has, by its fields' names in JSON; nulls are not there.

    Raises:
        BodyError: it is nested deeper than JSON can be written.
    """
    try:
        return body.model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValueError as error:
        raise BodyError(f"the request is nested too deeply: {error}") from error


# They describe the caller or its bookkeeping, not the answer; nothing is stored.
IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")


def checked_form(form: dict[str, Any], limits: Limits, param: str) -> dict[str, Any]:
    """An output form in vLLM's words, looked through (`output_forms.check_form`).

    Raises:
        BodyError: it goes too far; `param` is the field that it stands in.
    """
    try:
        check_form(form, limits)
    except OutputFormError as error:
        raise BodyError(str(error), param) from error
    return form


def characters(value: object) -> int:
    """Of all texts in a value of JSON, and of its keys."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + characters(inner) for key, inner in value.items())
    return sum(map(characters, value)) if isinstance(value, list) else 0


def at_most(field: str, value: int, most: int) -> int:
    """`value`.

    Raises:
        BodyError: it is more than `most`.
    """
    if value > most:
        raise BodyError(f"{field} is {value}; this server takes at most {most}", field.split()[0])
    return value
