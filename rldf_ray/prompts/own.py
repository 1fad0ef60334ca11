"""Prompts of one's own: which shipped ones they may take the place of, and what they fill in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import jinja2

from rldf_ray.errors import UserError
from rldf_ray.prompts import PACKAGE, environment
from rldf_ray.prompts.fields import TemplateError, template_fields


class PromptError(UserError, ValueError):
    """A prompt that cannot take the place of a shipped one; the message names the file."""


def shipped_prompts(scopes: Sequence[str]) -> list[str]:
    """The prompts below these folders of `rldf_ray`, named as 'referee/prompts/score.txt'."""
    paths = (path for scope in scopes for path in (PACKAGE / scope).glob("**/prompts/*.txt"))
    return sorted(path.relative_to(PACKAGE).as_posix() for path in paths if path.name[0] != ".")


def check_prompts(texts: Mapping[str, str], scopes: Sequence[str]) -> None:
    """Nothing where every text can be filled in as the shipped one of its name.

    It has to use the same values, and reads nothing of them that the shipped one does not: what
    else they may have is no promise.

    Args:
        scopes: the folders whose prompts are sent.

    Raises:
        PromptError: a name is none of theirs, or a text has other fields or is no template.
    """
    allowed = shipped_prompts(scopes)
    for name in texts:
        if name not in allowed:
            raise PromptError(f"{name}: there is no such prompt; allowed: {', '.join(allowed)}")
    by_folder: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name, text in texts.items():
        folder, _, file = name.rpartition("/")
        by_folder[folder][file] = text
    for folder, files in by_folder.items():
        shipped = jinja2.FileSystemLoader(PACKAGE / folder)
        before = environment(shipped)
        now = environment(jinja2.ChoiceLoader([jinja2.DictLoader(files), shipped]))
        for file in files:
            _check_fields(f"{folder}/{file}", file, before, now)


def _check_fields(
    name: str, file: str, before: jinja2.Environment, now: jinja2.Environment
) -> None:
    allowed = template_fields(before, file)
    try:
        found = template_fields(now, file)
    except TemplateError as error:
        raise PromptError(f"{name} is no template: {error}") from None
    if found <= allowed and _values(found) == _values(allowed):
        return
    raise PromptError(
        f"{name} has the fields {_listed(found)}; the shipped one has {_listed(allowed)}: use "
        "each of these values, and nothing else of them"
    )


def _values(fields: frozenset[str]) -> set[str]:
    """What a template is given, without what it reads of it."""
    return {field for field in fields if not {".", "["} & set(field)}


def _listed(fields: frozenset[str]) -> str:
    return ", ".join(sorted(fields)) or "none"
