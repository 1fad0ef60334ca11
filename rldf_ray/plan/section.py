"""What every section of a plan is, and how its fields are described."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def described(default: Any, text: str, *, unit: str = "", source: str = "", **limits: Any) -> Any:
    """A field with its meaning, unit and source, which `rldf plan fields` prints."""
    return Field(
        default, description=text, json_schema_extra={"unit": unit, "source": source}, **limits
    )
