"""Texts that people give."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character (U+0000); allowed: any other")
    return text


AnyText = Annotated[str, AfterValidator(_without_nul)]
"""NUL ends a text for many programs that read files of it."""

Text = Annotated[AnyText, Field(min_length=1, pattern=r"\S")]
