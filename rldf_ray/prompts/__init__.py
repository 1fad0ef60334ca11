"""Prompts are text files: Jinja templates in a `prompts` folder beside the code that sends them.

This folder has the one that everything shares: `answer.txt`, the prompt of SFT, reward model, PPO,
evaluation and serving. A plan's own prompts take the place of shipped ones while its run or study
is carried out (`own_prompts`); `own.py` checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

PACKAGE = Path(__file__).parents[1]

Texts = tuple[tuple[str, str], ...]

# Of the context, which the tasks of an event loop inherit: protocols fill their prompts in deep
# inside coroutines that know of no plan, and a program may carry out several plans.
_own: ContextVar[Texts] = ContextVar("own_prompts", default=())


class Render(Protocol):
    """Fills in a template, named without its .txt; the result has no outer blank space."""

    def __call__(self, template: str, /, **values: object) -> str: ...


@contextmanager
def own_prompts(texts: Mapping[str, str] | None) -> Iterator[None]:
    """Fill in `texts` instead of shipped prompts of the same names, until the context ends.

    Args:
        texts: by the name of the shipped file below `rldf_ray`, as 'referee/prompts/score.txt';
            None is the shipped ones alone.
    """
    token = _own.set(tuple(sorted((texts or {}).items())))
    try:
        yield
    finally:
        _own.reset(token)


def templates(folder: Path) -> Render:
    """A function that renders the templates of `folder`.

    A value that a template asks for and that is not given is an error (`jinja2.UndefinedError`).
    """
    shipped = environment(jinja2.FileSystemLoader(folder))
    inside = f"{folder.relative_to(PACKAGE).as_posix()}/" if folder.is_relative_to(PACKAGE) else ""

    @lru_cache(maxsize=8)
    def with_own(texts: Texts) -> jinja2.Environment:
        # Another person's plan may hold them, so they compute nothing.
        return environment(
            jinja2.ChoiceLoader([jinja2.DictLoader(dict(texts)), jinja2.FileSystemLoader(folder)]),
            ImmutableSandboxedEnvironment,
        )

    def render(template: str, /, **values: object) -> str:
        own = tuple(
            (name.removeprefix(inside), text)
            for name, text in _own.get()
            if inside and name.startswith(inside)
        )
        known = with_own(own) if own else shipped
        return known.get_template(f"{template}.txt").render(**values).strip()

    return render


def environment(
    loader: jinja2.BaseLoader, kind: type[jinja2.Environment] = jinja2.Environment
) -> jinja2.Environment:
    """How all templates are read."""
    return kind(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def prompts_beside(module: str) -> Render:
    """`templates` of the `prompts` folder beside a module, given its `__file__`."""
    return templates(Path(module).parent / "prompts")


render = templates(Path(__file__).parent)
