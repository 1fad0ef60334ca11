"""A form for raters: one HTML page that needs no server and no network, and saves a sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """What is filled in for each item.

    Attributes:
        pattern: a regular expression of the whole text, for browsers.
        problem: what to say of another text.
    """

    name: str
    title: str
    hint: str
    pattern: str
    problem: str
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """All that a form shows.

    Attributes:
        sheet: its name.
        noun, done: of an item, as "Answer"; of several with what is done, as "answers rated".
        rubrics: of `evaluate.judge.rubrics`, shown on top; none is fine.
        items: code, and texts by the columns of the sheet, the question first.
    """

    sheet: str
    title: str
    intro: str
    noun: str
    done: str
    rubrics: Sequence[Any]
    fields: Sequence[FormField]
    columns: Sequence[str]
    items: Sequence[tuple[str, Mapping[str, str]]]


def form_page(form: Form) -> str:
    """The page."""
    return _templates.get_template("form.html.jinja").render(form=form)
