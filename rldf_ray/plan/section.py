"""What every section of a plan is, and how its fields are described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_yes_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # YAML reads yes, on and true as True, which would pass for 1.
        if isinstance(value, bool) and info.field_name is not None:
            types = {*_types_in(cls.model_fields[info.field_name].annotation)}
            if types & {int, float} and bool not in types:
                raise ValueError("Input should be a number, which yes, no, true and false are not")
        return value


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types that a field's annotation names, and those of the values of its literals."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        yield from map(type, arguments)
    elif arguments:
        for argument in arguments:
            yield from _types_in(argument)
    else:
        yield annotation


def described(default: Any, text: str, *, unit: str = "", source: str = "", **limits: Any) -> Any:
    """A field with its meaning, unit and source, which `rldf plan fields` prints."""
    return Field(
        default, description=text, json_schema_extra={"unit": unit, "source": source}, **limits
    )
