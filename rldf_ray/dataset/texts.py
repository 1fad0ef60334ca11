"""Texts that people give."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from rldf_ray.models.thinking import split_thinking


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character (U+0000); allowed: any other")
    return text


AnyText = Annotated[str, AfterValidator(_without_nul)]
"""NUL ends a text for many programs that read files of it."""


def without_thinking(text: str) -> str:
    """The answer of a model whose thinking may stand before it.

    Raises:
        ValueError: the text ends inside a thought.
    """
    said = split_thinking(text)
    if not said.ended:
        raise ValueError("ends inside a thought, after <think>; allowed: one that holds an answer")
    return said.answer


Answer = Annotated[AnyText, AfterValidator(without_thinking)]

Text = Annotated[AnyText, Field(min_length=1, pattern=r"\S")]
