"""Prompts are text files: Jinja templates in a `prompts` folder beside the code that sends them.

This folder has the one that everything shares: `answer.txt`, the prompt of SFT, reward model, PPO,
evaluation and serving.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import jinja2


class Render(Protocol):
    """Fills in a template, named without its .txt; the result has no outer blank space."""

    def __call__(self, template: str, /, **values: object) -> str: ...


def templates(folder: Path) -> Render:
    """A function that renders the templates of `folder`.

    A value that a template asks for and that is not given is an error (`jinja2.UndefinedError`).
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )

    def render(template: str, /, **values: object) -> str:
        return environment.get_template(f"{template}.txt").render(**values).strip()

    return render


def prompts_beside(module: str) -> Render:
    """`templates` of the `prompts` folder beside a module, given its `__file__`."""
    return templates(Path(module).parent / "prompts")


render = templates(Path(__file__).parent)
